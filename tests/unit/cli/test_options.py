"""Values of options."""

from __future__ import annotations

from hookfast.cli.remote.options import parse_object
from hookfast_client.json_text import encode


def test_numbers_of_an_option_are_sent_with_every_digit() -> None:
    text = '{"amount":{"$gt":0.10000000000000000001},"id":12345678901234567890,"price":1.10}'
    assert encode(parse_object(text, option="--filter")) == text.encode()
