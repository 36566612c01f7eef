"""Receives Hookfast's webhooks with FastAPI, each with its effect exactly once.

    pip install 'hookfast-receiver[starlette]' fastapi uvicorn
    HOOKFAST_SECRETS=whsec_… uvicorn receiver_fastapi:app --port 9000

While a secret is being rotated, HOOKFAST_SECRETS lists both, separated by a space. What arrives is
booked in BOOKS (an SQLite file), in the transaction that also records that the message is done: a
crash leaves both or neither.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from fastapi import FastAPI, Request, Response

from hookfast.receiver import Intake, SqlStore, Verifier, Webhook
from hookfast.receiver.starlette import endpoint

BOOKS = os.environ.get("BOOKS", "books.db")

verifier = Verifier(
    secrets=os.environ["HOOKFAST_SECRETS"].split(),
    profiles=["standard"],  # it also signs the message id, by which repetitions are recognised
)
store = SqlStore(lambda: sqlite3.connect(BOOKS))
intake = Intake(verifier, store=store)
app = FastAPI()


@contextmanager
def books() -> Iterator[sqlite3.Connection]:
    """A transaction: committed at the end, rolled back by an exception."""
    with closing(sqlite3.connect(BOOKS)) as connection, connection:
        yield connection


store.create_table()
with books() as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS paid (invoice TEXT, amount INTEGER)")


@app.get("/webhooks")
async def agree(request: Request) -> Response:
    """Agree to URL verification by returning the challenge."""
    return Response(headers={"X-Hook-Challenge": request.headers.get("X-Hook-Challenge", "")})


@app.post("/webhooks")
@endpoint(intake)
def paid(webhook: Webhook) -> str:
    """Handle a message once. Returning answers 2xx; after an exception it is sent again."""
    event = webhook.json()
    if event["type"] != "order.invoice.paid":
        return "not for us"
    with books() as connection:
        connection.execute(
            "INSERT INTO paid VALUES (?, ?)",
            (event["data"]["invoice_id"], event["data"]["amount"]),
        )
        store.finish_in(connection, webhook.claim, result=b"booked")
    return "booked"
