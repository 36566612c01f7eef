"""`python -m hookfast_client.outbox`: the relay where only the client is installed. It logs to
standard error; `hookfast outbox-relay` is the same with Hookfast's logs and metrics."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from datetime import timedelta

from hookfast_client.aio.client import AsyncHookfast
from hookfast_client.outbox.connection import DatabaseUnusable
from hookfast_client.outbox.relay import MAX_ROWS, KeyDenied
from hookfast_client.outbox.run import run_relay
from hookfast_client.outbox.table import DEFAULT_TABLE, create_sql

_DATABASE_VARIABLE = "HOOKFAST_OUTBOX_DATABASE_URL"


def main() -> None:
    """Run the relay. Exits with 1 and a sentence if the database or the key cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m hookfast_client.outbox",
        description="Send what an application has written into its outbox table to Hookfast. The "
        "API key is read from HOOKFAST_API_KEY.",
    )
    parser.add_argument(
        "--database-url",
        default=os.environ.get(_DATABASE_VARIABLE),
        help=f"the application's PostgreSQL database; or set {_DATABASE_VARIABLE}",
    )
    parser.add_argument(
        "--url", default=os.environ.get("HOOKFAST_URL"), help="of Hookfast; or set HOOKFAST_URL"
    )
    parser.add_argument("--table", default=DEFAULT_TABLE, help="default: %(default)s")
    parser.add_argument(
        "--keep-days",
        type=_days,
        default=0.0,
        help="how long rows are kept after they were sent; default: not at all",
    )
    parser.add_argument(
        "--batch",
        type=_rows,
        default=500,
        choices=range(1, MAX_ROWS + 1),
        metavar="ROWS",
        help="most events of a request; default: %(default)s",
    )
    parser.add_argument(
        "--parallel",
        action="store_true",
        help="let several relays of the table work at the same time, and keep no order",
    )
    parser.add_argument(
        "--once", action="store_true", help="end when no row is left that can be sent now"
    )
    parser.add_argument(
        "--print-sql", action="store_true", help="print the statements that create the table, only"
    )
    given = parser.parse_args()
    try:
        if given.print_sql:
            sys.stdout.write(create_sql(given.table))
            return
        for name in ("database_url", "url"):
            if not getattr(given, name):
                parser.error(f"--{name.replace('_', '-')} is missing")
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        run_relay(
            given.database_url,
            AsyncHookfast(given.url, os.environ.get("HOOKFAST_API_KEY", "")),
            table=given.table,
            rows=given.batch,
            keep=timedelta(days=given.keep_days),
            parallel=given.parallel,
            once=given.once,
        )
    except (DatabaseUnusable, KeyDenied, ValueError) as error:
        sys.exit(f"{parser.prog}: {error}")


def _rows(text: str) -> int:
    return int(_matching("[0-9]{1,9}", text))


def _days(text: str) -> float:
    return float(_matching(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", text))


def _matching(form: str, text: str) -> str:
    # Python would also read `1_000`
    if not re.fullmatch(form, text):
        raise argparse.ArgumentTypeError("it is not a number in plain digits")
    return text


if __name__ == "__main__":
    main()
