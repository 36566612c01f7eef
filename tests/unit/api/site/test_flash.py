"""A message gets to the next page whatever it says: browsers drop a cookie of over 4096 bytes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fastapi import Request, Response

from api.site import flash
from api.site.flash import Flash
from hookfast.signing.keyring import Keyring

OWNER = "0" * 64
KEYRING = Keyring([bytes(32)])


def request(cookie: str = "") -> Request:
    app = SimpleNamespace(state=SimpleNamespace(context=SimpleNamespace(keyring=KEYRING)))
    return Request(
        {
            "type": "http",
            "scheme": "https",
            "server": ("hookfast.test", 443),
            "path": "/dashboard",
            "query_string": b"",
            "headers": [(b"cookie", cookie.encode())],
            "app": app,
        }
    )


@pytest.mark.parametrize("character", ["x", "ü", "失", "🦊", '"', "\\"])
def test_a_long_message_fits_into_a_cookie(character: str) -> None:
    response = Response()
    flash.put(request(), response, Flash("bad", character * 1_000), owner=OWNER)
    cookie = response.headers["set-cookie"].partition(";")[0]
    assert len(cookie) <= 4_096
    told = flash.take(request(cookie), owner=OWNER)
    assert told is not None
    assert told.text == character * len(told.text)
    assert len(told.text) >= 500
