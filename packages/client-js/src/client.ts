/** The client: typed calls of the routes in the OpenAPI document, and emitting. */
import createClient, { type Client, type FetchResponse, type ParamsOption, type RequestBodyOption } from "openapi-fetch";
import type { HttpMethod, MediaType, PathsWithMethod, RequiredKeysOf } from "openapi-typescript-helpers";

import { batches, type EmittedItem, type NewBatchEvent } from "./batch.js";
import { HookfastError, UnexpectedAnswer } from "./errors.js";
import { toJson } from "./json.js";
import { DEFAULT_LIMITS, send, type Fetch, type Limits } from "./retry.js";
import type { components, paths } from "./schema.js";
import { VERSION } from "./version.js";

/** An event to emit: the body of `POST /v1/events`. */
export type NewEvent = NonNullable<paths["/v1/events"]["post"]["requestBody"]>["content"]["application/json"];
export type EmittedEvent = components["schemas"]["EmittedEvent"];

/** Where Hookfast is, and the limits of calls. */
export interface Options extends Partial<Limits> {
  /** `https://hooks.example.com`, with or without `/v1`. */
  url: string;
  apiKey: string;
  /** Replaces `globalThis.fetch`, for a proxy or certificates of your own. */
  fetch?: Fetch;
}

/** What every call takes in addition to its parameters. */
export interface CallOptions extends Partial<Limits> {
  /** Ends the call, which then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** To send it twice has the effect of sending it once, so send it again when no answer came. */
  repeatable?: boolean;
}

export interface EmitOptions extends CallOptions {
  /** Makes your own repetitions safe too. Default: a new key for each call. */
  idempotencyKey?: string;
}

/** The routes that answer with JSON: all but the stream of Server-Sent Events, and the health checks. */
type Route = Exclude<Extract<keyof paths, `/v1/${string}`>, "/v1/stream">;
/** The routes with this method. */
export type Path<Method extends HttpMethod> = Extract<PathsWithMethod<paths, Method>, Route>;
type Operation<P extends Route, Method extends HttpMethod> = Extract<paths[P][Method & keyof paths[P]], object>;
type Parameters<P extends Route, Method extends HttpMethod> = CallOptions &
  ParamsOption<Operation<P, Method>> &
  RequestBodyOption<Operation<P, Method>>;
type Arguments<I> = RequiredKeysOf<I> extends never ? [I?] : [I];
type Answer<P extends Route, Method extends HttpMethod> = NonNullable<
  FetchResponse<Operation<P, Method>, object, MediaType>["data"]
>;

/** Calls a route with its parameters and body, and resolves with the answer's JSON. */
export type Call<Method extends HttpMethod> = <P extends Path<Method>>(
  path: P,
  ...init: Arguments<Parameters<P, Method>>
) => Promise<Answer<P, Method>>;

/** The routes that list: their answers have `data` and `next_cursor`. */
export type ListPath = { [P in Path<"get">]: Answer<P, "get"> extends Page ? P : never }[Path<"get">];
interface Page {
  data: unknown[];
  next_cursor: string | null;
}

interface WithHeader {
  params?: { header?: Record<string, string | undefined> };
}

const KEY = "Idempotency-Key";
const EMITS = ["/v1/events", "/v1/events/batch"];
const REPEATABLE = ["GET", "HEAD", "PUT", "PATCH", "DELETE"];

/** A client of one Hookfast. Use one for the whole program. */
export class Hookfast {
  readonly url: string;
  readonly get: Call<"get">;
  readonly post: Call<"post">;
  readonly put: Call<"put">;
  readonly patch: Call<"patch">;
  readonly delete: Call<"delete">;
  readonly #client: Client<paths>;
  readonly #fetch: Fetch;
  readonly #limits: Limits;

