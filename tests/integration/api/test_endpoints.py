from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest

from api.context.context import Context
from hookfast.endpoints.secrets import open_headers, open_secrets
from hookfast.signing.signature import secret_key
from hookfast.storage.endpoints import endpoints, subscriptions
from tests.support.api_client import KeyClient, Make, assert_problem

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:4/hook"


@pytest.fixture
async def tenant_id(make_tenant: Make) -> str:
    return str((await make_tenant())["id"])


async def test_it_creates_an_endpoint_with_every_default(
    client: httpx2.AsyncClient, tenant_id: str
) -> None:
    answer = await client.post(
        "/endpoints", json={"url": URL, "tenant_id": tenant_id, "verification": "none"}
    )
    assert answer.status_code == 201
    endpoint = answer.json()
    secret_key(endpoint.pop("secret"))  # would raise
    assert endpoint.pop("subscription") is None
    assert endpoint.pop("warnings") == []
    assert endpoint == {
        "id": endpoint["id"],
        "tenant_id": tenant_id,
        "mode": "push",
        "url": URL,
        "description": "",
        "owner_emails": [],
        "verification": "none",
        "signatures": ["hook", "standard"],
        "signature_hash": "sha256",
        "retry_plan": "hourly",
        "timeout_seconds": 5.0,
        "rate_limit_per_second": None,
        "max_in_flight": None,
        "ordered": False,
        "headers": {},
        "authentication": None,
        "tls": None,
        "encryption": None,
        "secrets": [
            {
                "kind": "hmac",
                "public_key": None,
                "created_at": endpoint["created_at"],
                "expires_at": None,
            }
        ],
        "allowed_networks": [],
        "circuit": {},
        "metadata": {},
        "state": "enabled",
        "state_reason": None,
        "health": "healthy",
        "created_at": endpoint["created_at"],
        "updated_at": endpoint["created_at"],
    }
    assert (await client.get(f"/endpoints/{endpoint['id']}")).json() == endpoint


@pytest.mark.parametrize("size", [24, 64])
async def test_given_secret_is_the_only_one_that_signs(
    client: httpx2.AsyncClient, context: Context, tenant_id: str, size: int
) -> None:
    secret = "whsec_" + base64.b64encode(bytes(range(size))).decode()
    answer = await client.post(
        "/endpoints",
        json={"url": URL, "tenant_id": tenant_id, "verification": "none", "secret": secret},
    )
    assert answer.status_code == 201
    assert answer.json()["secret"] == secret
    async with context.database.read() as connection:
        stored = await endpoints.get(connection, answer.json()["id"])
    assert stored is not None
    opened = open_secrets(
        stored.secrets, context.keyring, endpoint_id=stored.id, now=context.clock()
    )
    assert opened.hmac == (bytes(range(size)),)
    assert secret not in json.dumps(stored.secrets)
    shown = await client.get(f"/endpoints/{stored.id}")
    assert secret not in shown.text


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_" + "A" * 28,  # 21 bytes
        "whsec_" + "A" * 88,  # 66 bytes
        "whsec_" + "A" * 300,
        "whsec_not+base64/not+base64/not+base64/=",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",  # without its prefix
        "whsec_grüßegrüßegrüßegrüßegrüßegrüße",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
        7,
    ],
)
async def test_unusable_secret_is_rejected_and_not_repeated(
    client: httpx2.AsyncClient, tenant_id: str, secret: Any
) -> None:
    answer = await client.post(
        "/endpoints",
        json={"url": URL, "tenant_id": tenant_id, "verification": "none", "secret": secret},
    )
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/secret"]
    if len(str(secret)) > len("whsec_"):
        assert str(secret) not in answer.text


