/** Calls against a server that fails in every way. */
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { test } from "node:test";

import { ApiError, ConnectionFailed, Hookfast, HookfastError, TimedOut, UnexpectedAnswer } from "hookfast-client";
import { parseRetryAfter } from "../dist/errors.js";
import { pauseAfter } from "../dist/retry.js";
import { problem, scriptedServer } from "./scripted-server.js";

const KEY = "hf_only-for-this-test";
const EVENT = { type: "order.invoice.paid", data: { amount: 129900 } };
const EMITTED = { status: 202, body: { id: "evt_1", type: EVENT.type, created_at: "2026-11-21T09:30:00Z", deliveries: 1 } };
const AWAY = problem(503, "unavailable");

const client = (url, more = {}) => new Hookfast({ url, apiKey: KEY, ...more });

for (const [name, failure] of Object.entries({
  "a reset connection": "reset",
  ...Object.fromEntries([408, 429, 502, 503, 504].map((status) => [`a ${status}`, problem(status, "x")])),
  "a proxy's page": { status: 502, headers: { "Content-Type": "text/html" }, body: "<h1>Bad gateway</h1>" },
})) {
  test(`an emit is sent again after ${name}, with the same key and body`, async (t) => {
    const { url, requests } = await scriptedServer(t, failure, EMITTED);
    assert.equal((await client(url).emit(EVENT)).id, "evt_1");
    const [first, second] = requests;
    assert.match(first.headers["idempotency-key"], /^[0-9a-f-]{36}$/);
    assert.equal(second.headers["idempotency-key"], first.headers["idempotency-key"]);
    assert.equal(second.body, JSON.stringify(EVENT));
    assert.deepEqual([first.url, first.headers.authorization], ["/v1/events", `Bearer ${KEY}`]);
  });
}

test("an emit by its route has a key too", async (t) => {
  const { url, requests } = await scriptedServer(t, "reset", EMITTED);
  await client(url).post("/v1/events", { body: EVENT });
  assert.equal(requests.length, 2);
  assert.ok(requests[0].headers["idempotency-key"]);
  assert.equal(requests[0].headers["idempotency-key"], requests[1].headers["idempotency-key"]);
});

test("two emits have two keys", async (t) => {
  const { url, requests } = await scriptedServer(t, EMITTED);
  const hookfast = client(`${url}/v1/`);
  await Promise.all([hookfast.emit(EVENT), hookfast.emit(EVENT)]);
  assert.equal(new Set(requests.map((request) => request.headers["idempotency-key"])).size, 2);
});

for (const status of [400, 401, 403, 404, 409, 413, 422, 500, 508]) {
  test(`an emit is not sent again after a ${status}`, async (t) => {
    const { url, requests } = await scriptedServer(t, problem(status, "x"));
    await assert.rejects(client(url).emit(EVENT), (error) => error instanceof ApiError && error.status === status);
    assert.equal(requests.length, 1);
  });
}

test("a POST without a key is sent again only if nothing can have happened", async (t) => {
  for (const [failure, sent] of [["reset", 1], [AWAY, 1], [problem(504, "x"), 1], [problem(429, "x"), 2], [problem(503, "overloaded"), 2]]) {
    const { url, requests } = await scriptedServer(t, failure, { status: 201, body: { id: "tnt_1" } });
    await client(url).post("/v1/tenants", { body: { name: "Acme" } }).catch((error) => assert.ok(error.outcomeUnknown));
    assert.equal(requests.length, sent, JSON.stringify(failure));
  }
});

test("a POST without a key is sent again if its caller says that it is repeatable", async (t) => {
  const { url, requests } = await scriptedServer(t, AWAY, { body: {} });
  const path = { delivery_id: "dlv_1" };
  await client(url).post("/v1/deliveries/{delivery_id}/pause", { params: { path }, repeatable: true });
  assert.equal(requests.length, 2);
});

test("a POST without a key is sent again if there was no connection", async (t) => {
  const { url, server } = await scriptedServer(t, { status: 201, body: { id: "tnt_1" } });
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  const created = client(url).post("/v1/tenants", { body: { name: "Acme" } });
  server.listen(port, "127.0.0.1");
  assert.equal((await created).id, "tnt_1");
});

