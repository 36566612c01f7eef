/** Calls against a running Hookfast, that of `HOOKFAST_URL` with the operator key `HOOKFAST_API_KEY`. */
import assert from "node:assert/strict";
import { createServer, request as forward } from "node:http";
import { once } from "node:events";
import { before, describe, test } from "node:test";

import { Hookfast } from "hookfast-client";

const { HOOKFAST_URL: url, HOOKFAST_API_KEY: apiKey } = process.env;
const type = "order.invoice.paid";

describe("a running Hookfast", { skip: url ? false : "HOOKFAST_URL names no running Hookfast" }, () => {
  let hookfast, tenant;

  before(async () => {
    hookfast = new Hookfast({ url, apiKey });
    await hookfast.put("/v1/event-types/{name}", { params: { path: { name: type } }, body: {} });
    tenant = (await hookfast.post("/v1/tenants", { body: { name: "Acme" } })).id;
  });

  const listed = async () => {
    const ids = [];
    for await (const event of hookfast.list("/v1/events", { params: { query: { tenant_id: tenant, limit: 2 } } })) ids.push(event.id);
    return ids;
  };

  test("emits an event once, however often its key comes", async () => {
    const event = { type, tenant_id: tenant, data: { amount: 129900, name: "Zoë" } };
    const idempotencyKey = `invoice-of-${tenant}`;
    const first = await hookfast.emit(event, { idempotencyKey });
    const again = await hookfast.emit(event, { idempotencyKey });
    assert.equal(again.id, first.id);
    const params = { path: { event_id: first.id } };
    assert.deepEqual((await hookfast.get("/v1/events/{event_id}", { params })).data, event.data);
    await assert.rejects(hookfast.emit({ ...event, data: 2 }, { idempotencyKey }), { status: 409 });
  });

  test("emits once if the answer is lost", async (t) => {
    const proxy = await losingProxy(t, { answers: 2 });
    const before = await listed();
    const event = await new Hookfast({ url: proxy, apiKey }).emit({ type, tenant_id: tenant, data: "once" });
    assert.deepEqual(await listed(), [event.id, ...before]);
  });

  test("emits a batch, with one result for each event", async () => {
    const good = { type, tenant_id: tenant, data: 1 };
    const results = await hookfast.emitBatch([good, { ...good, type: "no.such.type" }, good]);
    assert.deepEqual(results.map((result) => result.status), [202, 422, 202]);
    assert.equal(results[1].problem.errors[0].pointer, "/type");
    assert.ok((await listed()).includes(results[2].id));
  });

  test("says where the input is wrong, and finds the request in the log", async () => {
    const body = { tenant_id: tenant, url: "https://example.com/hook", events: ["a..b"] };
    const error = await hookfast.post("/v1/endpoints", { body }).catch((caught) => caught);
    assert.equal(error.status, 422);
    assert.equal(error.errors[0].pointer, "/events/0");
    assert.match(error.requestId, /^req_/);
    await assert.rejects(new Hookfast({ url, apiKey: "hf_wrong" }).get("/v1/tenants"), { status: 401 });
  });

  test("changes and deletes", async () => {
    const params = { path: { tenant_id: (await hookfast.post("/v1/tenants", { body: { name: "Short" } })).id } };
    assert.equal((await hookfast.patch("/v1/tenants/{tenant_id}", { params, body: { name: "Long" } })).name, "Long");
    assert.equal(await hookfast.delete("/v1/tenants/{tenant_id}", { params }), undefined);
    await assert.rejects(hookfast.get("/v1/tenants/{tenant_id}", { params }), { status: 404, code: "not_found" });
  });
});

/** Start a proxy that breaks the connection in place of the first `answers` answers. */
async function losingProxy(t, { answers }) {
  const server = createServer((incoming, outgoing) => {
    const { method, url: path, headers } = incoming;
    const passed = forward(new URL(path, url), { method, headers }, (answer) => {
      if (answers-- > 0) return outgoing.socket.destroy();
      answer.pipe(outgoing.writeHead(answer.statusCode, answer.headers));
    });
    incoming.pipe(passed);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}
