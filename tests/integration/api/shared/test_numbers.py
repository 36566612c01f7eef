"""Numbers are kept, shown, compared and mapped as they were written."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.api_client import Json, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

TYPE = "order.number.sent"
NUMBERS = "[1.10,1e2,1E+2,-0,-0.0,0.10000000000000000001,9007199254740993.0,1e-400,5]"
"""What doubles, or the ways in which Python writes numbers, would change."""
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
async def event_type(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)


@pytest.fixture
async def endpoint(make_tenant: Make, make_endpoint: Make) -> Json:
    return await make_endpoint(tenant_id=(await make_tenant())["id"])


async def sent(client: httpx2.AsyncClient, method: str, path: str, body: str) -> str:
    """Send JSON as it is, and return the answer's text."""
    media_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await client.request(
        method, path, content=body.encode(), headers={"Content-Type": media_type}
    )
    assert answer.status_code < 300, answer.text
    return answer.text


async def emitted(client: httpx2.AsyncClient, data: str, *, key: str) -> httpx2.Response:
    return await client.post(
        "/events",
        content=f'{{"type":"{TYPE}","data":{data}}}',
        headers=JSON | {"Idempotency-Key": key},
    )


async def test_schema_is_shown_as_it_was_written(client: httpx2.AsyncClient) -> None:
    schema = f'{{"multipleOf":0.010,"maximum":1E5,"enum":{NUMBERS}}}'
    path = "/event-types/order.number.described"
    written = await sent(client, "PUT", path, f'{{"description":"","schema":{schema}}}')
    assert f'"schema":{schema}' in written
    assert f'"schema":{schema}' in (await client.get(path)).text
    sample = (await client.get(f"{path}/sample")).text
    assert '"data":1.10,' in sample


async def test_filter_and_metadata_survive_changes_of_other_members(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    kept = f'{{"v":{{"$in":{NUMBERS}}}}}'
    body = f'{{"endpoint_id":"{endpoint["id"]}","events":["order.**"],"filter":{kept}}}'
    made = await sent(client, "POST", "/subscriptions", body)
    subscription = (await client.get(f"/subscriptions?endpoint_id={endpoint['id']}")).json()
    path = f"/subscriptions/{subscription['data'][0]['id']}"
    for text in (made, await sent(client, "PATCH", path, '{"active":false}')):
        assert f'"filter":{kept}' in text

    path = f"/endpoints/{endpoint['id']}"
    metadata = f'"metadata":{{"n":{NUMBERS}}}'
    assert metadata in await sent(client, "PATCH", path, f"{{{metadata}}}")
    assert metadata in await sent(client, "PATCH", path, '{"description":"new"}')
    assert metadata in (await client.get(path)).text

    log = (await client.get(f"/audit?resource_id={endpoint['id']}")).text
    assert f'"after":{{"n":{NUMBERS}}}' in log


async def test_change_of_digits_alone_is_a_change_in_the_audit_log(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    path = f"/endpoints/{endpoint['id']}"
    for digits in ("1", "1.0", "1.00", "true"):
        await sent(client, "PATCH", path, f'{{"metadata":{{"n":{digits}}}}}')
    log = (await client.get(f"/audit?resource_id={endpoint['id']}")).text
    assert '{"before":{"n":1.00},"after":{"n":true}}' in log
    assert '{"before":{"n":1.0},"after":{"n":1.00}}' in log
    assert '{"before":{"n":1},"after":{"n":1.0}}' in log


async def test_settings_with_fractions_still_work(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    path = f"/endpoints/{endpoint['id']}"
    settings = (
        '{"retry_plan":{"delays_seconds":[0.5,1e1,2.50],"jitter":0.25},"timeout_seconds":2.5,'
        '"rate_limit_per_second":1e-1,"circuit":{"min_span_seconds":1.5}}'
    )
    await sent(client, "PATCH", path, settings)
    shown = (await client.get(path)).json()
    assert shown["retry_plan"] == {"delays_seconds": [0.5, 10, 2.5], "jitter": 0.25}
    assert (shown["timeout_seconds"], shown["rate_limit_per_second"]) == (2.5, 0.1)
    assert shown["circuit"] == {"min_span_seconds": 1.5}
    log = (await client.get(f"/audit?resource_id={endpoint['id']}")).json()
    await sent(client, "PATCH", path, settings)  # the same again is no change
    assert (await client.get(f"/audit?resource_id={endpoint['id']}")).json() == log


@pytest.mark.parametrize(
    ("condition", "passing", "kept_out"),
    [
        ("0.1", "0.10", "0.10000000000000000001"),
        ('{"$gt":0.1}', "0.10000000000000000001", "1e-1"),
        ("9007199254740992", "9007199254740992.0", "9007199254740993.0"),
        ('{"$lt":1e-400}', "0.0", "1e-400"),
        ('{"$in":[1]}', "1e0", "true"),
    ],
)
async def test_filter_compares_the_numbers_that_were_written(
    client: httpx2.AsyncClient, endpoint: Json, condition: str, passing: str, kept_out: str
) -> None:
    filter = f'{{"v":{condition},"of":"{endpoint["id"]}"}}'
    body = f'{{"endpoint_id":"{endpoint["id"]}","events":["{TYPE}"],"filter":{filter}}}'
    await sent(client, "POST", "/subscriptions", body)
    counts = []
    for value in (passing, kept_out):
        event = f'{{"type":"{TYPE}","data":{{"v":{value},"of":"{endpoint["id"]}"}}}}'
        counts.append((await client.post("/events", content=event, headers=JSON)).json())
    assert [each["deliveries"] for each in counts] == [1, 0]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("0.10000000000000000001", "0.1"),
        ("9007199254740993.0", "9007199254740992.0"),
        ("1e-400", "0.0"),
        ("1", "1.0"),
        ("0.0", "-0.0"),
        ("0", "-0"),
        ("100", "1e2"),
    ],
)
async def test_same_key_with_another_number_answers_409(
    client: httpx2.AsyncClient, first: str, other: str
) -> None:
    key = f"{first}-{other}"
    assert (await emitted(client, f'{{"a":{first},"b":1}}', key=key)).status_code == 202
    again = await emitted(client, f'{{ "b": 1, "a": {first} }}', key=key)  # in another order
    assert again.headers["Idempotent-Replayed"] == "true"
    changed = await emitted(client, f'{{"a":{other},"b":1}}', key=key)
    assert_problem(changed, 409, code="idempotency_key_reused")


async def test_mapping_sends_numbers_as_they_were_written(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    body = (
        f'{{"type":"{TYPE}","dry_run":true,"data":{NUMBERS},'
        '"mapping":"{all: data, literal: `1.10`, above: data[?@ > `0.1`], sum: sum(data[:2])}"}'
    )
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", content=body, headers=JSON)
    assert answer.json()["body"] == (
        f'{{"all":{NUMBERS},"literal":1.10,'
        '"above":[1.10,1e2,1E+2,0.10000000000000000001,9007199254740993.0,5],"sum":101.10}'
    )


@pytest.mark.parametrize("mapping", ["`NaN`", "[data, `1e400`]", "data[::0]", "abs('1')"])
async def test_mapping_that_could_never_be_evaluated_is_rejected(
    client: httpx2.AsyncClient, endpoint: Json, mapping: str
) -> None:
    form = {"endpoint_id": endpoint["id"], "events": ["order.**"], "payload": "mapped"}
    answer = await client.post("/subscriptions", json=form | {"mapping": mapping})
    problem = assert_problem(answer, 422, code="invalid_expression")
    assert problem["errors"][0]["pointer"] == "/mapping"
