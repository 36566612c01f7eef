"""Log lines as they are written: their form, which ones are left out, and what happens when they
cannot be written."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from hookfast.logs import Shown, configure_logging
from hookfast.logs.kind import Kind
from tests.support.log_lines import privacy_faults, schema_faults


@dataclass
class Settings:
    log_format: str = "json"
    log_level: str = "info"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Restore the tests' own logging."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.configure(**before)
    root.handlers = handlers
    root.setLevel(level)


def written(output: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def delivered_lines(*, attempts: Shown, requests: Shown = "all") -> list[str]:
    """Return the kinds that are written of: a success at once, a failure with its success, a
    dead letter, and deliveries that wait."""
    output = io.BytesIO()
    configure_logging(
        Settings(), process="worker", attempts=attempts, requests=requests, output=output
    )
    log = structlog.get_logger()
    ids = {"delivery_id": "dlv_1"}
    log.info("At once.", kind=Kind.ATTEMPT_ENDED, result="success", **ids)
    log.info("At once.", kind=Kind.DELIVERY_ENDED, status="delivered", attempts=1, **ids)
    log.info("Later.", kind=Kind.ATTEMPT_ENDED, result="status", **ids)
    log.info("Later.", kind=Kind.ATTEMPT_ENDED, result="success", **ids)
    log.info("Later.", kind=Kind.DELIVERY_ENDED, status="delivered", attempts=2, **ids)
    log.info("Dead.", kind=Kind.DEAD_LETTER, status="dead", attempts=78, **ids)
    log.info("Limited.", kind=Kind.DELIVERY_LIMITED, **ids)
    log.info("Held.", kind=Kind.DELIVERY_HELD, **ids)
    log.info("Cancelled.", kind=Kind.DELIVERY_ENDED, status="cancelled", attempts=1, **ids)
    log.info("Asked.", kind=Kind.REQUEST, status_code=202)
    log.info("Asked.", kind=Kind.REQUEST, status_code=404)
    log.info("Gone.", kind=Kind.REQUEST)
    return [f"{line['event']} {line['kind']}" for line in written(output)]


ATTEMPTS = ["Later. attempt.ended", "Later. attempt.ended"]
REQUESTS = ["Asked. request", "Asked. request", "Gone. request"]


@pytest.mark.parametrize(
    ("attempts", "requests", "kept"),
    [
        (
            "all",
            "none",
            [
                "At once. attempt.ended",
                "At once. delivery.ended",
                *ATTEMPTS,
                "Later. delivery.ended",
                "Dead. delivery.dead_letter",
                "Limited. delivery.limited",
                "Held. delivery.held",
                "Cancelled. delivery.ended",
            ],
        ),
        (
            "failures",
            "failures",
            [
                "Later. attempt.ended",
                "Later. delivery.ended",
                "Dead. delivery.dead_letter",
                "Held. delivery.held",
                "Cancelled. delivery.ended",
                "Asked. request",
                "Gone. request",
            ],
        ),
        (
            "none",
            "all",
            [
                "Later. delivery.ended",
                "Dead. delivery.dead_letter",
                "Held. delivery.held",
                "Cancelled. delivery.ended",
                *REQUESTS,
            ],
        ),
    ],
)
def test_settings_choose_the_lines_of_attempts_and_requests(
    attempts: Shown, requests: Shown, kept: list[str]
) -> None:
    assert delivered_lines(attempts=attempts, requests=requests) == kept


def test_lines_of_ours_and_of_libraries_have_one_schema() -> None:
    output = io.BytesIO()
    configure_logging(Settings(), process="worker", output=output)
    structlog.get_logger().warning("Ours.", error="OSError")
    logging.getLogger("sqlalchemy.pool").warning("A %s.", "library's")
    try:
        raise ValueError("told")
    except ValueError as error:
        structlog.get_logger().error("Failed.", exc_info=error)
        logging.getLogger("temporalio").error("Failed there.", exc_info=error)
    lines = written(output)
    assert [line["event"] for line in lines] == [
        "Ours.",
        "A library's.",
        "Failed.",
        "Failed there.",
    ]
    assert [fault for line in lines for fault in schema_faults(line)] == []
    assert all("ValueError: told" in line["exception"] for line in lines[2:])


def test_text_that_is_not_unicode_is_logged_nevertheless() -> None:
    output = io.BytesIO()
    configure_logging(Settings(), process="worker", output=output)
    structlog.get_logger().warning("Odd.", error="a file named \udcff", count=1)
    [line] = written(output)
    assert (line["event"], line["error"]) == ("Odd.", "a file named \\udcff")


def test_a_line_that_cannot_be_written_fails_nothing() -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

    configure_logging(Settings(), process="worker", output=Full())
    structlog.get_logger().info("Lost.")
    logging.getLogger("uvicorn.error").error("Lost too.")
    closed = io.BytesIO()
    closed.close()
    configure_logging(Settings(), process="worker", output=closed)
    structlog.get_logger().info("Lost.")


def test_schema_finds_a_field_without_description_and_a_missing_one() -> None:
    line = {"timestamp": "2026-11-25T15:00:00Z", "level": "info", "process": "api", "event": "E."}
    assert list(schema_faults(line)) == []
    assert list(schema_faults(line | {"body": "x"}))
    assert list(schema_faults(line | {"attempt": "1"}))
    assert list(schema_faults(line | {"kind": "attempt.ended"}))
    assert list(schema_faults(line | {"timestamp": "today"}))


def test_the_url_of_a_receiver_is_found_unless_it_is_the_short_form() -> None:
    short, whole = "https://hooks.example.com/services/…", "https://hooks.example.com/services/T0"
    assert not list(privacy_faults(json.dumps({"endpoint_url": short})))
    assert not list(privacy_faults(json.dumps({"endpoint_url": short}, ensure_ascii=False)))
    assert list(privacy_faults(json.dumps({"endpoint_url": whole})))
    assert list(privacy_faults(json.dumps({"error": short})))
