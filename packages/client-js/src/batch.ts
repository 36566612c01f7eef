/** Splits events into batches that the API accepts. */
import { toJson } from "./json.js";
import type { components, paths } from "./schema.js";

/** An event of a batch; `idempotency_key` replaces the one that is made for it. */
export type NewBatchEvent = NonNullable<
  paths["/v1/events/batch"]["post"]["requestBody"]
>["content"]["application/json"]["events"][number];

/** The result of one event: the committed event, or `problem`, which says why it was rejected. */
export type EmittedItem = components["schemas"]["EmittedBatch"]["data"][number];

const MAX_EVENTS = 1_000; // the API's limit
// a quarter of the API's default limit, so that other callers' events do not wait long
const MAX_BYTES = 4 * 1024 * 1024;

/** Yield the bodies of the requests, with a key for each event. */
export function* batches(events: readonly NewBatchEvent[], key: string): Generator<string> {
  const encoder = new TextEncoder();
  let batch: string[] = [];
  let size = 0;
  // all of them before the first is sent: one that is not JSON rejects the call
  const all = { container: events, name: "events", outer: undefined };
  const texts = events.map((event, index) => {
    // after the event's members, because one that is undefined counts as absent
    const withKey = { ...event, idempotency_key: event.idempotency_key ?? `${key}:${index}` };
    return toJson(withKey, { container: events, name: index, outer: all });
  });
  for (const text of texts) {
    const bytes = encoder.encode(text).length;
    if (batch.length === MAX_EVENTS || (batch.length > 0 && size + bytes > MAX_BYTES)) {
      yield `{"events":[${batch.join()}]}`;
      [batch, size] = [[], 0];
    }
    batch.push(text);
    size += bytes + 1;
  }
  if (batch.length > 0) yield `{"events":[${batch.join()}]}`;
}
