/** What is sent is what the caller has: everything else is rejected before anything is sent. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

import { Hookfast } from "hookfast-client";
import { toJson } from "../dist/json.js";
import { scriptedServer } from "./scripted-server.js";

class Money {
  constructor(amount) {
    this.amount = amount;
  }
}

const same = { a: 1 };

for (const value of [
  null, true, "", "Zoë \u2028 \"\\ \u0000", 0, -0, 1.5, 0.1, 1e-7, 1e21, -1e300, 2 ** 53 - 1, -(2 ** 53 - 1), [], {}, [[]], [null],
  { a: undefined, b: 1 }, { "a/b~c": [1, { d: "e" }], "": 0 }, new Date(0), new Number(7), new String("a"), new Boolean(false),
  new URL("https://example.com/"), new Money(1), Object.create(null), [same, same], { toJSON: () => ({ b: 2 }) },
  { gone: { toJSON: () => undefined }, kept: 1 }, { toJSON: (name) => name },
]) {
  test(`writes what JSON.stringify writes: ${JSON.stringify(value)}`, () => assert.equal(toJson(value), JSON.stringify(value)));
}

const cyclic = { list: [] };
cyclic.list.push(cyclic);

for (const [name, value, pointer] of [
  ["NaN", NaN, "/data"],
  ["an infinity in an array", [1, -Infinity], "/data/1"],
  ["a wrapped NaN", { price: new Number(NaN) }, "/data/price"],
  ["an invalid Date", { at: new Date(NaN) }, "/data/at"],
  ["an invalid Date of another realm", { at: runInNewContext("new Date(NaN)") }, "/data/at"],
  ["a rounded integer", { id: Number("12345678901234567890") }, "/data/id"],
  ["the first rounded integer", -(2 ** 53), "/data"],
  ["undefined in an array", [undefined], "/data/0"],
  ["a hole in an array", [1, , 2], "/data/1"],
  ["undefined in the place of data", { toJSON: () => [undefined] }, "/data/0"],
  ["a function", { f: () => 1 }, "/data/f"],
  ["a symbol", { s: Symbol("s") }, "/data/s"],
  ["a BigInt", { n: 1n }, "/data/n"],
  ["a wrapped BigInt", Object(1n), "/data"],
  ["a Map", { m: new Map([["a", 1]]) }, "/data/m"],
  ["a Set", new Set([1]), "/data"],
  ["bytes", { b: new Uint8Array(2) }, "/data/b"],
  ["a Promise", { later: Promise.resolve(1) }, "/data/later"],
  ["an Error", new Error("e"), "/data"],
  ["a RegExp", /a/, "/data"],
  ["a generator", [(function* () {})()], "/data/0"],
  ["a toJSON that fails", { "a/b~": { toJSON: () => assert.fail() } }, "/data/a~1b~0"],
  ["a cycle", cyclic, "/data/list/0"],
]) {
  test(`rejects ${name}, says where, and sends nothing`, async (t) => {
    const { url, requests } = await scriptedServer(t, {});
    const hookfast = new Hookfast({ url, apiKey: "hf_x" });
    const event = { type: "order.invoice.paid", data: value };
    const at = (place) => (error) => error instanceof TypeError && error.message.startsWith(`${place} cannot be written as JSON`);
    await assert.rejects(hookfast.emit(event), at(pointer));
    await assert.rejects(hookfast.post("/v1/events", { body: event }), at(pointer));
    await assert.rejects(hookfast.emitBatch([{ ...event, data: 1 }, event]), at(`/events/1${pointer}`));
    assert.equal(requests.length, 0);
  });
}

test("a member that is present but undefined counts as absent, so that events of a batch keep their keys", async (t) => {
  const { url, requests } = await scriptedServer(t, { body: { data: [] } });
  const hookfast = new Hookfast({ url, apiKey: "hf_x", fetch: undefined, timeoutMs: undefined });
  const event = { type: "order.invoice.paid", data: 1 };
  const given = [event, { ...event, idempotency_key: undefined, tenant_id: undefined }, { ...event, idempotency_key: "mine" }];
  await hookfast.emitBatch(given, { idempotencyKey: "k", signal: undefined, repeatable: undefined, maxRetries: undefined });
  assert.deepEqual(JSON.parse(requests[0].body).events, [
    { ...event, idempotency_key: "k:0" },
    { ...event, idempotency_key: "k:1" },
    { ...event, idempotency_key: "mine" },
  ]);
  await hookfast.emitBatch([event], { idempotencyKey: undefined });
  assert.match(JSON.parse(requests[1].body).events[0].idempotency_key, /^[0-9a-f-]{36}:0$/);
  await hookfast.emit({ ...event, tenant_id: undefined }, { idempotencyKey: undefined });
  assert.match(requests[2].headers["idempotency-key"], /^[0-9a-f-]{36}$/);
  await hookfast.post("/v1/events", { body: event, params: { header: { "Idempotency-Key": undefined } } });
  assert.match(requests[3].headers["idempotency-key"], /^[0-9a-f-]{36}$/);
  await hookfast.get("/v1/events", { params: { query: { type: undefined, limit: 2 } } });
  assert.equal(requests[4].url, "/v1/events?limit=2");
});

test("an API key that is undefined is rejected", () => {
  assert.throws(() => new Hookfast({ url: "https://hooks.example.com", apiKey: undefined }), TypeError);
});
