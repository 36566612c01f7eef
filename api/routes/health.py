"""Health checks. `GET /healthz`: this process responds. `GET /readyz`: everything that deliveries
need is available. Both support HEAD, which many monitors use."""

from __future__ import annotations

import asyncio
from typing import Literal

import asyncpg
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from temporalio.service import RPCError

from api.process.context import AppContext, Context
from hookfast.storage.database.migrate import is_usable
from hookfast.storage.figures import workers

_CHECK_SECONDS = 3.0

routes = APIRouter(tags=["Health"])

Part = Literal["database", "migrations", "temporal", "worker"]


class Health(BaseModel):
    """The process responds."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether deliveries can be made, and which parts are missing."""

    status: Literal["ready", "not_ready"]
    missing: list[Part] = Field(description="The parts that are not available.")


@routes.head("/healthz", include_in_schema=False)
@routes.get("/healthz", summary="Is the process alive?")
async def healthz() -> Health:
    return Health()


@routes.head("/readyz", include_in_schema=False)
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
    database, has_temporal = await asyncio.gather(_database(context), _temporal(context))
    return database if has_temporal else [*database, "temporal"]


async def _database(context: Context) -> list[Part]:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            if not await is_usable(context.database):
                return ["migrations"]
            async with context.database.read() as connection:
                alive = await workers.count_alive(connection, now=context.clock())
    except (SQLAlchemyError, asyncpg.PostgresError, OSError):  # TimeoutError is an OSError
        return ["database"]
    return [] if alive.workers else ["worker"]


async def _temporal(context: Context) -> bool:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await context.temporal.service_client.check_health()
    except (RPCError, RuntimeError, OSError):  # a lazy client's first connect raises RuntimeError
        return False
