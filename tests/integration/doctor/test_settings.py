"""The doctor on settings that are dangerous in production, and on files everyone may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.doctor.conftest import installation, problems, run_check

pytestmark = pytest.mark.anyio

_ANY = "0.0.0.0"  # noqa: S104 - nothing listens here
_BEHIND_A_PROXY = {
    "host": _ANY,
    "public_url": "https://hooks.example.com",
    "trusted_proxies": "10.0.0.2/32",
}


@pytest.mark.parametrize("good", [{}, _BEHIND_A_PROXY, {"allowed_ports": "443"}])
async def test_defaults_and_a_proxy_with_tls_are_ok(tmp_path: Path, good: dict[str, Any]) -> None:
    assert problems(await run_check("settings", installation(tmp_path, None, **good))) == {}


@pytest.mark.parametrize(
    ("given", "name", "status"),
    [
        ({"allow_http": True}, "allow_http", "warn"),
        ({"allow_unverified": True}, "allow_unverified", "warn"),
        ({"allowed_private_networks": "10.1.0.0/16"}, "allowed_private_networks", "warn"),
        ({"allowed_private_networks": "10.1.0.0/16,0.0.0.0/0"}, "allowed_private_networks", "fail"),
        ({"allowed_private_networks": "::/0"}, "allowed_private_networks", "fail"),
        (_BEHIND_A_PROXY | {"trusted_proxies": "0.0.0.0/0"}, "trusted_proxies", "fail"),
        (_BEHIND_A_PROXY | {"trusted_proxies": ""}, "trusted_proxies", "warn"),
        ({"host": _ANY}, "public_url", "warn"),
        ({"public_url": "http://hooks.example.com"}, "public_url", "warn"),
        ({"shutdown_grace": 30}, "shutdown_grace", "warn"),
    ],
)
async def test_dangerous_setting_is_named(
    tmp_path: Path, given: dict[str, Any], name: str, status: str
) -> None:
    found = problems(await run_check("settings", installation(tmp_path, None, **given)))
    assert {one: got for one, (got, _) in found.items()} == {f"settings.{name}": status}
    assert f"HOOKFAST_{name.upper()}" in found[f"settings.{name}"][1]


async def test_links_that_only_this_machine_can_open_are_a_warning(tmp_path: Path) -> None:
    found = problems(await run_check("settings", installation(tmp_path, None, host="::")))
    assert "http://[::1]:8080, which only this machine can open" in found["settings.public_url"][1]
    found = problems(await run_check("settings", installation(tmp_path, None, host="10.0.0.5")))
    assert "http://10.0.0.5:8080." in found["settings.public_url"][1]


async def test_secret_file_that_everyone_may_read_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "operator_key"
    file.write_text("hf_" + "x" * 32)
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY_FILE", str(file))
    file.chmod(0o444)
    found = problems(await run_check("settings", installation(tmp_path, None)))
    assert f"chmod 400 {file}" in found["settings.files"][1]
    file.chmod(0o440)
    assert problems(await run_check("settings", installation(tmp_path, None))) == {}


async def test_a_home_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, where a folder should be")
    found = problems(await run_check("disk", installation(tmp_path / "home", None)))
    assert found["disk"][0] == "fail"
    assert "HOOKFAST_HOME" in found["disk"][1]


async def test_missing_home_is_not_created(tmp_path: Path) -> None:
    found = problems(await run_check("disk", installation(tmp_path / "home", None)))
    assert found["disk"][0] == "warn"
    assert not (tmp_path / "home").exists()
