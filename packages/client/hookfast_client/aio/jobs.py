"""Watches and cancels jobs, which act on many deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path
from hookfast_client.errors import (
    ConnectionFailed,
    HookfastError,
    JobNotFinished,
    RateLimited,
    Unavailable,
)
from hookfast_client.waiting import async_sleep

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import Job, ListJobsQuery

PATIENCE_SECONDS = 300.0
"""How long the API may be away while a job is waited for; the job itself does not need it."""

_ENDED = ("done", "cancelled", "failed")


class AsyncJobs:
    """The jobs."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    def list(self, **query: Unpack[ListJobsQuery]) -> AsyncPages[Job]:
        """List jobs, newest first."""
        return AsyncPages(self._client, "/jobs", query)

    async def get(self, job_id: str) -> Job:
        """Return a job. Raises NotFound."""
        return cast("Job", await self._client.fetch(call.get(path("jobs", job_id))))

    async def cancel(self, job_id: str) -> Job:
        """Stop a job. The deliveries that it has acted on stay as they are."""
        request = call.post(path("jobs", job_id, "cancel"), repeatable=True)
        return cast("Job", await self._client.fetch(request))

    async def wait(
        self,
        job_id: str,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Job], object] | None = None,
        poll_seconds: float = 0.5,
    ) -> Job:
        """Wait until a job has ended, and return it; its `status` is then `done`, `cancelled` or
        `failed`. `on_progress` is called with the job each time it was read.

        Raises JobNotFinished after `timeout` seconds (None: never), and HookfastError if the API
        did not answer at first, or is away for longer than five minutes.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        job: Job | None = None
        last_seen = 0.0
        while True:
            try:
                job = await self._read(job_id, ends)
                last_seen = time.monotonic()
            except (ConnectionFailed, Unavailable, RateLimited) as error:
                # an API that never answered is more likely a wrong URL than a restart
                if job is None or time.monotonic() - last_seen > PATIENCE_SECONDS:
                    raise
                _check(ends, poll_seconds, job, error)
            else:
                if on_progress is not None:
                    on_progress(job)
                if job["status"] in _ENDED:
                    return job
                _check(ends, poll_seconds, job, None)
            await async_sleep(poll_seconds)

    async def _read(self, job_id: str, ends: float | None) -> Job:
        """Return the job; do not try for longer than is left."""
        if ends is None:
            return await self.get(job_id)
        left = max(ends - time.monotonic(), 0.1)
        limited = self._client.with_options(timeout=min(left, self._client.limits.timeout))
        return await limited.jobs.get(job_id)


def _check(ends: float | None, pause: float, job: Job, cause: HookfastError | None) -> None:
    """Raise JobNotFinished if there is no time for another look at the job."""
    if ends is not None and time.monotonic() + pause > ends:
        message = f"{job['id']} is {job['status']} and has not ended in time."
        raise JobNotFinished(message, job=job) from cause
