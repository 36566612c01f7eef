"""Connecting to Hookfast, and the errors when that fails."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.service_process import free_ports
from tests.integration.cli.conftest import Run
from tests.support.api_client import OPERATOR_KEY
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

_NO_KEY = {"HOOKFAST_OPERATOR_KEY": ""}


async def test_the_key_may_come_from_a_file(hookfast: Run, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{OPERATOR_KEY}\n")
    ended = await hookfast("tenants", "list", "--json", "--key-file", str(file), env=_NO_KEY)
    assert ended.json == {"data": [], "next_cursor": None}


async def test_the_key_may_come_from_the_env_file_of_the_service(
    hookfast: Run, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text(f"HOOKFAST_OPERATOR_KEY={OPERATOR_KEY}\n")
    ended = await hookfast("tenants", "list", "--json", env=_NO_KEY)
    assert ended.code == 0, ended.err


async def test_the_key_may_come_from_the_secret_file_of_the_service(
    hookfast: Run, tmp_path: Path
) -> None:
    """As in a container: `docker compose exec api-1 hookfast tenants list`."""
    (tmp_path / "operator_key").write_text(f"{OPERATOR_KEY}\n")
    file = {"HOOKFAST_OPERATOR_KEY_FILE": str(tmp_path / "operator_key")}
    ended = await hookfast("tenants", "list", "--json", env=_NO_KEY | file)
    assert ended.code == 0, ended.err


async def test_an_api_key_comes_before_the_operators(hookfast: Run) -> None:
    wrong = "hf_" + "w" * 40
    ended = await hookfast("tenants", "list", env={"HOOKFAST_API_KEY": wrong})
    assert ended.code == 1
    assert "This API key is unknown, expired or revoked." in ended.err
    assert "The key that was sent is from HOOKFAST_API_KEY." in ended.err
    assert wrong not in ended.err


async def test_missing_key_error_says_how_to_give_one(hookfast: Run) -> None:
    ended = await hookfast("tenants", "list", env=_NO_KEY)
    assert (ended.code, ended.out) == (1, "")
    assert "Set HOOKFAST_API_KEY" in ended.err


@pytest.mark.parametrize("held", ["", "hf_sec ret", "hf_sécret", "hf_sec\nret"])
async def test_invalid_key_is_not_sent_and_not_repeated(
    hookfast: Run, tmp_path: Path, held: str
) -> None:
    file = tmp_path / "key"
    file.write_text(held)
    ended = await hookfast("tenants", "list", "--key-file", str(file))
    assert ended.code == 1
    assert f"the content of {file} is not an API key" in ended.err
    assert "ret" not in ended.err.replace(str(file), "")


async def test_unreachable_service_error_says_how_to_start_it(hookfast: Run) -> None:
    [port] = free_ports(1)
    ended = await hookfast("tenants", "list", "--url", f"http://127.0.0.1:{port}")
    assert (ended.code, ended.out) == (1, "")
    assert f"There is no Hookfast at http://127.0.0.1:{port}" in ended.err
    assert "Start it with `hookfast up`" in ended.err


async def test_another_server_is_not_taken_for_hookfast(hookfast: Run, receiver: Receiver) -> None:
    ended = await hookfast("tenants", "list", "--url", receiver.url(""))
    assert ended.code == 1
    assert "answered 200 OK, not as Hookfast does" in ended.err


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        ("200 OK", "{}", "answered without 'data', which Hookfast "),
        ("200 OK", '{"data": [{}], "next_cursor": null}', "answered without 'id', which Hookfast "),
        ("200 OK", "[]", "answered 200 OK, not as Hookfast does"),
        ("200 OK", "[" * 100_000, "answered 200 OK, not as Hookfast does"),
        ("404 No", '{"detail": "Not here.", "errors": ["x"]}', "hookfast: Not here."),
        ("422 No", '{"detail": "Not so.", "errors": {"url": "x"}}', "hookfast: Not so."),
    ],
)
async def test_another_json_server_is_not_taken_for_hookfast(
    hookfast: Run, receiver: Receiver, status: str, body: str, message: str
) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n"
    receiver.routes["/v1/tenants"] = f"/wire/{quote(head + body, safe='')}?close"
    ended = await hookfast("tenants", "list", "--url", receiver.url(""))
    assert (ended.code, ended.out) == (1, "")
    assert message in ended.error_text
    assert "Traceback" not in ended.err


async def test_local_service_is_found_at_its_configured_port(
    hookfast: Run, service_environment: dict[str, str]
) -> None:
    port = service_environment["HOOKFAST_URL"].rpartition(":")[2]
    ended = await hookfast("tenants", "list", env={"HOOKFAST_URL": "", "HOOKFAST_PORT": port})
    assert ended.code == 0, ended.err


async def test_rejected_request_names_the_wrong_members(hookfast: Run) -> None:
    ended = await hookfast("tenants", "create", "x" * 201)
    assert (ended.code, ended.out) == (1, "")
    assert "hookfast: The request does not have the expected form.\n  /name: " in ended.err


async def test_invalid_option_is_a_usage_error(hookfast: Run) -> None:
    ended = await hookfast("deliveries", "list", "--since", "yesterday")
    assert (ended.code, ended.out) == (2, "")
    assert "'yesterday' is neither a duration" in ended.error_text


async def test_an_id_cannot_lead_to_another_path(hookfast: Run) -> None:
    ended = await hookfast("deliveries", "show", "../tenants?x=1")
    assert ended.code == 2
    assert "there is no delivery '../tenants?x=1'" in ended.error_text
    ended = await hookfast("event-types", "show", "../tenants?x=1")
    assert ended.code == 1
    assert "There is nothing at this path" in ended.err or "no such" in ended.err.lower()
