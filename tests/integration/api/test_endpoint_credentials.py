"""The authentication and the TLS identity of endpoints: what is accepted, shown and sent."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
import trustme

from api.context.context import Context
from hookfast.endpoints.credentials import (
    Access,
    Basic,
    Bearer,
    OAuth2,
    TlsIdentity,
    open_credentials,
)
from hookfast.storage.endpoints import endpoints
from tests.support.api_client import Json, Make, MakeEventType, assert_problem
from tests.support.certificates import SHA1_IDENTITY, client_identity, demanding_context, pem
from tests.support.oauth2_server import Client, OAuth2Server
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
TOKEN_URL = "https://127.0.0.1:4/token"
AUTHORITY = trustme.CA()
BEARER = {"kind": "bearer", "token": "t0ken-1"}
BASIC = {"kind": "basic", "username": "shop", "password": "passw0rd: ü"}
OAUTH2 = {
    "kind": "oauth2",
    "token_url": TOKEN_URL,
    "client_id": "hookfast",
    "client_secret": "cl1ent-secret",
}


@pytest.fixture
async def tenant_id(make_tenant: Make) -> str:
    return str((await make_tenant())["id"])


@pytest.fixture
async def path(make_endpoint: Make, tenant_id: str) -> str:
    """The path of an endpoint with an https URL."""
    endpoint = await make_endpoint(tenant_id=tenant_id, url="https://127.0.0.1:4/")
    return f"/endpoints/{endpoint['id']}"


async def access(context: Context, path: str) -> Access:
    endpoint_id = path.rpartition("/")[2]
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint_id)
    assert row is not None
    return open_credentials(
        row.credentials, context.keyring, endpoint_id=endpoint_id, now=context.clock()
    )


@pytest.mark.parametrize(
    ("form", "shown", "credential"),
    [
        (BEARER, {"kind": "bearer"}, Bearer("t0ken-1")),
        (BASIC, {"kind": "basic", "username": "shop"}, Basic("shop", "passw0rd: ü")),
        (
            OAUTH2,
            {
                "kind": "oauth2",
                "token_url": TOKEN_URL,
                "client_id": "hookfast",
                "scope": None,
                "audience": None,
                "client_authentication": "basic",
            },
            OAuth2(TOKEN_URL, "hookfast", "cl1ent-secret"),
        ),
    ],
)
async def test_an_authentication_is_set_shown_without_its_secret_and_removed(
    client: httpx2.AsyncClient,
    context: Context,
    path: str,
    form: Json,
    shown: Json,
    credential: Any,
) -> None:
    before = (await client.get(path)).json()
    changed = await client.put(f"{path}/authentication", json=form)
    assert changed.status_code == 200, changed.text
    endpoint = changed.json()
    assert endpoint["updated_at"] > before["updated_at"]  # so that workers read it again
    assert before["updated_at"] < endpoint["authentication"].pop("created_at")
    assert endpoint["authentication"] == shown | {"previous_expires_at": None}
    assert await access(context, path) == Access((credential,))
    for answer in (changed, await client.get(path), await client.get("/endpoints")):
        for secret in ("t0ken-1", "passw0rd", "cl1ent-secret", "sealed"):
            assert secret not in answer.text
    assert (await client.delete(f"{path}/authentication")).status_code == 204
    assert (await client.get(path)).json()["authentication"] is None
    assert await access(context, path) == Access()
    assert_problem(await client.delete(f"{path}/authentication"), 404, code="not_found")


async def test_a_replaced_authentication_is_tried_until_the_overlap_ends(
    client: httpx2.AsyncClient, context: Context, path: str
) -> None:
    await client.put(f"{path}/authentication", json=BASIC)
    day = (await client.put(f"{path}/authentication", json=BEARER)).json()
    until = datetime.fromisoformat(day["authentication"]["previous_expires_at"])
    assert until - datetime.fromisoformat(day["updated_at"]) == timedelta(days=1)
    assert await access(context, path) == Access((Bearer("t0ken-1"), Basic("shop", "passw0rd: ü")))
    # a second replacement ends the first credential
    hour = BEARER | {"token": "t0ken-2", "overlap_seconds": 3600}
    await client.put(f"{path}/authentication", json=hour)
    assert await access(context, path) == Access((Bearer("t0ken-2"), Bearer("t0ken-1")))
    leaked = BEARER | {"token": "t0ken-3", "overlap_seconds": 0}
    shown = (await client.put(f"{path}/authentication", json=leaked)).json()["authentication"]
    assert shown["previous_expires_at"] is None
    assert await access(context, path) == Access((Bearer("t0ken-3"),))


async def test_a_tls_identity_is_set_replaced_and_removed_beside_the_authentication(
    client: httpx2.AsyncClient, context: Context, path: str
) -> None:
    first, second = client_identity(AUTHORITY), client_identity(AUTHORITY)
    await client.put(f"{path}/authentication", json=BEARER)
    changed = await client.put(f"{path}/tls", json=first | {"authorities": pem(AUTHORITY)})
    assert changed.status_code == 200, changed.text
    assert "PRIVATE KEY" not in changed.text
    shown = changed.json()["tls"]
    certificate, [authority] = shown["certificate"], shown["authorities"]
    assert certificate["issuer"] == authority["subject"]
    assert len(certificate["sha256"]) == 64
    replaced = (await client.put(f"{path}/tls", json=second)).json()["tls"]
    assert replaced["certificate"]["sha256"] != certificate["sha256"]
    assert replaced["authorities"] is None
    assert replaced["previous_expires_at"] is not None
    assert await access(context, path) == Access(
        (Bearer("t0ken-1"),),
        (
            TlsIdentity(**second).cleaned(),
            TlsIdentity(**first, authorities=pem(AUTHORITY)).cleaned(),
        ),
    )
    assert (await client.delete(f"{path}/tls")).status_code == 204
    endpoint = (await client.get(path)).json()
    assert endpoint["tls"] is None
    assert endpoint["authentication"]["kind"] == "bearer"
    assert_problem(await client.delete(f"{path}/tls"), 404, code="not_found")


WRONG: list[tuple[str, Json, str]] = [
    ("authentication", {}, "/kind"),
    ("authentication", {"kind": "digest"}, "/kind"),
    ("authentication", {"kind": "bearer"}, "/token"),
    ("authentication", {"kind": "bearer", "token": "two words"}, "/token"),
    ("authentication", {"kind": "bearer", "token": ""}, "/token"),
    ("authentication", BEARER | {"username": "shop"}, "/username"),
    ("authentication", BEARER | {"overlap_seconds": 604_801}, "/overlap_seconds"),
    ("authentication", BASIC | {"username": "a:b"}, "/username"),
    ("authentication", BASIC | {"password": "a\nb"}, "/password"),
    ("authentication", OAUTH2 | {"client_secret": ""}, "/client_secret"),
    ("authentication", OAUTH2 | {"client_authentication": "jwt"}, "/client_authentication"),
    ("authentication", OAUTH2 | {"token_url": "ftp://a.example/"}, "/token_url"),
    ("authentication", OAUTH2 | {"token_url": "https://10.0.0.1/token"}, "/token_url"),
    ("authentication", OAUTH2 | {"token_url": "https://metadata.google.internal/"}, "/token_url"),
    ("tls", {}, "/certificate"),
    ("tls", {"certificate": "x", "private_key": "x"}, "/certificate"),
    ("tls", {"authorities": "-----BEGIN CERTIFICATE-----"}, "/authorities"),
    ("tls", {"certificate": pem(AUTHORITY)}, "/private_key"),
    ("tls", client_identity(AUTHORITY) | {"certificate": pem(AUTHORITY)}, "/private_key"),
    ("tls", SHA1_IDENTITY, "/certificate"),  # which OpenSSL does not load
]


@pytest.mark.parametrize(("member", "form", "pointer"), WRONG)
async def test_an_invalid_credential_is_rejected_at_its_member(
    client: httpx2.AsyncClient, path: str, tenant_id: str, member: str, form: Json, pointer: str
) -> None:
    before = (await client.get(path)).json()
    code = "invalid_url" if form.get("token_url") == "ftp://a.example/" else "invalid_input"
    answer = await client.put(f"{path}/{member}", json=form)
    assert_problem(answer, 422, code=code, pointer=pointer)
    created = await client.post(
        "/endpoints",
        json={
            "tenant_id": tenant_id,
            "url": "https://127.0.0.1:4/",
            "verification": "none",
            member: form,
        },
    )
    assert_problem(created, 422, code=code, pointer=f"/{member}{pointer}")
    for text in (answer.text, created.text):
        assert "PRIVATE KEY" not in text or pointer == "/private_key"
        assert "two words" not in text
    assert (await client.get(path)).json() == before


async def test_a_patch_of_credentials_says_where_to_put_them(
    client: httpx2.AsyncClient, path: str
) -> None:
    for member, value in (("authentication", BEARER), ("authentication", None), ("tls", {})):
        answer = await client.patch(path, json={member: value})
        problem = assert_problem(answer, 422, code="invalid_input", pointer=f"/{member}")
        assert f"PUT /v1/endpoints/{{endpoint_id}}/{member}" in problem["detail"]


async def test_authentication_and_a_header_authorization_exclude_each_other(
    client: httpx2.AsyncClient, path: str, tenant_id: str
) -> None:
    header = {"headers": {"authorization": "Bearer x"}}
    await client.patch(path, json=header)
    answer = await client.put(f"{path}/authentication", json=BEARER)
    assert_problem(answer, 409, code="has_authorization_header")
    assert (await client.get(path)).json()["authentication"] is None
    await client.patch(path, json={"headers": {"authorization": None}})
    assert (await client.put(f"{path}/authentication", json=BEARER)).status_code == 200
    pointer = "/headers/authorization"
    answer = await client.patch(path, json=header)
    assert_problem(answer, 422, code="invalid_header", pointer=pointer)
    new = {"tenant_id": tenant_id, "url": "https://127.0.0.1:4/", "authentication": BEARER}
    answer = await client.post("/endpoints", json=new | header)
    assert_problem(answer, 422, code="invalid_header", pointer=pointer)
    other = await client.patch(path, json={"headers": {"X-Other": "x"}})
    assert other.status_code == 200, other.text


async def test_a_tls_identity_needs_an_https_url(
    client: httpx2.AsyncClient, path: str, tenant_id: str
) -> None:
    form = {"authorities": pem(AUTHORITY)}
    await client.put(f"{path}/tls", json=form)
    answer = await client.patch(path, json={"url": "http://127.0.0.1:4/"})
    assert_problem(answer, 422, code="invalid_input", pointer="/url")
    await client.delete(f"{path}/tls")
    assert (await client.patch(path, json={"url": "http://127.0.0.1:4/"})).status_code == 200
    answer = await client.put(f"{path}/tls", json=form)
    assert_problem(answer, 409, code="url_is_not_https")
    new = {"tenant_id": tenant_id, "url": "http://127.0.0.1:4/", "tls": form}
    assert_problem(
        await client.post("/endpoints", json=new), 422, code="invalid_input", pointer="/tls"
    )


async def test_a_polled_endpoint_has_no_credentials(
    client: httpx2.AsyncClient, tenant_id: str
) -> None:
    polled = {"tenant_id": tenant_id, "mode": "poll"}
    path = f"/endpoints/{(await client.post('/endpoints', json=polled)).json()['id']}"
    for member, form in (("authentication", BEARER), ("tls", {"authorities": pem(AUTHORITY)})):
        answer = await client.put(f"{path}/{member}", json=form)
        assert_problem(answer, 409, code="endpoint_is_polled")
        answer = await client.post("/endpoints", json=polled | {member: form})
        assert_problem(answer, 422, code="invalid_input", pointer=f"/{member}")


@pytest.fixture
def oauth2_server() -> Iterator[OAuth2Server]:
    with OAuth2Server(Client("hookfast", ("cl1ent-secret",))) as server:
        yield server


def _as_pasted(text: str) -> str:
    """The PEM text below a comment, indented and with the line ends of Windows."""
    return "\ufeffZertifikat für müller\r\n    " + text.replace("\n", "\r\n    ")


async def test_a_tls_identity_that_is_weak_is_rejected_also_with_a_new_endpoint(
    client: httpx2.AsyncClient, tenant_id: str
) -> None:
    form = {"tenant_id": tenant_id, "url": "https://127.0.0.1:4/", "verification": "none"}
    answer = await client.post("/endpoints", json=form | {"tls": SHA1_IDENTITY})
    assert_problem(answer, 422, code="invalid_input", pointer="/tls/certificate")
    assert "SHA-256" in answer.text


async def test_verification_and_tests_present_the_credentials_from_the_start(
    client: httpx2.AsyncClient,
    make_event_type: MakeEventType,
    tenant_id: str,
    oauth2_server: OAuth2Server,
) -> None:
    await make_event_type(TYPE)
    identity = client_identity(AUTHORITY) | {"authorities": pem(AUTHORITY)}
    async with Receiver(ssl_context=demanding_context(AUTHORITY, clients=AUTHORITY)) as receiver:
        form = {
            "tenant_id": tenant_id,
            "url": receiver.url("/challenge"),
            "events": [TYPE],
            "authentication": OAUTH2 | {"token_url": oauth2_server.url},
            "tls": {name: _as_pasted(text) for name, text in identity.items()},
        }
        refused = await client.post(
            "/endpoints", json=form | {"tls": {"authorities": pem(AUTHORITY)}}
        )
        assert_problem(refused, 422, code="verification_failed", pointer="/url")
        created = await client.post("/endpoints", json=form)
        assert created.status_code == 201, created.text
        path = f"/endpoints/{created.json()['id']}"
        for again in ("verify", "test"):
            answer = await client.post(
                f"{path}/{again}", json={"type": TYPE} if again == "test" else None
            )
            assert answer.status_code == 200, answer.text
        assert (await client.patch(path, json={"url": receiver.url("/challenge?2")})).is_success
    assert len(receiver.requests) == 4
    for request in receiver.requests:
        assert oauth2_server.accepts(request.headers["authorization"])
    assert oauth2_server.requests["token"] == 1


async def test_a_rejected_client_is_named_in_the_result_of_a_test(
    client: httpx2.AsyncClient,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    tenant_id: str,
    oauth2_server: OAuth2Server,
) -> None:
    await make_event_type(TYPE)
    wrong = OAUTH2 | {"token_url": oauth2_server.url, "client_secret": "wr0ng"}
    endpoint = await make_endpoint(tenant_id=tenant_id, authentication=wrong)
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": TYPE})
    result = answer.json()
    assert (result["result"], result["status_code"]) == ("credentials", None)
    assert "does not accept the client's id and secret" in result["error"]
    assert "wr0ng" not in answer.text


async def test_basic_credentials_are_sent_in_utf_8(
    client: httpx2.AsyncClient, make_endpoint: Make, make_event_type: MakeEventType, tenant_id: str
) -> None:
    await make_event_type(TYPE)
    async with Receiver() as receiver:
        endpoint = await make_endpoint(
            tenant_id=tenant_id, url=receiver.url(), authentication=BASIC
        )
        await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": TYPE})
    [request] = receiver.requests
    scheme, _, value = request.headers["authorization"].partition(" ")
    assert scheme == "Basic"
    assert base64.b64decode(value).decode() == "shop:passw0rd: ü"
