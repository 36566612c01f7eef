"""The README's and the guides' code for receivers works with what Hookfast sends."""

from __future__ import annotations

import re
import runpy
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from hookfast.deliveries.retry_plan import PRESETS
from hookfast.signing.signature import Profile, generate_secret, secret_key, sign

_ROOT = Path(__file__).parents[3]
_README = (_ROOT / "README.md").read_text()
_VERIFYING = (_ROOT / "docs/guides/verifying.md").read_text()
_RETRIES = (_ROOT / "docs/guides/retries.md").read_text()
_BLOCKS = re.findall(r"```python\n(.*?)```", _VERIFYING, re.DOTALL)
_BODY = b'{"id":"evt_1","type":"order.invoice.paid","data":{"amount":129900}}'


def _function(block: str, name: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(block, namespace)  # noqa: S102 - code of our README
    function: Callable[..., Any] = namespace[name]
    return function


def _headers(profile: Profile, secrets: list[str], at: float | None = None) -> Mapping[str, str]:
    return sign(
        profile,
        keys=[secret_key(secret) for secret in secrets],
        message_id="dlv_1",
        timestamp=int(at or time.time()),
        body=_BODY,
    )


def test_the_guides_stdlib_snippet_accepts_only_valid_signatures() -> None:
    verify = _function(_BLOCKS[0], "verify")
    old, new = generate_secret(), generate_secret()
    rotating = _headers(Profile.HOOK, [new, old])
    assert verify(old, rotating, _BODY)
    assert verify(new, rotating, _BODY)
    assert not verify(generate_secret(), rotating, _BODY)
    assert not verify(new, rotating, _BODY + b" ")
    assert not verify(new, _headers(Profile.HOOK, [new], time.time() - 301), _BODY)
    assert not verify(new, {}, _BODY)
    assert not verify(new, {"X-Hook-Signature": "ÿ", "X-Hook-Timestamp": "x"}, _BODY)


def test_the_guides_standard_webhooks_snippet_accepts_only_valid_signatures() -> None:
    receive = _function(_BLOCKS[1], "receive")
    secret = generate_secret()
    headers = _headers(Profile.STANDARD, [secret])
    assert receive(secret, headers, _BODY)["type"] == "order.invoice.paid"
    with pytest.raises(WebhookVerificationError):
        receive(secret, headers, _BODY + b" ")


def test_the_example_receiver_verifies_as_the_guide_does(monkeypatch: pytest.MonkeyPatch) -> None:
    example = (_ROOT / "docs/examples/receiver.py").read_text()
    assert _BLOCKS[0].partition("\n\n\n")[2] in example
    monkeypatch.setattr("sys.argv", ["receiver.py"])
    assert callable(runpy.run_path(str(_ROOT / "docs/examples/receiver.py"))["verify"])


def test_the_guides_table_has_every_retry_plan_with_its_timeout() -> None:
    listed = re.findall(r"^\| `(\w+)`.*\| (\d+) s \|", _RETRIES, re.MULTILINE)
    assert listed == [(plan.name, f"{plan.timeout:g}") for plan in PRESETS.values()]


@pytest.mark.parametrize("target", re.findall(r"\]\(((?!https?://)[^)]+)\)", _README))
def test_the_readmes_links_lead_to_files(target: str) -> None:
    assert (_ROOT / target).exists()


def test_the_readme_is_short() -> None:
    assert len(_README.splitlines()) <= 200