async def test_it_keeps_every_member_it_is_given(
    client: httpx2.AsyncClient, context: Context, tenant_id: str
) -> None:
    given: dict[str, Any] = {
        "url": "http://127.0.0.1:4/a?b=c",
        "description": "orders — EU",
        "owner_emails": ["ops@example.com", "o'neil+x@sub.example.co.uk", "ops@müller.example"],
        "verification": "none",
        "signatures": ["standard"],
        "signature_hash": "sha512",
        "retry_plan": {"delays_seconds": [1, 5.5], "jitter": 0, "retry_on": "transient"},
        "timeout_seconds": 12.5,
        "rate_limit_per_second": 0.5,
        "max_in_flight": 3,
        "allowed_networks": ["127.0.0.0/8", "2001:db8::/32"],
        "circuit": {"failure_threshold": 3, "probe_delays_seconds": [60, 120]},
        "metadata": {"team": "a", "nested": {"n": [1, None]}},
    }
    headers = {"Authorization": "Basic c2VjcmV0", "X-Env": "prod"}
    answer = await client.post(
        "/endpoints", json=given | {"tenant_id": tenant_id, "headers": headers}
    )
    assert answer.status_code == 201, answer.text
    endpoint = answer.json()
    assert {name: endpoint[name] for name in given} == given
    assert endpoint["headers"] == {"Authorization": "***", "X-Env": "***"}
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint["id"])
    assert row is not None
    assert "c2VjcmV0" not in str(row.headers)
    assert open_headers(row.headers, context.keyring, endpoint_id=row.id) == headers


async def test_events_create_the_first_subscription(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id, events=["order.**", "a.b.c", "order.**"])
    subscription = endpoint["subscription"]
    assert subscription["endpoint_id"] == endpoint["id"]
    assert subscription["events"] == ["order.**", "a.b.c"]
    answer = await client.get(f"/subscriptions/{subscription['id']}")
    assert answer.json() == subscription


async def test_secret_is_encrypted_for_its_endpoint_and_shown_once(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint["id"])
    assert row is not None
    [stored] = row.secrets
    assert endpoint["secret"] not in stored["sealed"]
    assert context.keyring.open(stored["sealed"], context=endpoint["id"]) == endpoint["secret"]
    path = f"/endpoints/{endpoint['id']}"
    for answer in (
        await client.get(path),
        await client.get("/endpoints"),
        await client.patch(path, json={"description": "x"}),
        await client.post(f"{path}/disable"),
    ):
        assert answer.status_code == 200
        assert "whsec_" not in answer.text
        assert stored["sealed"] not in answer.text


async def test_the_timeout_follows_the_retry_plan_until_it_is_set(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id, retry_plan="standard")
    assert endpoint["timeout_seconds"] == 15
    path = f"/endpoints/{endpoint['id']}"
    assert (await client.patch(path, json={"timeout_seconds": 7})).json()["timeout_seconds"] == 7
    reset = await client.patch(path, json={"timeout_seconds": None, "retry_plan": "capped"})
    assert reset.json()["timeout_seconds"] == 30