test("a DELETE whose answer was lost succeeds", async (t) => {
  const { url } = await scriptedServer(t, "reset", problem(404, "not_found"));
  const path = { tenant_id: "tnt_1" };
  assert.equal(await client(url).delete("/v1/tenants/{tenant_id}", { params: { path } }), undefined);
  const other = await scriptedServer(t, problem(404, "not_found"));
  await assert.rejects(client(other.url).delete("/v1/tenants/{tenant_id}", { params: { path } }), { status: 404 });
});

test("a longer Retry-After counts, and is not waited for beyond the time limit", async (t) => {
  const { url, requests } = await scriptedServer(t, problem(503, "x", {}, { "Retry-After": "1" }), EMITTED);
  const began = performance.now();
  await client(url).emit(EVENT);
  assert.ok(performance.now() - began > 950);
  assert.equal(requests.length, 2);

  const quota = await scriptedServer(t, problem(429, "daily_quota_exceeded", {}, { "Retry-After": "3600" }));
  await assert.rejects(client(quota.url).emit(EVENT), { code: "daily_quota_exceeded", retryAfter: 3600 });
  assert.equal(quota.requests.length, 1);
});

test("pauses double, are shortened by up to half, and end at 10 s", () => {
  const error = new ConnectionFailed("x", true);
  assert.deepEqual([0, 1, 2, 3, 4, 5, 9].map((n) => pauseAfter(error, n, () => 1)), [500, 1000, 2000, 4000, 8000, 10000, 10000]);
  assert.equal(pauseAfter(error, 0, () => 0), 250);
});

test("Retry-After is seconds or a date", () => {
  const now = Date.parse("2026-11-21T09:30:00Z");
  assert.equal(parseRetryAfter("120", now), 120);
  assert.equal(parseRetryAfter("Sat, 21 Nov 2026 09:31:00 GMT", now), 60);
  assert.equal(parseRetryAfter("Sat, 21 Nov 2026 09:29:00 GMT", now), 0);
  assert.equal(parseRetryAfter("soon", now), undefined);
  assert.equal(parseRetryAfter(null, now), undefined);
});

test("a silent server ends the call after its time limit", async (t) => {
  const { url, requests } = await scriptedServer(t, "silence");
  const emitting = client(url, { attemptTimeoutMs: 50, timeoutMs: 1000 }).emit(EVENT);
  await assert.rejects(emitting, (error) => error instanceof TimedOut && error.outcomeUnknown && Boolean(error.idempotencyKey));
  assert.ok(requests.length >= 2);
  await assert.rejects(client(url).emit(EVENT, { timeoutMs: 50 }), TimedOut);
  await assert.rejects(client(url).emitBatch([EVENT], { timeoutMs: 50, idempotencyKey: "k" }), { idempotencyKey: "k" });
});

test("retries end after maxRetries", async (t) => {
  const { url, requests } = await scriptedServer(t, AWAY);
  await assert.rejects(client(url, { maxRetries: 1 }).emit(EVENT), { status: 503, outcomeUnknown: true });
  assert.equal(requests.length, 2);
});

