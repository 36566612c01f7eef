/**
 * Sends a request until it has an answer, or its limits are reached.
 *
 * A request is sent again after a failed connection, an attempt that took too long, and the
 * statuses 408, 429, 502, 503 and 504. If Hookfast may have carried it out already, it is sent again
 * only if it is repeatable: GET, PUT, PATCH (a merge patch) and DELETE, and emits, which have an
 * idempotency key.
 *
 * The pauses double from 0.5 s to 10 s: 0.5, 1, 2, 4, 8, 10, 10. Each is shortened by up to half at
 * random, so that clients that lost the same service do not return all at once. A longer
 * `Retry-After` counts instead.
 */
import { ApiError, ConnectionFailed, HookfastError, TimedOut, errorOf } from "./errors.js";

/** The limits of a call. */
export interface Limits {
  /** Milliseconds for a call with all its retries. Default: 60,000. */
  timeoutMs: number;
  /** Milliseconds for each request of a call that may be repeated. Default: 30,000. */
  attemptTimeoutMs: number;
  /** How often a request is sent again. Default: 8. */
  maxRetries: number;
}

export const DEFAULT_LIMITS: Limits = { timeoutMs: 60_000, attemptTimeoutMs: 30_000, maxRetries: 8 };

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

const TEMPORARY = [408, 429, 502, 503, 504];
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
// nothing was sent: no address, or no connection
const NEVER_SENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/**
 * Send a request, and return its successful answer.
 *
 * Rejects with a HookfastError, or with the reason of the request's signal once that is aborted.
 */
export async function send(
  request: Request,
  { fetch, limits, repeatable }: { fetch: Fetch; limits: Limits; repeatable: boolean },
): Promise<Response> {
  const body = request.body === null ? undefined : await request.arrayBuffer();
  const ends = performance.now() + limits.timeoutMs;
  let maybeDone = false;
  for (let retries = 0; ; retries++) {
    const left = Math.max(ends - performance.now(), 1);
    try {
      return await attempt(request, body, fetch, repeatable ? Math.min(left, limits.attemptTimeoutMs) : left);
    } catch (error) {
      request.signal.throwIfAborted();
      if (!(error instanceof HookfastError)) throw error;
      if (maybeDone && request.method === "DELETE" && error instanceof ApiError && error.status === 404) {
        return new Response(null, { status: 204 }); // an earlier attempt, whose answer was lost, deleted it
      }
      maybeDone ||= error.outcomeUnknown;
      const pause = pauseAfter(error, retries);
      const again = isTemporary(error) && (repeatable || !error.outcomeUnknown);
      if (!again || retries >= limits.maxRetries || performance.now() + pause >= ends) throw error;
      await sleep(pause, request.signal);
    }
  }
}

/** Return the milliseconds to wait before the request is sent again, after so many retries. */
export function pauseAfter(error: HookfastError, retries: number, random = Math.random): number {
  const longest = Math.min(FIRST_PAUSE_MS * 2 ** retries, LONGEST_PAUSE_MS);
  const retryAfter = error instanceof ApiError ? (error.retryAfter ?? 0) : 0;
  return Math.max(longest * (0.5 + random() / 2), retryAfter * 1000);
}

async function attempt(
  request: Request,
  body: ArrayBuffer | undefined,
  fetch: Fetch,
  timeoutMs: number,
): Promise<Response> {
  const { method, headers, url } = request;
  const { origin } = new URL(url);
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), timeoutMs);
  const signal = AbortSignal.any([request.signal, limit.signal]);
  try {
    // with "follow", a redirect would turn a POST into a GET
    const response = await fetch(url, { method, headers, body, signal, redirect: "manual" });
    const content = await response.arrayBuffer(); // within the time limit
    if (!response.ok) throw errorOf(response, new TextDecoder().decode(content), origin);
    const { status, headers: received } = response;
    return new Response(content.byteLength > 0 ? content : null, { status, headers: received });
  } catch (error) {
    if (error instanceof HookfastError) throw error;
    if (limit.signal.aborted) throw new TimedOut(`${origin} did not answer in ${timeoutMs / 1000} s.`, true);
    const code = causeCode(error);
    if (code === undefined && !(error instanceof TypeError)) throw error; // not from the network
    throw new ConnectionFailed(
      `The connection to ${origin} failed: ${code ?? "no further reason"}.`,
      code === undefined || !NEVER_SENT.includes(code),
    );
  } finally {
    clearTimeout(timer);
  }
}

function isTemporary(error: HookfastError): boolean {
  return error instanceof ConnectionFailed || (error instanceof ApiError && TEMPORARY.includes(error.status));
}

/** Return the network's code in a failed `fetch`, which wraps it: `ECONNRESET`. */
function causeCode(error: unknown): string | undefined {
  const { code, cause, errors } = (error ?? {}) as { code?: unknown; cause?: unknown; errors?: unknown[] };
  if (typeof code === "string") return code;
  const inner = cause ?? errors?.[0]; // several addresses were tried
  return inner === undefined ? undefined : causeCode(inner);
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal.addEventListener("abort", stop, { once: true });
  });
}
