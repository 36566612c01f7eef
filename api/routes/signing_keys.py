"""The key directory: public keys with which receivers verify asymmetric signatures."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.answers.problem_responses import problem_responses
from api.context.context import AppContext
from hookfast.endpoints.secrets import live_secrets
from hookfast.ids import is_id
from hookfast.signing.keys import Jwk, ed25519_jwk
from hookfast.storage.endpoints import endpoints
from hookfast.storage.keys import signing_keys

routes = APIRouter(tags=["Signatures"])

PATH = "/.well-known/hookfast-keys.json"
_CACHE_SECONDS = 300


class _JwkSet(JSONResponse):
    media_type = "application/jwk-set+json"  # RFC 7517, section 8.5.2


class KeySet(BaseModel):
    """A JWK Set (RFC 7517, section 5)."""

    keys: list[Jwk] = Field(description="`kty`, `kid`, `use`, `alg` and the key's parameters.")


@routes.get(
    PATH,
    summary="Get the public signing keys",
    response_class=_JwkSet,
    responses=problem_responses(422, 503),
)
async def get_signing_keys(
    context: AppContext,
    response: Response,
    endpoint_id: Annotated[
        str | None, Query(description="Add the ed25519 keys that sign for this endpoint.")
    ] = None,
) -> KeySet:
    """The RSA keys of this service: the current signing key, its announced successor, and older
    keys whose signatures may still arrive. No API key is needed."""
    now = context.clock()
    async with context.database.read() as connection:
        keys = await signing_keys.public_keys(connection, now=now)
        if endpoint_id is not None and is_id("ep", endpoint_id):
            endpoint = await endpoints.get(connection, endpoint_id)
            secrets = [] if endpoint is None else live_secrets(endpoint.secrets, now)
            keys += [ed25519_jwk(one["public"]) for one in secrets if "public" in one]
    response.headers["Cache-Control"] = f"public, max-age={_CACHE_SECONDS}"
    return KeySet(keys=keys)
