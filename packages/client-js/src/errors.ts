/**
 * The errors of the client.
 *
 *     HookfastError
 *     ├── ConnectionFailed    no answer came
 *     │   └── TimedOut        no complete answer came in time
 *     ├── UnexpectedAnswer    the answer is not from Hookfast
 *     └── ApiError            Hookfast answered with a problem (RFC 9457)
 *
 * No error contains the API key.
 */
import type { components } from "./schema.js";

/** One error in the input: a JSON pointer into the body, or a parameter's name, and what is wrong. */
export type FieldError = components["schemas"]["FieldProblem"];

/** Base class of the client's errors. */
export class HookfastError extends Error {
  /** Whether Hookfast may have carried out the request although no success was reported. */
  readonly outcomeUnknown: boolean;
  /** The key of an emit that failed: emit again with it, and there will be one event at most. */
  idempotencyKey: string | undefined;

  constructor(message: string, outcomeUnknown: boolean) {
    super(message);
    this.name = new.target.name;
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** No answer came. */
export class ConnectionFailed extends HookfastError {}

/** No complete answer came in time. */
export class TimedOut extends ConnectionFailed {}

/** The server that answered is not Hookfast's API; check the URL. */
export class UnexpectedAnswer extends HookfastError {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message, true);
    this.status = status;
  }
}

/** Hookfast answered with a problem. */
export class ApiError extends HookfastError {
  readonly status: number;
  /** What happened, for programs; stable. `no_service`: a proxy answered for Hookfast. */
  readonly code: string;
  /** What happened and what to do, for people. */
  readonly detail: string;
  /** Every error in the input. */
  readonly errors: readonly FieldError[];
  /** Finds the request in Hookfast's log. */
  readonly requestId: string | undefined;
  /** Seconds after which to try again, if Hookfast said so. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, status: number, retryAfter?: number) {
    const errors = Array.isArray(problem.errors) ? problem.errors : [];
    const places = errors.map((error) => `\n  ${error.pointer || "(the whole body)"}: ${error.detail}`);
    super(
      `${status} ${problem.code}: ${problem.detail}${places.join("")}`,
      // a commit may have succeeded although the database, or a proxy's service, went away then
      status >= 500 && problem.code !== "overloaded",
    );
    this.status = status;
    this.code = problem.code;
    this.detail = problem.detail;
    this.errors = errors;
    this.requestId = problem.request_id ?? undefined;
    this.retryAfter = retryAfter;
  }
}

type Problem = Pick<components["schemas"]["Problem"], "code" | "detail" | "errors" | "request_id">;

const FROM_A_PROXY = [502, 503, 504];

/** Return the error of an answer that is not a success. */
export function errorOf(response: Response, body: string, origin: string): HookfastError {
  const problem = parsed(body);
  const retryAfter = parseRetryAfter(response.headers.get("Retry-After"));
  const requestId = response.headers.get("X-Request-Id");
  if (response.status >= 400 && typeof problem?.detail === "string") {
    return new ApiError({ code: "", request_id: requestId, ...problem } as Problem, response.status, retryAfter);
  }
  const detail = `${origin} answered ${response.status}, not as Hookfast does.`;
  if (FROM_A_PROXY.includes(response.status)) {
    return new ApiError({ code: "no_service", detail, request_id: requestId }, response.status, retryAfter);
  }
  return new UnexpectedAnswer(`${detail} Is the URL right?`, response.status);
}

/** Return the seconds of a `Retry-After` header (RFC 9110, section 10.2.3): a number or a date. */
export function parseRetryAfter(text: string | null, now = Date.now()): number | undefined {
  if (text === null) return undefined;
  if (/^\s*\d+\s*$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max((at - now) / 1000, 0);
}

function parsed(body: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // a proxy's page
  }
}