  /** Throws a TypeError for a URL or key that cannot be one. */
  constructor({ url, apiKey, fetch, ...limits }: Options) {
    this.url = checkedUrl(url);
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#limits = withDefaults(limits, DEFAULT_LIMITS);
    this.#client = createClient<paths>({
      baseUrl: this.url,
      headers: { Authorization: `Bearer ${checkedKey(apiKey)}`, "User-Agent": `hookfast-client-js/${VERSION}` },
      bodySerializer: (body: unknown) => toJson(body),
      pathSerializer: toPath,
    });
    this.get = this.#call("GET") as Call<"get">;
    this.post = this.#call("POST") as Call<"post">;
    this.put = this.#call("PUT") as Call<"put">;
    this.patch = this.#call("PATCH") as Call<"patch">;
    this.delete = this.#call("DELETE") as Call<"delete">;
  }

  /** Emit an event, and resolve once it is committed. */
  emit(event: NewEvent, { idempotencyKey, ...options }: EmitOptions = {}): Promise<EmittedEvent> {
    const header = idempotencyKey === undefined ? {} : { [KEY]: idempotencyKey };
    return this.post("/v1/events", { body: event, params: { header }, ...options });
  }

  /**
   * Emit events in as few requests as the API's limits allow, and resolve with one result for each,
   * in order: an event that is rejected does not stop the others.
   *
   * An event without a key of its own has the key `<idempotencyKey>:<index>`. If a request fails,
   * the call rejects; to repeat it with the error's `idempotencyKey` emits nothing twice.
   */
  async emitBatch(
    events: readonly NewBatchEvent[],
    { idempotencyKey = crypto.randomUUID(), ...options }: EmitOptions = {},
  ): Promise<EmittedItem[]> {
    const results: EmittedItem[] = [];
    try {
      for (const batch of batches(events, idempotencyKey)) {
        const init = { body: { events: [] }, bodySerializer: () => batch, ...options };
        results.push(...(await this.post("/v1/events/batch", init)).data);
      }
    } catch (error) {
      if (error instanceof HookfastError) error.idempotencyKey = idempotencyKey;
      throw error;
    }
    return results;
  }

  /** Iterate over all rows of a list, which are fetched page by page. */
  async *list<P extends ListPath>(
    path: P,
    ...[init]: Arguments<Parameters<P, "get">>
  ): AsyncGenerator<Answer<P, "get"> extends { data: (infer Row)[] } ? Row : never> {
    let cursor: string | null | undefined;
    do {
      const given = (init ?? {}) as { params?: { query?: object } };
      const query = { ...given.params?.query, ...(cursor ? { cursor } : {}) };
      const page = (await this.#send("GET", path, { ...given, params: { ...given.params, query } })) as Page;
      yield* page.data as never[];
      cursor = page.next_cursor;
    } while (cursor);
  }

  #call(method: string) {
    return (path: string, init: object = {}) => this.#send(method, path, init);
  }

  async #send(method: string, path: string, init: object): Promise<unknown> {
    const { timeoutMs, attemptTimeoutMs, maxRetries, repeatable, params, ...rest } = init as CallOptions & WithHeader;
    const limits = withDefaults({ timeoutMs, attemptTimeoutMs, maxRetries }, this.#limits);
    const emits = method === "POST" && EMITS.includes(path);
    const key = emits ? (params?.header?.[KEY] ?? crypto.randomUUID()) : undefined;
    const header = { ...params?.header, ...(key === undefined ? {} : { [KEY]: key }) };
    const policy = { fetch: this.#fetch, limits, repeatable: repeatable ?? (emits || REPEATABLE.includes(method)) };
    const fetch = (request: Request) => send(request, policy);
    try {
      const call = this.#client.request as (method: string, path: string, init: object) => Promise<{ data?: unknown }>;
      return (await call(method, path, { ...rest, params: { ...params, header }, fetch })).data;
    } catch (error) {
      if (error instanceof SyntaxError) {
        throw new UnexpectedAnswer(`${this.url} did not answer with JSON. Is the URL right?`, 200);
      }
      if (error instanceof HookfastError) error.idempotencyKey = key;
      throw error;
    }
  }
}

function withDefaults(given: { [Name in keyof Limits]?: number | undefined }, defaults: Limits): Limits {
  const limits = {
    timeoutMs: given.timeoutMs ?? defaults.timeoutMs,
    attemptTimeoutMs: given.attemptTimeoutMs ?? defaults.attemptTimeoutMs,
    maxRetries: given.maxRetries ?? defaults.maxRetries,
  };
  if (!(limits.timeoutMs > 0 && limits.attemptTimeoutMs > 0 && limits.maxRetries >= 0)) {
    throw new RangeError("Time limits must be positive, and maxRetries not negative.");
  }
  return limits;
}

/** Return a path with its parameters, none of which may lead to another route. */
function toPath(path: string, parameters: Record<string, unknown>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(parameters[name] ?? "");
    if (["", ".", ".."].includes(value)) throw new TypeError(`${JSON.stringify(value)} cannot be the ${name}.`);
    return encodeURIComponent(value);
  });
}

function checkedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.username || url?.password) {
    throw new TypeError("The URL must not have a user or a password; the API key is enough.");
  }
  if (!url || !["http:", "https:"].includes(url.protocol) || url.search || url.hash) {
    throw new TypeError("The URL is not one of a Hookfast, like https://hooks.example.com.");
  }
  return url.href.replace(/\/+$/, "").replace(/\/v1$/, "");
}

function checkedKey(key: string): string {
  // the error message of fetch would quote it
  if (!/^[!-~]+$/.test(key ?? "")) throw new TypeError("The API key is not one (hf_…): it is empty, or has spaces in it.");
  return key;
}
