"""Tests and settings that docs/security.md names exist, and the networks it lists are blocked."""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path

import pytest

from hookfast.sender import AddressBlocked, AddressGuard
from hookfast.settings.settings import Settings

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "security.md").read_text()
PATHS = sorted(set(re.findall(r"`(tests/[^`]+)`", TEXT)))
ROWS = "\n".join(line for line in TEXT.splitlines() if line.startswith("|"))
NETWORKS = re.findall(r"`([0-9a-f.:]+/[0-9]+)`", ROWS)
OWASP = dict(re.findall(r"^\| (API\d+) [^|]*(\|.*)$", TEXT, re.MULTILINE))


@pytest.mark.parametrize("path", PATHS)
def test_every_named_test_file_exists_and_has_tests(path: str) -> None:
    assert re.search(r"^(async )?def test_", (ROOT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize("item", [f"API{number}" for number in range(1, 11)])
def test_every_item_of_the_top_ten_names_its_tests(item: str) -> None:
    assert "`tests/" in OWASP[item]


@pytest.mark.parametrize("network", NETWORKS)
def test_every_listed_network_is_blocked_from_end_to_end(network: str) -> None:
    for address in (ip_network(network)[0], ip_network(network)[-1]):
        with pytest.raises(AddressBlocked):
            AddressGuard().check([str(address)])


def test_more_than_30_networks_are_listed() -> None:
    assert len(set(NETWORKS)) > 30


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"HOOKFAST_([A-Z_]+)", TEXT))))
def test_every_named_setting_exists(variable: str) -> None:
    assert variable.lower() in Settings.model_fields


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]*)#?([\w-]*)\)", TEXT))))
def test_links_lead_to_headings(link: tuple[str, str]) -> None:
    path, anchor = link
    text = (ROOT / "docs" / path).read_text() if path else TEXT
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert not anchor or anchor in anchors
