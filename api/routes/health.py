"""Health checks. `GET /healthz`: this process responds. `GET /readyz`: everything that deliveries
need is available."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from temporalio.service import RPCError

from api.context.context import AppContext, Context
from hookfast.storage.database.migrate import is_usable
from hookfast.storage.figures import workers

_CHECK_SECONDS = 3.0

routes = APIRouter(tags=["Health"])

Part = Literal["database", "migrations", "writes", "disk_space", "temporal", "worker"]


class Health(BaseModel):
    """The process responds."""

    status: Literal["ok"] = Field("ok", description="Always `ok`: the process responds.")


class Readiness(BaseModel):
    """Whether deliveries can be made, and which parts are missing."""

    status: Literal["ready", "not_ready"] = Field(
        description="`ready`, or `not_ready` (with 503) if a part is missing."
    )
    missing: list[Part] = Field(
        description="The parts that are not available. `writes`: the database answers and accepts "
        "no writes (a full disk, a standby). `disk_space`: SQLite's disk is almost full."
    )


@routes.get("/healthz", summary="Is the process alive?")
async def healthz() -> Health:
    return Health()


@routes.get(
    "/readyz",
    summary="Can deliveries be made?",
    responses={503: {"model": Readiness, "description": "A part is missing."}},
)
async def readyz(context: AppContext, response: Response) -> Readiness:
    missing = await missing_parts(context)
    if missing:
        response.status_code = 503
    return Readiness(status="not_ready" if missing else "ready", missing=missing)


async def missing_parts(context: Context) -> list[Part]:
    """Return the parts that deliveries need and that are missing, within a few seconds."""
    reads, writes, temporal = await asyncio.gather(
        _within_limit(_reads(context), if_late="database"), _writes(context), _temporal(context)
    )
    if "database" in reads or "migrations" in reads:
        writes = []  # the same cause
    return [*reads, *writes, *temporal]


async def _within_limit(looking: Coroutine[Any, Any, list[Part]], *, if_late: Part) -> list[Part]:
    """Return what is missing. A look past its time limit is cancelled, and not waited for: a driver
    may take long to give up."""
    task = asyncio.create_task(looking)
    await asyncio.wait({task}, timeout=_CHECK_SECONDS)
    if task.done():
        return task.result()
    task.cancel()
    return [if_late]


async def _reads(context: Context) -> list[Part]:
    try:
        if not await is_usable(context.database):
            return ["migrations"]
        async with context.database.read() as connection:
            alive = await workers.count_alive(connection, now=context.clock())
    except SQLAlchemyError:
        return ["database"]
    return [] if alive.workers else ["worker"]


async def _writes(context: Context) -> list[Part]:
    match await context.write_check.result(within=_CHECK_SECONDS):
        case "accepted":
            return []
        case "refused":
            return ["writes"]
        case "no_space":
            return ["disk_space"]


async def _temporal(context: Context) -> list[Part]:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            healthy = await context.temporal.service_client.check_health()
    except (RPCError, RuntimeError, OSError):  # a lazy client's first connect raises RuntimeError
        healthy = False
    return [] if healthy else ["temporal"]
