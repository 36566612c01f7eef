/** Compiled and not run: what the types allow, and what they reject. */
import { Hookfast, type components, type webhooks } from "hookfast-client";

const hookfast = new Hookfast({ url: "https://hooks.example.com", apiKey: "hf_x" });

export async function allowed(): Promise<string | null> {
  await hookfast.emit({ type: "order.invoice.paid", data: { amount: 1 }, tenant_id: "tnt_1" });
  const endpoint = await hookfast.post("/v1/endpoints", {
    body: { tenant_id: "tnt_1", url: "https://example.com", events: ["**"] },
  });
  const secret: string = endpoint.secret ?? "polled";
  const { status } = await hookfast.get("/v1/deliveries/{delivery_id}", { params: { path: { delivery_id: "dlv_1" } } });
  const known: "pending" | "retrying" | "held" | "paused" | "delivered" | "dead" | "gone" | "cancelled" = status;
  for await (const tenant of hookfast.list("/v1/tenants")) await consume(tenant.name, secret, known);
  for await (const event of hookfast.list("/v1/events", { params: { query: { type: "order.invoice.paid" } } })) {
    return event.tenant_id;
  }
  await hookfast.delete("/v1/tenants/{tenant_id}", { params: { path: { tenant_id: "tnt_1" } }, timeoutMs: 1000 });
  const figures = await hookfast.get("/v1/figures", { params: { query: { step: "1h", by: "result" } } });
  const failed: number | undefined = figures.data[0]?.by_result?.["5xx"];
  await consume(`${failed} of ${figures.total.attempts}`);
  const [item] = await hookfast.emitBatch([{ type: "order.invoice.paid", data: 1, idempotency_key: "invoice-1" }]);
  if (item && "problem" in item) await consume(item.problem.code);
  return null;
}

export async function rejected(): Promise<void> {
  // @ts-expect-error an event has data
  await hookfast.emit({ type: "order.invoice.paid" });
  // @ts-expect-error there is no such member
  await hookfast.emit({ type: "order.invoice.paid", data: 1, tenant: "tnt_1" });
  // @ts-expect-error there is no such route
  await hookfast.get("/v1/webhooks");
  // @ts-expect-error the path has a parameter
  await hookfast.get("/v1/events/{event_id}");
  // @ts-expect-error there is no such parameter
  await hookfast.get("/v1/events", { params: { query: { tpye: "order.invoice.paid" } } });
  // @ts-expect-error a step divides a day
  await hookfast.get("/v1/figures", { params: { query: { step: "7m" } } });
  // @ts-expect-error this route does not list
  hookfast.list("/v1/search", { params: { query: { q: "x" } } });
  // @ts-expect-error this route does not answer with JSON
  await hookfast.get("/v1/stream");
}

export function receiver(body: components["schemas"]["DeliveredEvent"]): unknown {
  type Headers = webhooks["event"]["post"]["parameters"]["header"];
  const name: keyof NonNullable<Headers> = "X-Hook-Id";
  return [name, body.data];
}

async function consume(...values: string[]): Promise<void> {
  console.log(values);
}
