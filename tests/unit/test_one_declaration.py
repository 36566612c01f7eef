"""A setting is declared once. Somebody who adds one edits two files, its declaration and its
column, and the API, both sites, the command line and the audit log have it.

The test makes these edits in a copy of the product's source, and runs the copy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dashboard.visitor import text_of

ROOT = Path(__file__).parents[2]
PRODUCT = ("api", "activities", "hookfast", "workflows")

DECLARATION = """
    spare_tokens: Annotated[
        int | None, Page(group="limits"), Dashboard("Spare tokens"), Portal("Spare sends")
    ] = Field(None, ge=0, le=50, description="Requests that may exceed the rate limit.")
    pace: Annotated[
        Literal["slow", "fast"], Page(group="limits"), Dashboard("Pace"), Portal("Your pace")
    ] = Field("slow", description="How hard it is driven.")
    is_quiet: Annotated[
        bool, Page(group="limits"), Dashboard("Quiet"), Portal("Is quiet")
    ] = Field(False, description="Whether nobody hears of it.")
    nicknames: Annotated[
        list[str], Page(group="limits"), Dashboard("Nicknames"), Portal("Short names")
    ] = Field(default_factory=list, description="What people call it.")
    motto: Annotated[str | None, Dashboard("Motto"), Portal("Motto")] = Field(
        None, description="What it says."
    )
"""
COLUMNS = """
    spare_tokens: int | None = None
    pace: str
    is_quiet: bool
    nicknames: list[str] = Field(sa_type=JSON)
    motto: str | None = None
"""
EDITS = {  # the files, with the lines before which something is inserted
    "hookfast/resources/endpoint.py": ("    max_in_flight: Annotated[", DECLARATION),
    "hookfast/storage/tables/endpoints.py": ("    max_in_flight: int", COLUMNS),
    "hookfast/resources/source.py": (
        "    options: Annotated[",
        '    region: Annotated[str | None, Dashboard("Region")] = Field(\n'
        '        None, description="Where it sends from."\n    )\n',
    ),
    "hookfast/storage/tables/inbox.py": (
        "    id_expression: str",
        "    region: str | None = None\n",
    ),
}

GIVEN = {
    "endpoint": {
        "url": "http://127.0.0.1:4/hook",
        "verification": "none",
        "spare_tokens": 7,
        "pace": "fast",
        "is_quiet": True,
        "nicknames": ["Till", "Ledger"],
    },
    "source": {"name": "GitHub", "provider": "github", "region": "Elbonia"},
    "typed": {"spare_tokens": "9", "pace": "slow", "nicknames": "Till\r\nDesk"},
}
SETTINGS = ("spare_tokens", "pace", "is_quiet", "nicknames")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Where the settings appear, see `tests.support.setting_appearances`."""
    copy = tmp_path_factory.mktemp("product")
    for name in PRODUCT:
        shutil.copytree(ROOT / name, copy / name)
    for name, (before, inserted) in EDITS.items():
        _insert(copy / name, before, inserted)
    path = os.pathsep.join(map(str, (copy, ROOT, ROOT / "packages" / "client")))
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.setting_appearances"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        input=json.dumps(GIVEN),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    appearances: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])  # after the log
    return appearances


def _insert(file: Path, before: str, inserted: str) -> None:
    text = file.read_text()
    assert text.count(before) == 1, (file, before)
    file.write_text(text.replace(before, inserted.removeprefix("\n") + before))


def test_few_files_name_a_setting() -> None:
    """The declaration, the column, and what enforces the setting."""
    naming = [
        str(file.relative_to(ROOT))
        for folder in PRODUCT
        for file in (ROOT / folder).rglob("*.*")
        if file.suffix != ".pyc" and b"max_in_flight" in file.read_bytes()
    ]
    assert len(naming) <= 8, naming


@pytest.mark.parametrize("name", SETTINGS)
def test_the_api_describes_accepts_and_answers_a_new_setting(
    found: dict[str, Any], name: str
) -> None:
    schemas = found["document"]["components"]["schemas"]
    for view in ("NewEndpoint", "EndpointView"):
        assert schemas[view]["properties"][name]["description"] in DECLARATION
    patch = found["document"]["paths"]["/v1/endpoints/{endpoint_id}"]["patch"]["requestBody"]
    [document] = patch["content"].values()
    assert name in document["schema"]["properties"]
    assert found["endpoint"][name] == GIVEN["endpoint"][name]
    assert found["endpoint audit log"][name] == {"after": GIVEN["endpoint"][name]}


