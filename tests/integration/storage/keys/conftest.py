from __future__ import annotations

from functools import cache
from itertools import count

import pytest

from hookfast.signing.keys import generate_rsa
from hookfast.storage.keys import signing_keys


@pytest.fixture(autouse=True)
def the_same_rsa_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all tests use the same RSA keys: generating one takes a tenth of a second."""
    numbers = count()
    monkeypatch.setattr(signing_keys, "generate_rsa", lambda: _rsa_key(next(numbers)))


@cache
def _rsa_key(_number: int) -> str:
    return generate_rsa()
