"""`POST /in/…`: the checks before a request is accepted, their order, and rejections."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from api.context import source_cache
from api.context.context import Context
from hookfast.clock import utc_now
from hookfast.inbox import provider
from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.samples import sample
from hookfast.inbox.source_secrets import sealed_secrets
from hookfast.storage.inbox import source_stats, sources
from hookfast.storage.inbox.source_stats import Rejections
from tests.integration.api.inbound import SECRET, post, send, signed
from tests.integration.api.shared.sources import make_source, stats
from tests.support.api_client import assert_problem

pytestmark = pytest.mark.anyio


async def test_cheap_checks_run_before_those_that_cost_or_reveal_more(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant, active=False, allowed_networks=["192.0.2.0/24"]))[
        "id"
    ]
    too_large = b"{" + b" " * context.settings.max_inbox_bytes
    headers, _ = signed(too_large, secret="not this")
    headers["Content-Type"] = "text/plain"

    async def refused(status: int, code: str, body: bytes) -> None:
        assert_problem(await post(client, source, headers, body), status, code=code)

    async def fix(**members: Any) -> None:
        assert (await client.patch(f"/sources/{source}", json=members)).status_code == 200

    await refused(404, "unknown_source", too_large)
    await fix(active=True)
    await refused(403, "caller_not_allowed", too_large)
    await fix(allowed_networks=["127.0.0.0/8"])
    await refused(413, "too_large", too_large)
    await refused(401, "signature_mismatch", b"{")
    wrong = {"Content-Type": "text/plain", "X-Hook-Hops": "5"}
    headers = signed(b"{", **wrong)[0]
    await refused(415, "unsupported_content_type", b"{")
    headers = signed(b"{", **{"X-Hook-Hops": "5"})[0]
    await refused(508, "too_many_hops", b"{")
    headers, body = signed(b"{}")
    assert (await post(client, source, headers, body)).status_code == 202

    counted = await stats(client, context, source)
    assert (counted["accepted"], counted["rejected"]) == (1, 5)  # a 404 belongs to no source
    assert counted["last_error"].startswith("too_many_hops: ")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"X-Hub-Signature-256": None}, "signature_missing"),
        ({"X-Hub-Signature-256": "sha256=0"}, "signature_malformed"),
        ({"X-Hub-Signature-256": None, "X-Hub-Signature": "sha1=0"}, "signature_not_accepted"),
    ],
)
async def test_invalid_signature_answers_401(
    client: httpx2.AsyncClient, source: str, change: dict[str, str | None], code: str
) -> None:
    headers, body = signed({})
    merged = {name: text for name, text in (headers | change).items() if text is not None}
    answer = await post(client, source, merged, body)
    assert_problem(answer, 401, code=code)
    assert answer.headers["WWW-Authenticate"].startswith("Signature")


async def test_writing_rejections_waits_for_a_write_in_progress(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    source = (await make_source(client, tenant))["id"]
    context.rejections.count(source, RequestRejected("signature_mismatch", "not signed"))
    held_up = Rejections(0, utc_now(), "")
    async with context.database.write() as connection:
        await source_stats.count_rejected(connection, [(source, held_up)])
        under_way = asyncio.create_task(context.rejections.write())
        asked = asyncio.create_task(context.rejections.write())
        await asyncio.wait([under_way, asked], timeout=0.2)
        assert not asked.done()
    await asked
    assert (await stats(client, context, source))["rejected"] == 1


async def test_replayed_request_answers_401_after_its_tolerance(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    slack = provider("slack")
    source = (await make_source(client, tenant, provider="slack"))["id"]
    for seconds, status in ((0, 202), (400, 401)):
        request = sample(
            "slack.app_mention",
            provider=slack,
            secret=SECRET,
            now=utc_now() - timedelta(seconds=seconds),
            url="",
        )
        answer = await post(client, source, dict(request.headers), request.body)
        assert answer.status_code == status, answer.text
    assert_problem(answer, 401, code="timestamp_out_of_tolerance")


async def change_elsewhere(context: Context, source_id: str, changes: dict[str, Any]) -> None:
    """Change a source as another process would, without telling this process's cache."""
    async with context.database.write() as connection:
        await sources.change(connection, source_id, changes)


@pytest.mark.parametrize("reread_seconds", [0, 3600])
async def test_secret_rotated_in_another_process_verifies_at_once(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    monkeypatch: pytest.MonkeyPatch,
    reread_seconds: float,
) -> None:
    monkeypatch.setattr(source_cache, "FRESH_SECONDS", 3600)
    monkeypatch.setattr(source_cache, "REREAD_SECONDS", reread_seconds)
    source = (await make_source(client, tenant))["id"]
    assert (await send(client, source, {})).status_code == 202
    new = "the-secret-of-another-process"
    secrets = sealed_secrets([new], context.keyring, source_id=source, at=utc_now())
    await change_elsewhere(context, source, {"secrets": secrets})
    answer = await send(client, source, {}, secret=new)
    if reread_seconds:  # wrong signatures cause no more look-ups than that
        assert_problem(answer, 401, code="signature_mismatch")
    else:
        assert answer.status_code == 202, answer.text
        assert (await send(client, source, {})).status_code == 401


async def test_network_allowed_in_another_process_is_allowed_at_once(
    client: httpx2.AsyncClient, context: Context, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_cache, "FRESH_SECONDS", 3600)
    monkeypatch.setattr(source_cache, "REREAD_SECONDS", 0)
    source = (await make_source(client, tenant, allowed_networks=["10.0.0.0/8"]))["id"]
    assert_problem(await send(client, source, {}), 403, code="caller_not_allowed")
    await change_elsewhere(context, source, {"allowed_networks": []})
    assert (await send(client, source, {})).status_code == 202
    # a wrong signature is checked against all current settings
    await change_elsewhere(context, source, {"allowed_networks": ["10.0.0.0/8"]})
    answer = await send(client, source, {}, secret="wrong" * 4)
    assert_problem(answer, 403, code="caller_not_allowed")
    await change_elsewhere(context, source, {"active": False})
    assert_problem(await send(client, source, {}), 404, code="unknown_source")


async def test_missing_deleted_and_inactive_sources_answer_alike(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    inactive = (await make_source(client, tenant, active=False))["id"]
    deleted = (await make_source(client, tenant))["id"]
    assert (await send(client, deleted, {})).status_code == 202
    assert (await client.delete(f"/sources/{deleted}")).status_code == 204
    headers, body = signed({}, **{"X-Request-Id": "the-same"})
    answers = [
        await post(client, one, headers, body)
        for one in (inactive, deleted, "src_" + "0" * 32, "src_1", "x" * 300)
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.text for answer in answers}) == 1


async def test_api_key_does_not_replace_the_signature(
    client: httpx2.AsyncClient, source: str
) -> None:
    answer = await client.post(client.base_url.join(f"/in/{source}"), json={})
    assert_problem(answer, 401, code="signature_missing")


async def test_other_methods_are_405(client: httpx2.AsyncClient, source: str) -> None:
    url = client.base_url.join(f"/in/{source}")
    for method in ("GET", "PUT", "DELETE"):
        assert (await client.request(method, url)).status_code == 405
