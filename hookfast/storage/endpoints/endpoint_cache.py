"""Cache of endpoints as attempts use them, with decrypted secrets. An entry is valid until its
endpoint changes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from ipaddress import ip_network
from typing import Any

import structlog
from cachetools import TTLCache
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Table, bindparam, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PlanSpec, parse_plan
from hookfast.endpoints.credentials import PUBLIC, Access, open_credentials
from hookfast.endpoints.limits import Limits
from hookfast.endpoints.secrets import open_headers, open_secrets
from hookfast.errors import HookfastError, InvalidInput, Misconfigured
from hookfast.settings.types import Network
from hookfast.signing.encryption import Encryption
from hookfast.signing.keyring import Keyring
from hookfast.signing.keys import RsaSigner
from hookfast.signing.signature import HashName, Profile, parse_profiles
from hookfast.storage.circuits.circuits import EndpointGate
from hookfast.storage.keys import signing_keys
from hookfast.storage.tables import Endpoint

_ENDPOINTS: Table = Endpoint.__table__
_E = _ENDPOINTS.c
_BY_ID = _E.id.in_(bindparam("ids", expanding=True))
_FIND = select(_ENDPOINTS).where(_BY_ID)
_FIND_READABLE = select(_E.id, _E.tenant_id, _E.url, _E.updated_at, _E.timeout_seconds).where(
    _BY_ID
)

_KEPT_SECONDS = 10.0  # an expired secret signs for that much longer at most
_MOST_KEPT = 10_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedEndpoint:
    """An endpoint as an attempt uses it, with decrypted secrets. `fault` says why no request can be
    made; an endpoint with a fault has no secrets."""

    endpoint_id: str
    tenant_id: str
    url: str
    updated_at: datetime
    plan: PlanSpec
    timeout_seconds: float
    keys: tuple[bytes, ...] = ()
    ed25519: tuple[Ed25519PrivateKey, ...] = ()
    rsa: RsaSigner | None = None
    profiles: tuple[Profile, ...] = ()
    hash_name: HashName = HashName.SHA256
    headers: dict[str, str] = field(default_factory=dict)
    access: Access = PUBLIC
    encryption: Encryption | None = None
    limits: Limits | None = None
    allowed_networks: tuple[Network, ...] = ()
    fault: str | None = None


class EndpointCache:
    """Caches the endpoints that this process sends to."""

    def __init__(self, keyring: Keyring, *, clock: Clock) -> None:
        self._keyring = keyring
        self._clock = clock
        self._known: TTLCache[str, CachedEndpoint] = TTLCache(_MOST_KEPT, ttl=_KEPT_SECONDS)
        self._signer: RsaSigner | None = None

    def get(self, endpoint_id: str) -> CachedEndpoint | None:
        """Return an endpoint that was read recently, or None for any other."""
        return self._known.get(endpoint_id)

    async def load(
        self, connection: AsyncConnection, endpoints: Mapping[str, EndpointGate]
    ) -> dict[str, CachedEndpoint]:
        """Return these endpoints as they are now. If one cannot be used, its `fault` says why: its
        attempts fail with that error, and the deliveries of the others go on."""
        found: dict[str, CachedEndpoint] = {}
        missing = []
        for endpoint_id, current in endpoints.items():
            cached = self.get(endpoint_id)
            if cached is not None and cached.updated_at == current.updated_at:
                found[endpoint_id] = cached
            else:
                missing.append(endpoint_id)
        for row in await _read_rows(connection, sorted(missing)):
            opened = await self._open(connection, row)
            if opened.fault is None:
                self._known[opened.endpoint_id] = opened
            else:
                log.error(
                    "An endpoint cannot be used.",
                    endpoint_id=opened.endpoint_id,
                    error=opened.fault,
                )
            found[opened.endpoint_id] = opened
        return found

    async def _rsa(self, connection: AsyncConnection, row: Mapping[str, Any]) -> RsaSigner | None:
        """Return the service's RSA signing key if the endpoint uses the RSA profile."""
        if Profile.RSA not in row["signatures"]:
            return None
        sealed = await signing_keys.current_signer(connection, now=self._clock())
        if sealed is None:
            raise Misconfigured(
                "There is no signing key; create one with `hookfast secrets rotate-signing-key`."
            )
        if self._signer is None or self._signer.kid != sealed.kid:
            self._signer = sealed.open(self._keyring)
        return self._signer

    async def _open(self, connection: AsyncConnection, row: Mapping[str, Any]) -> CachedEndpoint:
        try:
            return self._read(row, rsa=await self._rsa(connection, row))
        except SQLAlchemyError:
            raise
        except HookfastError as error:
            return _unusable(row, fault=error.message)
        except Exception as error:
            kind = type(error).__name__  # not the message, which may quote a secret
            return _unusable(
                row,
                fault=f"the endpoint's row cannot be read ({kind}); it is damaged, or a later "
                "version of Hookfast wrote it",
            )

    def _read(self, row: Mapping[str, Any], *, rsa: RsaSigner | None) -> CachedEndpoint:
        opened = open_secrets(
            row["secrets"], self._keyring, endpoint_id=row["id"], now=self._clock()
        )
        headers = open_headers(row["headers"], self._keyring, endpoint_id=row["id"])
        access = open_credentials(
            row["credentials"], self._keyring, endpoint_id=row["id"], now=self._clock()
        )
        encryption = row["encryption"]
        parse_plan(row["retry_plan"])
        return CachedEndpoint(
            endpoint_id=row["id"],
            tenant_id=row["tenant_id"],
            url=row["url"],
            updated_at=row["updated_at"],
            keys=opened.hmac,
            ed25519=opened.ed25519,
            rsa=rsa,
            profiles=parse_profiles(row["signatures"]),
            hash_name=HashName(row["signature_hash"]),
            headers=headers,
            # The signing secrets are not sent, but the receiver's settings have them too.
            access=replace(access, sealed=(*headers.values(), *map(_base64, opened.hmac))),
            encryption=None if encryption is None else Encryption(**encryption),
            plan=row["retry_plan"],
            timeout_seconds=row["timeout_seconds"],
            limits=_limits(row["rate_limit_per_second"], row["max_in_flight"]),
            allowed_networks=tuple(ip_network(text) for text in row["allowed_networks"]),
        )


