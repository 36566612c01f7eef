/** Client of the webhook service Hookfast. */
export type { EmittedItem, NewBatchEvent } from "./batch.js";
export {
  Hookfast,
  type Call,
  type CallOptions,
  type EmitOptions,
  type EmittedEvent,
  type ListPath,
  type NewEvent,
  type Options,
} from "./client.js";
export { ApiError, ConnectionFailed, HookfastError, TimedOut, UnexpectedAnswer, type FieldError } from "./errors.js";
export type { Fetch, Limits } from "./retry.js";
/** The types of the API: routes, schemas, and the webhooks that receivers get. */
export type { components, operations, paths, webhooks } from "./schema.js";
export { VERSION } from "./version.js";
