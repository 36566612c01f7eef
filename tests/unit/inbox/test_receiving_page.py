"""docs/receiving.md documents every provider, option and key as in the code."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import get_args

from hookfast.inbox import PROVIDERS, provider
from hookfast.inbox.body_hmac import BodyHmac
from hookfast.inbox.errors import RejectionCode
from hookfast.inbox.expression import FUNCTIONS, LIMITS, MAX_KEY_LENGTH
from hookfast.inbox.naming import event_name
from hookfast.inbox.provider import MAX_ID_LENGTH

PAGE = Path(__file__).parents[3].joinpath("docs/receiving.md").read_text()


def section(title: str) -> str:
    """Return the text from a heading to the next one."""
    return re.split(r"^#+ ", PAGE.split(f" {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def table_of_providers() -> dict[str, dict[str, str]]:
    """Return the rows of each provider in the table, by what they are about."""
    table: dict[str, dict[str, str]] = {}
    rows = re.findall(
        r"^\| (?:`(\w+)`)? ?\| ([\w ]+) \| (.+) \|$", section("Providers"), re.MULTILINE
    )
    for name, about, text in rows:
        if name:
            table[name] = {}
        table[[*table][-1]][about] = text
    return table


def test_the_table_has_every_provider_with_what_a_user_has_to_know() -> None:
    table = table_of_providers()
    assert sorted(table) == sorted(PROVIDERS)
    for name, rows in table.items():
        missing = {"signature", "secret", "set up", "event type", "delivery id"} - set(rows)
        assert missing == ({"set up"} if name == "generic" else set()), name


def test_the_table_has_the_headers_of_each_provider_that_signs_the_body_alone() -> None:
    table = table_of_providers()
    schemes = [one.scheme for one in PROVIDERS.values() if issubclass(one, BodyHmac)]
    assert schemes
    for scheme in schemes:
        rows = table[scheme.name]
        assert (
            f"`{scheme.signature_headers[0]}: {scheme.prefix}<{scheme.encoding}>`"
            in (rows["signature"])
        )
        for header in chain(*scheme.delivery_headers):
            assert f"`{header}`" in rows["delivery id"]
        assert any(f"`{header}`" in rows["event type"] for header in chain(*scheme.type_headers))


def test_every_option_is_documented() -> None:
    for found in PROVIDERS.values():
        for option in found.model_fields:
            assert f"`{option}`" in section("Options")


def test_the_documented_options_are_valid() -> None:
    example = json.loads(PAGE.split("```json\n")[1].split("```")[0])
    assert provider(example["provider"], example["options"]).name == "generic"


def test_every_rejection_code_is_documented() -> None:
    for code in get_args(RejectionCode):
        assert f"`{code}`" in section("Rejections")


def test_every_function_and_limit_is_documented() -> None:
    text = " ".join(section("Key expressions").split())
    assert set(re.findall(r"`(\w+)`", text.split("functions")[1].split(".")[0])) == FUNCTIONS
    assert f"at most {LIMITS.length} characters" in text
    assert f"over {MAX_KEY_LENGTH} characters" in text
    assert f"at most {MAX_ID_LENGTH} characters" in section("Keys")
    longest = event_name("x", "a" * 500).split(".")[1]
    assert f"cut after {len(longest)} characters" in " ".join(section("Event types").split())


def test_the_documented_suggested_keys_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)\.\S+.* \| `(.+)` \|$", section("Key expressions"), re.MULTILINE)
    assert len(rows) == 9
    for name, expression in rows:
        suggested = PROVIDERS[name].suggested_keys.values()
        assert expression.replace("\\|", "|") in suggested
