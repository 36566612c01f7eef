"""The facts of the guide for the developers of receivers, taken from the code that they describe:
its pages, an example request, the retry plans, and what each result of an attempt means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Final

from hookfast.clock import format_duration
from hookfast.deliveries.headers import request_headers
from hookfast.deliveries.outcome import Result
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PRESETS, RetryOn, RetryPlan
from hookfast.events.envelope import full_body
from hookfast.signing.signature import DEFAULT_PROFILES, HashName, secret_key

SAMPLE_SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of no endpoint
"""The secret of the examples, which signs nothing else."""


@dataclass(frozen=True, slots=True)
class GuidePage:
    """A page of the guide: the last part of its address, its title, and what it is about."""

    slug: str
    title: str
    summary: str


PAGES: Final = (
    GuidePage(
        "first-webhook", "Receive your first webhook", "A server, an endpoint and a test event."
    ),
    GuidePage("verify", "Verify signatures", "Six languages, each a program that runs."),
    GuidePage("answer", "Answer quickly, then work", "What counts as received, and by when."),
    GuidePage(
        "retries", "Retries, duplicates and order", "When a message comes again, and what to do."
    ),
    GuidePage("challenge", "The challenge", "Agree to webhooks before the first one is sent."),
    GuidePage("local", "Test on your own machine", "A signed request without any internet."),
    GuidePage("rotate", "Rotate the secret", "A new secret without losing a message."),
    GuidePage("secure", "Secure your receiver", "Addresses, TLS, sizes, and what is not signed."),
    GuidePage("troubleshoot", "Troubleshoot", "What each result means, and how to fix it."),
)
BY_SLUG: Final[Mapping[str, GuidePage]] = {page.slug: page for page in PAGES}


def neighbours(page: GuidePage) -> tuple[GuidePage | None, GuidePage | None]:
    """Return the pages before and after a page."""
    at = PAGES.index(page)
    return (PAGES[at - 1] if at else None), (PAGES[at + 1] if at + 1 < len(PAGES) else None)


_UNITS: Final = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def words(duration: timedelta | float) -> str:
    """Return a duration (a number: seconds) in words, in its two largest units: `3 days 1 hour`."""
    rest = round(duration.total_seconds() if isinstance(duration, timedelta) else duration)
    parts: list[str] = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A retry plan in words. `delays`: between the attempts; `total`: all of them together;
    `tried_again`: the failures that are retried."""

    name: str
    is_default: bool
    delays: str
    retries: int
    total: timedelta
    timeout: float
    tried_again: str


_TRIED_AGAIN: Final[Mapping[RetryOn, str]] = {
    RetryOn.ALL: "every failure but 410 and 508",
    RetryOn.TRANSIENT: "5xx but 508, 408, 429, and failures to connect",
    RetryOn.SERVER: "5xx but 508, 429, and failures to connect",
}


@lru_cache
def plan_rows() -> tuple[PlanRow, ...]:
    """Return the retry plans, the default first."""
    rows = [
        PlanRow(
            name=plan.name,
            is_default=plan.name == DEFAULT_PLAN,
            delays=_delays(plan),
            retries=len(plan.delays),
            total=timedelta(seconds=sum(plan.delays)),
            timeout=plan.timeout,
            tried_again=_TRIED_AGAIN[plan.retry_on],
        )
        for plan in PRESETS.values()
    ]
    return tuple(sorted(rows, key=lambda row: not row.is_default))


