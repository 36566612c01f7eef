"""Every command in every shell block exists: `hookfast …` with its arguments and options, `curl …`
with its path and body. test_tours.py runs the commands.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from jsonschema import Draft202012Validator
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from hookfast.cli import app
from tests.docs.fenced import DOCS, PAGES, ROOT
from tests.docs.shell_commands import shell_commands

# Other programs in our pages. They are not run, as a test must not change the machine; docker,
# kubectl and their files have tests in tests/unit/deploy.
OTHER_PROGRAMS = {
    "cat",
    "cp",
    "cut",
    "docker",
    "git",
    "grep",
    "jq",
    "kubectl",
    "make",
    "mkdir",
    "od",
    "openssl",
    "pip",
    "python",
    "python3",
    "rm",
    "sh",
    "sleep",
    "temporal",
    "touch",
    "tr",
    "uvicorn",
}
DOCUMENT: dict[str, Any] = json.loads((DOCS / "openapi.json").read_text())
COMMAND: Any = get_command(app)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_pages_commands_exist(page: Path, tmp_path: Path) -> None:
    for program, *arguments in shell_commands(page, tmp_path):
        if program == "hookfast":
            _parse(COMMAND, arguments, tmp_path)
        elif program == "curl":
            _check_request(arguments)
        else:
            assert program in OTHER_PROGRAMS, f"{program}: run it, or list it"


@pytest.mark.parametrize(
    "words", ["endpoints frobnicate", "endpoints pause", "emit --colour red", "jobs list too many"]
)
def test_unknown_command_is_detected(words: str, tmp_path: Path) -> None:
    with pytest.raises(TyperException):
        _parse(COMMAND, words.split(), tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["http://127.0.0.1:8080/v1/event"],
        ["-X", "PUT", "http://127.0.0.1:8080/v1/events"],
        ["http://127.0.0.1:8080/v1/events?colour=red"],
        ["-X", "POST", "http://127.0.0.1:8080/v1/events", "-d", '{"typ": "a.b.c"}'],
    ],
)
def test_invalid_request_is_detected(arguments: list[str]) -> None:
    with pytest.raises(AssertionError):
        _check_request(arguments)


def _parse(command: Any, arguments: list[str], folder: Path) -> None:
    """Parse the arguments. Raises the error of the command line for invalid ones."""
    context = command.context_class(command, info_name="hookfast")
    while isinstance(command, TyperGroup):
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.context_class(command, info_name=name, parent=context)
    command.parse_args(context, [str(_existing(folder, word)) for word in arguments])


def _existing(folder: Path, word: str) -> str | Path:
    """Create the file if the word names one that a command reads, and return its path."""
    if re.fullmatch(r"[\w./-]+\.(ndjson|json)", word):
        path = folder / word
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path
    return word


def _check_request(arguments: list[str]) -> None:
    url = next(word for word in arguments if word.startswith("http"))
    method = "POST" if any(word in ("-d", "--data") for word in arguments) else "GET"
    for option in ("-X", "--request"):
        if option in arguments:
            method = arguments[arguments.index(option) + 1]
    split = urlsplit(url)
    if split.port not in (None, 8080):
        return  # a program of the page's own
    if split.path not in ("", "/"):
        operation = _operation(method.lower(), split.path)
        names = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
        assert parse_qs(split.query).keys() <= names
        if "-d" in arguments:
            body = arguments[arguments.index("-d") + 1].replace("_…", "_" + "0" * 32)
            [content] = operation["requestBody"]["content"].values()
            whole = {**content["schema"], "components": DOCUMENT["components"]}
            value = json.loads(body)
            faults = [fault.message for fault in Draft202012Validator(whole).iter_errors(value)]
            assert faults == []


def _operation(method: str, path: str) -> Any:
    for template, methods in DOCUMENT["paths"].items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]*", re.escape(template))
        if re.fullmatch(pattern, path) and method in methods:
            return methods[method]
    raise AssertionError(f"{method.upper()} {path} does not exist")
