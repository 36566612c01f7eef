"""Whether Temporal answers this process, and in words why not."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from hookfast.outage_log import TEMPORAL
from hookfast.telemetry import instruments

_TIMEOUT: Final = timedelta(seconds=5)
_SHOWN = 200  # characters of an error that has no words of ours

_NO_ANSWER: Final = frozenset({RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED})
_DENIED: Final = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED})
_RETRIES: Final = "temporalio_client::retry"
"""The module of the SDK's core that logs each request that it repeats."""
_NETWORK_ERROR: Final = re.compile(
    r"transport::Error|Timeout expired|currently unavailable|Unavailable|"
    r"Deadline expired|DeadlineExceeded"
)
_CAUSES: Final = re.compile(r'message: "([^"]+)"')
_CODE: Final = re.compile(r"code: ('[^']*'|\w+)")


def failure_in_words(error: RPCError, *, namespace: str) -> str:
    """Say why a request to Temporal failed and, where a person has to act, what to do."""
    if error.status is RPCStatusCode.UNAVAILABLE:
        return "nothing answers at its address"
    if error.status in _NO_ANSWER:
        return f"it does not answer within {_TIMEOUT.total_seconds():.0f} seconds"
    if error.status in _DENIED:
        return _denied(f"the namespace {namespace!r}")
    if error.status is RPCStatusCode.NOT_FOUND:
        return f"it has no namespace {namespace!r}; create it, or correct TEMPORAL_NAMESPACE"
    return f"{error.status.name}: {error.message[:_SHOWN]}"


def connect_failure_in_words(error: RuntimeError) -> str:
    """Say why no connection to Temporal could be opened. The SDK raises one class for all
    causes, whose text is that of nested Rust errors."""
    text = str(error)
    if "PermissionDenied" in text or "Unauthenticated" in text:
        return _denied("its service")
    if "refused" in text or "dns error" in text:
        return "nothing answers at its address; start it, or correct TEMPORAL_ADDRESS"
    causes = _CAUSES.findall(text)
    return f"no connection: {causes[-1] if causes else text[:_SHOWN]}"


def _denied(what: str) -> str:
    return (
        f"it denies access to {what}; renew TEMPORAL_API_KEY or the client certificate, and restart"
    )


@asynccontextmanager
async def watching(client: Client) -> AsyncIterator[None]:
    """Watch Temporal while the block runs: log when it goes and comes back, and set the gauge."""
    repeated, sdk = RepeatedRequests(), logging.getLogger("temporalio")

    async def check() -> str | None:
        failure = await check_namespace(client)
        instruments.TEMPORAL_UP.set(int(failure is None))
        return failure

    sdk.addFilter(repeated)
    try:
        async with TEMPORAL.watched(check):
            yield
    finally:
        sdk.removeFilter(repeated)


async def check_namespace(client: Client) -> str | None:
    """Ask Temporal for the namespace, which needs its database and our permission. Return None if
    it answers, else why not."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        await client.workflow_service.describe_namespace(request, timeout=_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
            TEMPORAL.failed("Temporal rejects requests: a limit is reached.", error=error.message)
            return None
        return failure_in_words(error, namespace=client.namespace)
    except RuntimeError as error:  # a lazy client cannot connect
        return connect_failure_in_words(error)
    return None


class RepeatedRequests(logging.Filter):
    """Counts the lines of the SDK's core about requests that failed and are repeated, of which it
    writes up to a thousand a minute while Temporal is away. Only with log level `debug` they are
    written. All its other lines are, such as those of failed workflow tasks."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        line = getattr(record, "temporal_log", None)
        if line is None or not _is_repeated(line):
            return True
        code = _CODE.search(_error_of(line))
        TEMPORAL.failed(
            "Requests to Temporal fail and are repeated.",
            error="unknown" if code is None else code[1].strip("'"),
        )
        return logging.getLogger().isEnabledFor(logging.DEBUG)


def _is_repeated(line: Any) -> bool:
    return line.target == _RETRIES or _NETWORK_ERROR.search(_error_of(line)) is not None


def _error_of(line: Any) -> str:
    """Return the error that a line reports, "" if it reports none. A failure of a workflow task is
    in another field."""
    fields = line.fields
    return str(fields.get("error") or fields.get("details") or "")