def test_the_api_document_has_no_words_of_pages(found: dict[str, Any]) -> None:
    assert "Spare sends" not in json.dumps(found["document"])


def test_a_polled_endpoint_may_not_have_a_new_setting(found: dict[str, Any]) -> None:
    assert found["polled"]["errors"][0]["pointer"] == "/spare_tokens"


@pytest.mark.parametrize("page", ["dashboard new", "dashboard form", "portal new", "portal form"])
def test_forms_have_the_inputs_of_a_new_setting(found: dict[str, Any], page: str) -> None:
    html = unescape(found[page])
    labels = {
        "dashboard": ("Spare tokens", "Pace", "Quiet", "Nicknames"),
        "portal": ("Spare sends", "Your pace", "Is quiet", "Short names"),
    }[page.partition(" ")[0]]
    for name, label in zip(SETTINGS, labels, strict=True):
        assert re.search(
            rf'<span>{label}</span><(input type="text"|select|textarea) name="{name}"', html
        )
    if page == "dashboard form":
        assert 'name="spare_tokens" value="7"' in html
        assert '<option value="fast" selected>' in html
        assert '<option value="yes" selected>' in html
        assert "Till\nLedger</textarea>" in html


def test_pages_show_the_values_of_a_new_setting(found: dict[str, Any]) -> None:
    shown = text_of(found["dashboard page"])
    assert "Spare tokens: 7, Pace: fast, Quiet: yes, Nicknames: Till, Ledger" in shown
    # after the dashboard's form was submitted
    shown = text_of(found["portal page"])
    assert "Limits Spare sends: 9, Your pace: slow, Short names: Till, Desk" in shown
    assert "Spare tokens: 7" in text_of(found["dashboard list"])


def test_a_new_setting_without_a_group_is_a_fact_of_its_own(found: dict[str, Any]) -> None:
    assert "Motto none" in text_of(found["dashboard page"])
    form = f"/dashboard/endpoints/{found['endpoint']['id']}/settings/motto"
    assert f'href="{form}"' in found["dashboard page"]
    assert "Motto" not in text_of(found["portal page"])
    for page in ("dashboard new", "portal new"):
        assert '<span>Motto</span><input type="text" name="motto"' in found[page]


def test_the_form_of_a_group_saves_a_new_setting(found: dict[str, Any]) -> None:
    saved = [found["endpoint typed"][name] for name in SETTINGS]
    assert saved == [9, "slow", False, ["Till", "Desk"]]


def test_the_command_line_has_an_option_for_a_new_setting_and_shows_it(
    found: dict[str, Any],
) -> None:
    for option, text in (
        ("--spare-tokens", "Requests that may exceed the rate limit."),
        ("--pace", "How hard it is driven."),
        ("--is-quiet", "Whether nobody hears of it."),
        ("--nicknames", "What people call it. Repeatable."),
    ):
        assert re.search(rf"{option} .* {re.escape(text)} ", found["endpoint command help"])
    shown = found["endpoint command show"]
    assert re.search(r"^spare tokens +9 *$", shown, re.MULTILINE)
    assert re.search(r"^nicknames +Till, Desk *$", shown, re.MULTILINE)


def test_a_new_setting_of_a_source_is_everywhere_too(found: dict[str, Any]) -> None:
    schemas = found["document"]["components"]["schemas"]
    assert schemas["SourceView"]["properties"]["region"]["description"] == "Where it sends from."
    assert found["source"]["region"] == "Elbonia"
    assert found["source audit log"]["region"] == {"after": "Elbonia"}
    for page in ("dashboard source_new", "dashboard source_form"):
        assert '<span>Region</span><input type="text" name="region"' in found[page]
    assert 'name="region" value="Elbonia"' in found["dashboard source_form"]
    assert "Region Elbonia" in text_of(found["dashboard source_page"])
    assert re.search(r"--region .* Where it sends from.", found["source command help"])
    assert re.search(r"^region +Elbonia *$", found["source command show"], re.MULTILINE)
