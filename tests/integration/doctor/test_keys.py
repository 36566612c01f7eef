"""The doctor on keys that are lost, wrong, readable by everyone, or weak."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from sqlalchemy import update

from hookfast.clock import utc_now
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.keys.key_file import load_or_create
from hookfast.storage.keys.new_keys import ensure_operator_key
from hookfast.storage.tables import ApiKey
from tests.integration.doctor.conftest import OPERATOR_KEY, installation, problems, run_check
from tests.support.seed import KEY, seed_endpoint

pytestmark = pytest.mark.anyio

OTHER_KEY = base64.b64encode(bytes(32)).decode()
BOTH = f"{OTHER_KEY},{base64.b64encode(KEY).decode()}"


@pytest.fixture
async def settings(database: Database, tmp_path: Path) -> Settings:
    """An installation with an endpoint, whose secret is sealed with `KEY`."""
    settings = installation(tmp_path, database.url)
    await ensure_operator_key(database, settings, clock=utc_now)
    await seed_endpoint(database, "https://receiver.example/")
    return settings


async def test_keys_that_open_everything_are_ok(settings: Settings) -> None:
    findings = await run_check("keys", settings)
    assert problems(findings) == {}
    assert any("under the newest key" in one.saw for one in findings)


async def test_lost_key_is_reported_with_what_it_sealed(settings: Settings) -> None:
    wrong = settings.model_copy(update={"encryption_keys": _secret(OTHER_KEY)})

    status, said = problems(await run_check("keys", wrong))["keys.encryption"]

    assert status == "fail"
    assert "1 of 1" in said
    assert "ep_" in said
    assert OTHER_KEY not in said


async def test_older_key_is_reported_as_still_needed(settings: Settings) -> None:
    both = settings.model_copy(update={"encryption_keys": _secret(BOTH)})
    findings = await run_check("keys", both)
    assert problems(findings) == {}
    assert any("1 with an older key" in one.saw for one in findings)


@pytest.mark.parametrize("keys", ["not base64!", "c2hvcnQ=", f"{OTHER_KEY},"])
async def test_invalid_keys_fail_and_are_not_shown(settings: Settings, keys: str) -> None:
    findings = await run_check(
        "keys", settings.model_copy(update={"encryption_keys": _secret(keys)})
    )
    status, said = problems(findings)["keys.encryption"]
    assert (status, "openssl rand" in said) == ("fail", True)
    assert keys not in str(findings)


async def test_lost_key_file_is_reported_and_not_created_again(
    tmp_path: Path, sqlite_url: str
) -> None:
    settings = installation(tmp_path / "home", sqlite_url, encryption_keys=None)
    async with Database(sqlite_url) as database:
        await ensure_operator_key(database, settings, clock=utc_now)
        assert problems(await run_check("keys", settings)) == {}  # nothing is sealed yet
        await seed_endpoint(database, "https://receiver.example/")

    status, said = problems(await run_check("keys", settings))["keys.encryption"]

    assert status == "fail"
    assert "Restore the key file" in said
    assert not (tmp_path / "home").exists()


async def test_a_key_file_that_others_can_read_fails(sqlite_url: str, tmp_path: Path) -> None:
    load_or_create(tmp_path / "encryption.key")
    (tmp_path / "encryption.key").chmod(0o644)
    settings = installation(tmp_path, sqlite_url, encryption_keys=None)
    assert "chmod 600" in problems(await run_check("keys", settings))["keys.encryption"][1]


async def test_key_file_with_postgresql_is_a_warning(postgresql_url: str, tmp_path: Path) -> None:
    settings = installation(tmp_path, postgresql_url, encryption_keys=None, operator_key=None)
    found = problems(await run_check("keys", settings))
    assert found["keys.encryption"][0] == "warn"
    assert "another machine" in found["keys.encryption"][1]
    assert "hookfast migrate" in found["keys.operator"][1]  # there is no operator key yet


@pytest.mark.parametrize(
    "key",
    ["hf_" + "a" * 32, "hf_tour_0123456789abcdefghijklmnopqrstuv", "hf_" + "password" * 4],
)
async def test_operator_key_that_is_not_random_is_a_warning(
    settings: Settings, database: Database, key: str
) -> None:
    weak = settings.model_copy(update={"operator_key": _secret(key)})
    await ensure_operator_key(database, weak, clock=utc_now)
    findings = await run_check("keys", weak)
    assert problems(findings)["keys.operator"][0] == "warn"
    assert key not in str(findings)


async def test_an_operator_key_that_was_revoked_fails(
    settings: Settings, database: Database
) -> None:
    async with database.write() as connection:
        await connection.execute(update(ApiKey.__table__).values(revoked_at=utc_now()))
    findings = await run_check("keys", settings)
    assert "was revoked" in problems(findings)["keys.operator"][1]
    assert OPERATOR_KEY not in str(findings)


def _secret(value: str) -> object:
    return Settings(encryption_keys=value).encryption_keys