def _delays(plan: RetryPlan) -> str:
    """Return the delays with repeated ones counted: `1 min, 2 min, then 72 times 1 h`."""
    parts = []
    for seconds, repeated in groupby(plan.delays):
        delay, count = format_duration(timedelta(seconds=seconds)), len(list(repeated))
        parts.append(delay if count == 1 else f"then {count} times {delay}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A result of an attempt: what happened, and what to do."""

    name: str
    meaning: str
    fix: str


RESULTS: Final[Mapping[Result, ResultRow]] = {
    Result.DNS: ResultRow(
        "DNS failed",
        "The host name of your URL has no address, or its name server did not answer.",
        "Look for a typing error in the URL. Check the name from outside your network.",
    ),
    Result.ADDRESS: ResultRow(
        "address blocked",
        "The name leads to a private or reserved address, or the port is blocked.",
        "Use an address that the internet can reach. Every address of the name counts.",
    ),
    Result.REFUSED: ResultRow(
        "connection refused",
        "Your machine answered, but nothing listens at the port.",
        "Start your server. Check that it listens on the outer address, not only on 127.0.0.1.",
    ),
    Result.UNREACHABLE: ResultRow(
        "unreachable",
        "No way leads to the address.",
        "Check the address of the name, your firewall and your host's network.",
    ),
    Result.TLS: ResultRow(
        "TLS failed",
        "The certificate is expired, self-signed, for another name, or its intermediate is "
        "missing; or the two sides share no version of TLS.",
        "Install the full chain from a public authority. The message says which of these it is.",
    ),
    Result.CREDENTIALS: ResultRow(
        "no access token",
        "Your endpoint asks for a sign-in, and your token server gave no token.",
        "Check its URL, client id and secret in the settings of the endpoint.",
    ),
    Result.TIMEOUT: ResultRow(
        "timeout",
        "Your answer did not come in time. The work may have been done anyway.",
        "Store the message, answer, and work afterwards. Remember its id.",
    ),
    Result.RESET: ResultRow(
        "connection reset",
        "The connection ended before your answer was complete.",
        "Look for a crash in your log, and for a limit of size or time in your proxy.",
    ),
    Result.PROTOCOL: ResultRow(
        "no HTTP response",
        "Something answered, but not in HTTP/1.1.",
        "Check the port and the scheme: https and http are not the same port.",
    ),
    Result.INTERNAL: ResultRow(
        "internal error",
        "The request could not be made. This is not your fault.",
        "Nothing: it is tried again. The message says if a setting of your endpoint is the reason.",
    ),
}
"""The results of attempts that got no answer."""

STATUSES: Final = (
    ResultRow(
        "3xx",
        "Your server redirects. Redirects are not followed, as they could lead anywhere.",
        "Enter the final URL. Often only https, www. or a slash at the end is missing.",
    ),
    ResultRow(
        "400, 415, 422",
        "Your code did not like the body.",
        "Compare it with the request that the attempt shows. Answer 2xx to types that you do not "
        "use.",
    ),
    ResultRow(
        "401, 403",
        "Your signature check failed, or something before your code wants a sign-in.",
        "See “The signature does not fit” below. Exempt the path from sign-in, CSRF checks and bot "
        "protection.",
    ),
    ResultRow(
        "404, 405",
        "The path does not exist, or takes no POST.",
        "Check the path of the URL, and that your route takes POST.",
    ),
    ResultRow(
        "410",
        "You say that nothing will ever be here again: the endpoint is switched off.",
        "If that was a mistake, switch it on again, and resend what failed.",
    ),
    ResultRow(
        "413",
        "The body is larger than your server or its proxy allows.",
        "Raise the limit; the page “Secure your receiver” has the number.",
    ),
    ResultRow(
        "429, 503",
        "You ask for a pause. Retry-After is obeyed.",
        "Nothing, if you meant it. A limit of requests in the endpoint's settings is smoother.",
    ),
    ResultRow(
        "500, 502, 504",
        "Your code failed, or your proxy did not get its answer.",
        "Look into your log at the time of the attempt.",
    ),
    ResultRow(
        "508",
        "Your answer says that the event goes round in a loop. It is not tried again.",
        "Do not send events on to where they came from.",
    ),
)
"""What answers other than 2xx mean."""

_EXAMPLE_AT: Final = datetime.fromisoformat("2026-11-20T11:15:00+00:00")
_EXAMPLE_ID: Final = "dlv_0199f0a17c4e7d2f8b6a3c5e9d1f7042"
EXAMPLE_BODY: Final = full_body(
    event_id="evt_0199f0a17c4e7d2f8b6a3c5e9d1f7041",
    event_type="order.invoice.paid",
    created_at=_EXAMPLE_AT,
    tenant_id="tnt_0199f0a17c4e7d2f8b6a3c5e9d1f7040",
    data='{"invoice_id":"in_5001","amount":129900}',
).decode()


@lru_cache
def example_request() -> str:
    """Return a delivery as it is on the wire, signed with SAMPLE_SECRET."""
    body = EXAMPLE_BODY.encode()
    headers = request_headers(
        body,
        message_id=_EXAMPLE_ID,
        event_type="order.invoice.paid",
        attempt=1,
        timestamp=int(_EXAMPLE_AT.timestamp()),
        profiles=DEFAULT_PROFILES,
        keys=[secret_key(SAMPLE_SECRET)],
        hash_name=HashName.SHA256,
        custom={},
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    lines = ["POST /webhooks HTTP/1.1", "Host: shop.example"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", EXAMPLE_BODY]
    return "\n".join(lines)