test("a signal ends the call during a request and during a pause", async (t) => {
  for (const answer of ["silence", problem(503, "x", {}, { "Retry-After": "30" })]) {
    const { url } = await scriptedServer(t, answer);
    const reason = new Error("no longer needed");
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 100);
    await assert.rejects(client(url).emit(EVENT, { signal: controller.signal }), reason);
  }
  await assert.rejects(client("http://127.0.0.1:9").emit(EVENT, { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("a problem is an error with all that it says, and without the key", async (t) => {
  const errors = [{ pointer: "/type", detail: "unknown event type" }];
  const { url } = await scriptedServer(t, problem(422, "unknown_event_type", { errors, request_id: "req_1" }));
  const hookfast = client(url);
  const error = await hookfast.emit(EVENT).catch((caught) => caught);
  assert.ok(error instanceof ApiError && error instanceof HookfastError && error.name === "ApiError");
  const { status, code, detail, requestId, outcomeUnknown } = error;
  assert.deepEqual({ status, code, detail, requestId, outcomeUnknown, errors: error.errors }, {
    status: 422, code: "unknown_event_type", detail: "It failed.", requestId: "req_1", outcomeUnknown: false, errors,
  });
  assert.match(error.message, /422 unknown_event_type: It failed.\n {2}\/type: unknown event type/);
  assert.ok(!inspect([error, hookfast], { depth: 9, showHidden: true }).includes(KEY));
});

test("answers that are not from Hookfast say so", async (t) => {
  for (const answer of [{ status: 200, body: "<h1>Welcome</h1>" }, { status: 404, body: "nothing here" }, { status: 301, headers: { Location: "/" } }]) {
    const { url, requests } = await scriptedServer(t, answer);
    await assert.rejects(client(url).emit(EVENT), UnexpectedAnswer);
    assert.equal(requests.length, 1);
  }
  const { url } = await scriptedServer(t, { status: 503, body: "no backend" });
  await assert.rejects(client(url, { maxRetries: 0 }).emit(EVENT), { code: "no_service" });
});

test("what cannot be sent is rejected before anything is sent", async (t) => {
  const { url, requests } = await scriptedServer(t, EMITTED);
  const hookfast = client(url);
  for (const data of [NaN, Infinity, 1n, [{ a: -Infinity }]]) await assert.rejects(hookfast.emit({ ...EVENT, data }), TypeError);
  await assert.rejects(hookfast.emitBatch([EVENT, { ...EVENT, data: NaN }]), TypeError);
  for (const event_id of ["", ".", ".."]) {
    await assert.rejects(hookfast.get("/v1/events/{event_id}/deliveries", { params: { path: { event_id } } }), TypeError);
  }
  assert.deepEqual(requests, []);
  await assert.rejects(hookfast.emit(EVENT, { timeoutMs: 0 }), RangeError);
  for (const bad of ["", "hooks.example.com", "ftp://a", "http://user:secret@a/", "http://a/?x"]) assert.throws(() => client(bad), TypeError);
  for (const apiKey of ["", "two words", "line\nbreak"]) assert.throws(() => new Hookfast({ url, apiKey }), TypeError);
});

test("ids are quoted in paths", async (t) => {
  const { url, requests } = await scriptedServer(t, { body: {} });
  await client(url).get("/v1/events/{event_id}", { params: { path: { event_id: "../tenants?x=#" } } });
  assert.equal(requests[0].url, "/v1/events/..%2Ftenants%3Fx%3D%23");
});

test("a list is read page by page", async (t) => {
  const { url, requests } = await scriptedServer(t, { body: { data: [1, 2], next_cursor: "a+b" } }, { body: { data: [3], next_cursor: null } });
  const rows = [];
  for await (const row of client(url).list("/v1/events", { params: { query: { type: "order.invoice.paid" } } })) rows.push(row);
  assert.deepEqual(rows, [1, 2, 3]);
  assert.deepEqual(requests.map((request) => request.url), ["/v1/events?type=order.invoice.paid", "/v1/events?type=order.invoice.paid&cursor=a%2Bb"]);
});

test("a batch is split by number and by size, and each event has a key", async (t) => {
  const { url, requests } = await scriptedServer(t, { status: 202, body: { data: [], accepted: 0, rejected: 0 } });
  const hookfast = client(url);
  await hookfast.emitBatch(Array.from({ length: 1001 }, () => EVENT), { idempotencyKey: "k" });
  const sent = requests.map((request) => JSON.parse(request.body).events);
  assert.deepEqual(sent.map((events) => events.length), [1000, 1]);
  assert.deepEqual([sent[0][999].idempotency_key, sent[1][0].idempotency_key], ["k:999", "k:1000"]);
  const large = { ...EVENT, data: "ü".repeat(1024 * 1024), idempotency_key: "mine" }; // 2 MiB of UTF-8
  await hookfast.emitBatch([large, large, large]);
  assert.deepEqual(requests.slice(2).map((request) => JSON.parse(request.body).events.length), [1, 1, 1]);
  assert.equal(JSON.parse(requests[2].body).events[0].idempotency_key, "mine");
  await hookfast.emitBatch([]);
  assert.equal(requests.length, 5);
});
