"""Receives Hookfast's webhooks with Flask.

    pip install 'hookfast-receiver[flask]'
    HOOKFAST_SECRETS=whsec_… flask --app receiver_flask run --port 9000

While a secret is being rotated, HOOKFAST_SECRETS lists both, separated by a space. With REDIS_URL
set (and `hookfast-receiver[redis]`), any number of processes share the store.
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
    """Return a store in Redis if REDIS_URL is set, otherwise in memory, which a restart clears."""
    if url := os.environ.get("REDIS_URL"):
        from redis import Redis

        return RedisStore(Redis.from_url(url))
    return MemoryStore()


store = make_store()
verifier = Verifier(
    secrets=os.environ["HOOKFAST_SECRETS"].split(),
    profiles=["hook"],  # it does not sign the message id, so it needs the guard below
)
intake = Intake(verifier, store=store, replay_guard=ReplayGuard(store))
app = Flask(__name__)


@app.get("/webhooks")
def agree() -> Response:
    """Agree to URL verification by returning the challenge."""
    return Response(headers={"X-Hook-Challenge": request.headers.get("X-Hook-Challenge", "")})


@app.post("/webhooks")
@view(intake)
def paid(webhook: Webhook) -> str:
    """Handle a message once. Returning answers 2xx; after an exception it is sent again."""
    event = webhook.json()
    app.logger.warning("%s: %s", webhook.message_id, event["type"])
    return f"thanks for {event['type']}"