async def test_patch_merges_nested_members_and_null_resets(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(
        tenant_id=tenant_id,
        headers={"X-A": "1", "X-B": "2"},
        circuit={"failure_threshold": 3, "min_span_seconds": 5},
        signatures=["standard"],
        max_in_flight=4,
        metadata={"a": 1},
    )
    answer = await client.patch(
        f"/endpoints/{endpoint['id']}",
        json={
            "headers": {"X-A": None, "X-C": "3"},
            "circuit": {"min_span_seconds": None},
            "signatures": None,
            "max_in_flight": None,
            "metadata": {"b": 2},
        },
        headers={"content-type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert changed["circuit"] == {"failure_threshold": 3}
    assert changed["signatures"] == ["hook", "standard"]
    assert changed["max_in_flight"] is None
    assert changed["metadata"] == {"a": 1, "b": 2}
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint["id"])
    assert row is not None
    opened = open_headers(row.headers, context.keyring, endpoint_id=row.id)
    assert opened == {"X-B": "2", "X-C": "3"}


async def test_two_changes_at_once_do_not_overwrite_each_other(
    context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint_id = (await make_endpoint(tenant_id=tenant_id))["id"]
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint_id)
    assert row is not None
    outcomes = []
    for text in ("first", "second"):
        async with context.database.write() as connection:
            outcomes.append(
                await endpoints.change(
                    connection,
                    endpoint_id,
                    seen=row.updated_at,
                    values={"description": text, "updated_at": context.clock()},
                )
            )
    assert outcomes == [True, False]


async def test_polled_endpoint_is_healthy_unless_it_is_stopped(
    client: httpx2.AsyncClient, tenant_id: str
) -> None:
    form = {"tenant_id": tenant_id, "mode": "poll", "events": ["**"]}
    created = (await client.post("/endpoints", json=form)).json()
    healths = [created["health"]]
    for action in ("pause", "resume", "disable", "enable"):
        changed = (await client.post(f"/endpoints/{created['id']}/{action}")).json()
        listed = (await client.get(f"/endpoints?health={changed['health']}")).json()["data"]
        assert [each["id"] for each in listed] == [created["id"]]
        healths.append(changed["health"])
    assert healths == ["healthy", "paused", "healthy", "disabled", "healthy"]
    wrong = await client.get("/endpoints?health=open")
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "health")


async def test_disable_and_enable_change_the_state(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str
) -> None:
    path = f"/endpoints/{(await make_endpoint(tenant_id=tenant_id))['id']}"
    disabled = (await client.post(f"{path}/disable")).json()
    assert (disabled["state"], disabled["state_reason"]) == ("disabled", "Disabled by request.")
    assert len((await client.get("/endpoints?state=disabled")).json()["data"]) == 1
    assert (await client.get("/endpoints?state=enabled")).json()["data"] == []
    enabled = (await client.post(f"{path}/enable")).json()
    assert (enabled["state"], enabled["state_reason"]) == ("enabled", None)


async def test_delete_also_deletes_subscriptions_and_secrets(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id, events=["**"])
    path = f"/endpoints/{endpoint['id']}"
    assert (await client.delete(path)).status_code == 204
    for method in ("GET", "DELETE"):
        assert_problem(await client.request(method, path), 404, code="not_found")
    assert_problem(await client.patch(path, json={}), 404, code="not_found")
    assert (await client.get("/endpoints")).json()["data"] == []
    assert (await client.get("/subscriptions")).json()["data"] == []
    async with context.database.read() as connection:
        assert await subscriptions.patterns_of_endpoint(connection, endpoint["id"]) == []


async def test_a_tenants_key_implies_its_tenant(
    client: httpx2.AsyncClient, make_tenant: Make, key_client: KeyClient, tenant_id: str
) -> None:
    other = await make_tenant()
    async with key_client(tenant_id) as theirs:
        body = {"url": URL, "verification": "none"}
        created = await theirs.post("/endpoints", json=body)
        assert created.json()["tenant_id"] == tenant_id
        stolen = await theirs.post("/endpoints", json=body | {"tenant_id": other["id"]})
        assert_problem(stolen, 404, code="not_found")
    assert_problem(
        await client.post("/endpoints", json=body), 422, code="invalid_input", pointer="/tenant_id"
    )


@pytest.mark.parametrize(
    ("member", "value", "code", "pointer"),
    [
        ("url", "ftp://127.0.0.1/", "invalid_url", "/url"),
        ("url", "http://user:pass@127.0.0.1/", "invalid_url", "/url"),
        ("url", "http://127.0.0.1/#x", "invalid_url", "/url"),
        ("url", "http://127.0.0.1:99999/", "invalid_url", "/url"),
        ("url", "http://127.0.0.1/\\@evil", "invalid_url", "/url"),
        ("url", "http://2130706433/", "invalid_url", "/url"),
        ("url", "", "invalid_url", "/url"),
        ("url", "http://localhost:8080/in/src_1", "own_address", "/url"),  # the default public URL
        ("url", 7, "invalid_input", "/url"),
        ("url", None, "invalid_input", "/url"),
        ("events", ["order."], "invalid_pattern", "/events/0"),
        ("events", ["a.b.c", "A.**"], "invalid_pattern", "/events/1"),
        ("events", ["a.b.c"] * 51, "invalid_input", "/events"),
        ("events", "order.**", "invalid_input", "/events"),
        ("description", "x" * 1001, "invalid_input", "/description"),
        ("owner_emails", ["nobody"], "invalid_input", "/owner_emails/0"),
        ("owner_emails", ["a@b@c"], "invalid_input", "/owner_emails/0"),
        ("owner_emails", ["a@b..c"], "invalid_input", "/owner_emails/0"),
        ("owner_emails", ["ops@example.com", ".a@b.c"], "invalid_input", "/owner_emails/1"),
        ("owner_emails", ["a@b\r\nBcc: c@d"], "invalid_input", "/owner_emails/0"),
        ("owner_emails", ["a@b.c"] * 21, "invalid_input", "/owner_emails"),
        ("verification", "maybe", "invalid_input", "/verification"),
        ("signatures", [], "invalid_signatures", "/signatures"),
        ("signatures", ["hook", "hook"], "invalid_signatures", "/signatures/1"),
        ("signatures", ["md5"], "invalid_signatures", "/signatures/0"),
        ("signatures", ["hook", "nonce", "rsa"], "invalid_signatures", "/signatures/2"),
        ("signatures", ["body", "nonce"], "invalid_signatures", "/signatures/1"),
        ("signature_hash", "md5", "invalid_input", "/signature_hash"),
        ("retry_plan", "never", "invalid_retry_plan", "/retry_plan"),
        (
            "retry_plan",
            {"delays_seconds": [-1]},
            "invalid_retry_plan",
            "/retry_plan/delays_seconds/0",
        ),
        ("timeout_seconds", 0.5, "invalid_input", "/timeout_seconds"),
        ("timeout_seconds", 31, "invalid_input", "/timeout_seconds"),
        ("timeout_seconds", "5", "invalid_input", "/timeout_seconds"),
        ("timeout_seconds", True, "invalid_input", "/timeout_seconds"),
        ("rate_limit_per_second", 0, "invalid_input", "/rate_limit_per_second"),
        ("rate_limit_per_second", 1e-300, "invalid_input", "/rate_limit_per_second"),
        ("rate_limit_per_second", 5e-324, "invalid_input", "/rate_limit_per_second"),
        ("rate_limit_per_second", 0.0000099, "invalid_input", "/rate_limit_per_second"),
        ("max_in_flight", 0, "invalid_input", "/max_in_flight"),
        ("max_in_flight", 1.5, "invalid_input", "/max_in_flight"),
        ("max_in_flight", 10**30, "invalid_input", "/max_in_flight"),
        ("headers", {"Host": "x"}, "invalid_header", "/headers/Host"),
        ("headers", {"X-A": "a\r\nX-B: b"}, "invalid_header", "/headers/X-A"),
        ("headers", {"X-A": 5}, "invalid_input", "/headers/X-A"),
        ("headers", {"X-A": "***"}, "invalid_header", "/headers/X-A"),
        ("allowed_networks", ["10.0.0.1/8"], "invalid_input", "/allowed_networks/0"),
        ("allowed_networks", ["example.com"], "invalid_input", "/allowed_networks/0"),
        ("allowed_networks", ["fe80::%1/64"], "invalid_input", "/allowed_networks/0"),
        ("allowed_networks", ["\uff11.0.0.0/8"], "invalid_input", "/allowed_networks/0"),
        ("circuit", {"failure_threshold": 0}, "invalid_input", "/circuit/failure_threshold"),
        ("circuit", {"nonsense": 1}, "invalid_input", "/circuit/nonsense"),
        ("metadata", [], "invalid_input", "/metadata"),
        ("tenant_id", "tnt_x", "invalid_input", "/tenant_id"),
        ("secret", "whsec_mine", "invalid_secret", "/secret"),
        ("secrets", [], "invalid_input", "/secrets"),
        ("state", "disabled", "invalid_input", "/state"),
        ("id", "ep_" + "0" * 32, "invalid_input", "/id"),
        ("created_at", "2001-01-01T00:00:00Z", "invalid_input", "/created_at"),
    ],
)
async def test_invalid_endpoint_is_rejected(
    common_client: httpx2.AsyncClient,
    common_tenant: str,
    member: str,
    value: object,
    code: str,
    pointer: str,
) -> None:
    body = {"url": URL, "tenant_id": common_tenant, "verification": "none"} | {member: value}
    assert_problem(
        await common_client.post("/endpoints", json=body), 422, code=code, pointer=pointer
    )
    owned = await common_client.get("/endpoints", params={"tenant_id": common_tenant})
    assert owned.json()["data"] == []


async def test_patch_rejects_what_create_rejects(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    path = f"/endpoints/{endpoint['id']}"
    for patch, code, pointer in (
        ({"state": "disabled"}, "invalid_input", "/state"),
        ({"tenant_id": tenant_id}, "invalid_input", "/tenant_id"),
        ({"events": ["**"]}, "invalid_input", "/events"),
        ({"headers": {"Host": "x"}}, "invalid_header", "/headers/Host"),
        ({"url": "gopher://x"}, "invalid_url", "/url"),
        ({"url": None}, "invalid_input", "/url"),
        ({"url": "http://127.0.0.1:8080/in/src_1"}, "own_address", "/url"),
    ):
        answer = await client.patch(path, json=patch)
        assert_problem(answer, 422, code=code, pointer=pointer)
    for document in (b"[]", b'"x"', b"null"):
        answer = await client.patch(
            path, content=document, headers={"content-type": "application/json"}
        )
        assert_problem(answer, 422, code="invalid_input")
    del endpoint["secret"], endpoint["subscription"], endpoint["warnings"]
    assert (await client.get(path)).json() == endpoint
