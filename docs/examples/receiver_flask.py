"""Receives Hookfast's webhooks with Flask.

    pip install 'hookfast-receiver[flask]'
    HOOKFAST_SECRETS=whsec_… flask --app receiver_flask run --port 9000

While a secret is being rotated, HOOKFAST_SECRETS lists both, separated by a space. With REDIS_URL
set (and `hookfast-receiver[redis]`), any number of processes share what is done.
"""

import os

from flask import Flask, Response, request

from hookfast.receiver import (
    IdempotencyStore,
    Intake,
    MemoryStore,
    RedisStore,
    ReplayGuard,
    Verifier,
    Webhook,
)
from hookfast.receiver.flask import view


def make_store() -> IdempotencyStore:
    """Redis if there is one; else memory, which forgets at a restart."""
    if url := os.environ.get("REDIS_URL"):
        from redis import Redis

        return RedisStore(Redis.from_url(url))
    return MemoryStore()


store = make_store()
verifier = Verifier(
    secrets=os.environ["HOOKFAST_SECRETS"].split(),
    profiles=["hook"],  # it does not sign the message id, so the guard below is worth having
)
intake = Intake(verifier, store=store, replay_guard=ReplayGuard(store))
app = Flask(__name__)


@app.get("/webhooks")
def agree() -> Response:
    """URL verification: whoever sends the challenge back wants the events."""
    return Response(headers={"X-Hook-Challenge": request.headers.get("X-Hook-Challenge", "")})


@app.post("/webhooks")
@view(intake)
def paid(webhook: Webhook) -> str:
    """Called once per message. Answers 2xx when it returns; an exception lets it come again."""
    event = webhook.json()
    app.logger.warning("%s: %s", webhook.message_id, event["type"])
    return f"thanks for {event['type']}"
