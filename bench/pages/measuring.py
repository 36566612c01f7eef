"""Requests each page many times, one after the other, from an API that runs alone."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from bench.pages.requests import Request, Subject, requests
from bench.parts import OPERATOR_KEY, free_port
from hookfast.clock import utc_now

_WARM_UP: Final = 3
_READY_TENTHS: Final = 600
_CSRF: Final = re.compile(r'name="csrf" value="([0-9a-f]+)"')


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a request's answers took, in milliseconds; `fault` if it was not answered as it
    should be, and then there are no times."""

    request: Request
    times: Sequence[float]
    fault: str | None = None

    def percentile(self, share: int) -> float:
        """Return the time within which this share (0 to 100) of the answers came."""
        ordered = sorted(self.times)
        return ordered[max(0, -(-len(ordered) * share // 100) - 1)]

    @property
    def missed(self) -> bool:
        """Whether the aim was missed."""
        return self.fault is not None or self.percentile(95) > self.request.aim


async def measure(
    environment: Mapping[str, str],
    home: Path,
    subject: Subject,
    *,
    times: int,
    progress: Callable[[str], None],
) -> list[Timing]:
    """Run the API, and request everything so many times."""
    found = []
    async with _running_api(environment, home) as api, _signed_in(api, OPERATOR_KEY) as operator:
        answer = await operator.post(
            f"/v1/tenants/{subject.tenant}/api-keys", json={"scope": "tenant", "name": "bench"}
        )
        assert answer.status_code == 201, answer.text
        async with _signed_in(api, answer.json()["key"]) as tenant:
            for request in requests(subject, utc_now()):
                progress(request.name)
                client = tenant if request.by_tenant else operator
                found.append(await _timed(client, request, times))
    return found


async def _timed(client: httpx2.AsyncClient, request: Request, times: int) -> Timing:
    taken = []
    for _ in range(_WARM_UP + times):
        begun = time.perf_counter()
        answer = await client.get(request.path)
        taken.append((time.perf_counter() - begun) * 1000)
        if answer.status_code not in (200, 303):  # a search for an id leads to its page
            return Timing(request, (), f"answered {answer.status_code}")
    return Timing(request, taken[_WARM_UP:])


@asynccontextmanager
async def _running_api(environment: Mapping[str, str], home: Path) -> AsyncIterator[str]:
    port = free_port()
    with (home / "api.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hookfast.cli", "api"),
            env=os.environ | environment | {"HOOKFAST_PORT": str(port)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            await _until_ready(url, process, home / "api.log")
            yield url
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _until_ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        for _ in range(_READY_TENTHS):
            if process.returncode is not None:
                break
            try:
                if (await client.get(f"{url}/healthz")).status_code == 200:
                    return
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
    raise SystemExit(f"The API did not start; see {log}.")


@asynccontextmanager
async def _signed_in(api: str, key: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with this key in its requests, and with a session of the dashboard."""
    async with httpx2.AsyncClient(
        base_url=api, headers={"Authorization": f"Bearer {key}"}, timeout=120, trust_env=False
    ) as client:
        page = await client.get("/dashboard/sign-in")
        form = _CSRF.search(page.text)
        assert form is not None, page.text
        answer = await client.post("/dashboard/sign-in", data={"csrf": form[1], "key": key})
        assert answer.status_code == 303, answer.text
        yield client
