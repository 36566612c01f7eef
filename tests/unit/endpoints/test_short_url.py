"""Short URLs name the receiver and keep credentials in paths to themselves."""

from __future__ import annotations

import pytest

from hookfast.endpoints.short_url import short_url


@pytest.mark.parametrize(
    ("url", "short"),
    [
        ("https://hooks.slack.com/services/T0001/B0001/XXXX", "https://hooks.slack.com/services/…"),
        ("https://discord.com/api/webhooks/1234/abcdef", "https://discord.com/api/…"),
        (
            "https://acme.webhook.office.com/webhookb2/0f1e@2d3c/IncomingWebhook/4b5a/6978",
            "https://acme.webhook.office.com/webhookb2/…",
        ),
        ("https://hooks.zapier.com/hooks/catch/1/abc/", "https://hooks.zapier.com/hooks/…"),
        ("https://shop.example/hooks?token=secret", "https://shop.example/hooks"),
        ("https://shop.example:8443/v1/webhooks#c", "https://shop.example:8443/v1/…"),
        ("https://user:secret@shop.example/", "https://shop.example/"),
        ("https://shop.example", "https://shop.example"),
        ("https://shop.example?token=secret", "https://shop.example"),
        ("https://[2001:db8::1]:8443/x?y", "https://[2001:db8::1]:8443/x"),
        ("https://shop.example//secret", "https://shop.example/…"),
        # segments that may be tokens
        ("https://webhook.site/5a1f6f0e-6f4f-4a5c-9c57-2f1f1b1b1b1b", "https://webhook.site/…"),
        ("https://shop.example/q7Rk2", "https://shop.example/…"),
        ("https://shop.example/correcthorsebatterystaple", "https://shop.example/…"),
        ("https://shop.example/%73ecret/x", "https://shop.example/…"),
        ("https://[broken", "…"),
    ],
)
def test_short_url_leaves_out_whatever_may_be_a_credential(url: str, short: str) -> None:
    assert short_url(url) == short
