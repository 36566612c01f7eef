"""`hookfast event-types` and `hookfast subscriptions`."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import Json

pytestmark = pytest.mark.anyio

_SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


async def test_an_event_type_is_created_shown_changed_and_deleted(
    hookfast: Run, client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(_SCHEMA))
    create = ("event-types", "create", "order.refund.made")
    made = await hookfast(*create, "--description", "A refund.", "--schema", str(file), "--json")
    assert made.code == 0, made.err
    assert (made.json["description"], made.json["schema"]) == ("A refund.", _SCHEMA)

    shown = await hookfast("event-types", "show", "order.refund.made")
    assert shown.out.partition("Example of its data:\n")[2] == '  {\n    "n": 1\n  }\n'
    assert '"required": [' in shown.out
    listed = await hookfast("event-types", "list", "--json")
    assert listed.out.strip() == (await client.get("/event-types?limit=50")).text

    again = await hookfast(*create)
    assert again.code == 2
    assert "exists; change it with" in again.error_text
    update = ("event-types", "update", "order.refund.made")
    described = await hookfast(*update, "--description", "Refunded.", "--json")
    assert (described.json["description"], described.json["schema"]) == ("Refunded.", _SCHEMA)
    other = json.dumps({"type": "object"})
    changed = await hookfast(*update, "--schema", "-", "--json", stdin=other)
    assert (changed.json["description"], changed.json["schema"]) == (
        "Refunded.",
        {"type": "object"},
    )
    bare = await hookfast(*update, "--no-schema")
    assert "none: its data may be any JSON" in bare.out
    for wrong in ((), ("--schema", str(file), "--no-schema")):
        assert (await hookfast(*update, *wrong)).code == 2
    wrong_json = await hookfast(*update, "--schema", "-", stdin="[1")
    assert (wrong_json.code, "it is not JSON" in wrong_json.error_text) == (2, True)
    invalid = await hookfast(*update, "--schema", "-", stdin='{"type": "nothing"}')
    assert invalid.code == 1
    assert "/schema" in invalid.err

    kept = await hookfast("event-types", "delete", "order.refund.made", stdin="n\n")
    assert (kept.code, (await client.get("/event-types/order.refund.made")).status_code) == (1, 200)
    deleted = await hookfast("event-types", "delete", "order.refund.made", "--yes")
    assert deleted.err == "order.refund.made is deleted.\n"
    unknown = await hookfast("event-types", "update", "order.refund.made", "--no-schema")
    assert unknown.code == 1


async def test_subscriptions_are_listed_by_endpoint_and_by_what_they_match(
    hookfast: Run, endpoint: Json
) -> None:
    create = ("subscriptions", "create", endpoint["id"])
    made = await hookfast(*create, "order.*.paid", "ping.**", "--payload", "thin", "--json")
    assert made.code == 0, made.err
    assert (made.json["events"], made.json["payload"]) == (["order.*.paid", "ping.**"], "thin")
    assert [warning["pointer"] for warning in made.json["warnings"]] == ["/events/1"]
    assert made.err == ""
    first = (await hookfast(*create, "order.refund.made", "--inactive", "--json")).json["id"]

    async def listed(*filters: str) -> list[str]:
        found = await hookfast("subscriptions", "list", *filters, "--json")
        assert found.code == 0, found.err
        return [",".join(row["events"]) for row in found.json["data"]]

    both = ["order.refund.made", "order.*.paid,ping.**", "**"]
    assert await listed() == both
    assert await listed("--endpoint", "127.0.0.1:4/hook", "--tenant", "Acme") == both
    assert await listed("--matches", TYPE) == ["order.*.paid,ping.**", "**"]
    assert await listed("--matches", "order.refund.made", "--tenant", "Acme") == ["**"]
    wrong = await hookfast("subscriptions", "list", "--matches", "Not a type")
    assert wrong.code == 1
    assert "matches" in wrong.err

    shown = await hookfast("subscriptions", "show", "order.refund.made")
    assert first in shown.out
    assert shown.err == f"subscription: {first} order.refund.made\n"


async def test_filter_is_previewed_stored_shown_and_removed(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json, tmp_path: Path
) -> None:
    for amount in (100, 5):
        event = {"type": TYPE, "data": {"amount": amount}}
        assert (await client.post("/events", json=event)).status_code == 202
    conditions, small = {"amount": {"$gte": 100}}, '{"amount": 5}'
    (tmp_path / "large.json").write_text(json.dumps(conditions))
    from_file = f"@{tmp_path / 'large.json'}"
    preview = ("subscriptions", "preview", endpoint["id"], TYPE, "--filter")
    tried = await hookfast(*preview, from_file)
    assert tried.code == 0, tried.err
    assert tried.err.endswith("1 of the last 2 events matches.\n")
    assert [line.split()[1] for line in tried.out.splitlines()[1:]] == ["no", "yes"]
    assert (await hookfast(*preview, small, "--json")).json["matching"] == 1
    create = ("subscriptions", "create", endpoint["id"], TYPE, "--filter")
    made = (await hookfast(*create, from_file, "--json")).json
    assert made["filter"] == conditions
    assert '{"amount":{"$gte":100}}' in (await hookfast("subscriptions", "show", made["id"])).out
    assert '{"amount":{"$gte":100}}' in (await hookfast("subscriptions", "list")).out
    for data, count in (('{"amount": 100}', 2), (small, 1)):
        (tmp_path / "data.json").write_text(data)
        for given in (data, f"@{tmp_path / 'data.json'}"):
            listed = await hookfast(
                "subscriptions", "list", "--matches", TYPE, "--data", given, "--json"
            )
            assert len(listed.json["data"]) == count, listed.err
    update = ("subscriptions", "update", made["id"], "--filter")
    assert (await hookfast(*update, small, "--json")).json["filter"] == {"amount": 5}
    assert (await hookfast(*update, "{}", "--json")).json["filter"] is None
    wrong = await hookfast(*update, '{"amount": {"$gtee": 5}}')
    assert (wrong.code, "did you mean `$gte`?" in wrong.err) == (1, True)
    assert (await hookfast(*update, "5")).code == 2
    assert (await hookfast(*update, "@missing.json")).code == 2


async def test_a_mapping_is_tried_saved_and_used_by_a_test(
    hookfast: Run, endpoint: Json, tmp_path: Path
) -> None:
    file = tmp_path / "slack.jmespath"
    file.write_text("{text: to_string(data.n)}\n")
    test = ("endpoints", "test", endpoint["id"], TYPE, "--dry-run")
    tried = await hookfast(*test, "--mapping-file", str(file), "--data", '{"n": 12.50}')
    assert (tried.code, tried.out) == (0, '{"text":"12.50"}\n'), tried.err
    failed = await hookfast(*test, "--mapping", "join(',', data)")
    assert failed.code == 1
    assert "join() takes" in failed.err
    assert (await hookfast(*test, "--mapping", "a", "--mapping-file", str(file))).code == 2

    create = ("subscriptions", "create", endpoint["id"], TYPE, "--mapping-file", str(file))
    made = (await hookfast(*create, "--json")).json
    assert (made["payload"], made["mapping"]) == ("mapped", "{text: to_string(data.n)}")
    used = await hookfast(*test, "--subscription", made["id"], "--data", "-", stdin='{"n": 1}')
    assert used.out == '{"text":"1"}\n', used.err
    changed = await hookfast("subscriptions", "update", made["id"], "--mapping", "data")
    assert changed.code == 0, changed.err
    assert "mapping" in changed.out
    changed = await hookfast("subscriptions", "update", made["id"], "--payload", "full", "--json")
    assert changed.json["mapping"] is None


async def test_a_subscription_is_changed_and_deleted(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    [own] = (await client.get("/subscriptions")).json()["data"]
    update = ("subscriptions", "update", own["id"])
    changed = await hookfast(*update, "--events", "order.**", "--events", "a.b.c", "--json")
    assert (changed.json["events"], changed.json["payload"]) == (["order.**", "a.b.c"], "full")
    warned = await hookfast(*update, "--events", "order.**", "--events", "order.invoice.payed")
    assert warned.err == (
        "Warning: No registered event type matches 'order.invoice.payed' yet. Did you mean "
        f"{TYPE!r}?\n"
    )
    await hookfast(*update, "--events", "order.**", "--events", "a.b.c")
    changed = await hookfast(*update, "--inactive", "--payload", "raw", "--ordered")
    assert "yes" in changed.out.partition("ordered")[2].split()[0]
    assert "no" in changed.out.partition("active")[2].split()[0]
    assert (await client.get(f"/subscriptions/{own['id']}")).json()["payload"] == "raw"
    assert (await hookfast(*update)).code == 2
    nobody = await hookfast("subscriptions", "list", "--matches", TYPE)
    assert nobody.err == (
        f"No active subscription matches {TYPE}: nobody would get such an event.\n"
    )

    kept = await hookfast("subscriptions", "delete", own["id"], stdin="n\n")
    assert kept.code == 1
    assert f"{own['id']} sends order.**, a.b.c to {endpoint['id']}." in kept.err
    deleted = await hookfast("subscriptions", "delete", own["id"], "--yes")
    assert deleted.err == f"{own['id']} is deleted.\n"
    assert (await client.get("/subscriptions")).json()["data"] == []


async def test_numbers_are_sent_and_shown_as_they_were_written(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    schema = '{"multipleOf":0.010,"enum":[1.10,1E5,0.10000000000000000001]}'
    name = "order.number.described"
    created = await hookfast("event-types", "create", name, "--schema", "-", stdin=schema)
    assert created.code == 0, created.err
    await hookfast("event-types", "update", name, "--description", "Sent back as it is.")
    assert f'"schema":{schema}' in (await client.get(f"/event-types/{name}")).text
    shown = await hookfast("event-types", "show", name)
    assert '"multipleOf": 0.010' in shown.out
    assert "0.10000000000000000001" in shown.out

    conditions = '{"amount":{"$gte":1.10}}'
    made = await hookfast("subscriptions", "create", endpoint["id"], TYPE, "--filter", conditions)
    assert conditions in made.out
    repeated = '{"amount": 1, "amount": 2}'
    wrong = await hookfast("subscriptions", "create", endpoint["id"], TYPE, "--filter", repeated)
    assert wrong.code == 2
    assert "same name at line 1, column 15" in wrong.error_text