async def _read_rows(
    connection: AsyncConnection, endpoint_ids: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of these endpoints. Of a row with a column that is not JSON, only the columns
    that are no JSON are returned."""
    if not endpoint_ids:
        return []
    try:
        rows = await connection.execute(_FIND, {"ids": endpoint_ids})
        return [dict(row) for row in rows.mappings()]
    except ValueError:
        if len(endpoint_ids) > 1:
            return [row for one in endpoint_ids for row in await _read_rows(connection, [one])]
        rows = await connection.execute(_FIND_READABLE, {"ids": endpoint_ids})
        return [dict(row) for row in rows.mappings()]


def _unusable(row: Mapping[str, Any], *, fault: str) -> CachedEndpoint:
    """Return an endpoint to which no request can be made. Its attempts follow its retry plan, or
    the default one if it has none that can be read."""
    plan: Any = row.get("retry_plan")
    try:
        parse_plan(plan)
    except InvalidInput:
        plan = DEFAULT_PLAN
    return CachedEndpoint(
        endpoint_id=row["id"],
        tenant_id=row["tenant_id"],
        url=row["url"],
        updated_at=row["updated_at"],
        plan=plan,
        timeout_seconds=row["timeout_seconds"],
        fault=fault,
    )


def _base64(key: bytes) -> str:
    return b64encode(key).decode()


def _limits(rate: float | None, in_flight: int | None) -> Limits | None:
    if rate is None and in_flight is None:
        return None
    return Limits(rate_per_second=rate, max_in_flight=in_flight)
