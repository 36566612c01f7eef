"""FastAPI applications of tests, which leave nothing in the metrics that all tests share."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

_TELEMETRY: TelemetryConfig = {
    "operation_spans": False,
    "logs": False,
    "metrics": False,
    "auto_configure": False,
}


def quiet_app() -> FastAPI:
    """Return an application without routes and without telemetry."""
    return FastAPI(telemetry=_TELEMETRY)
