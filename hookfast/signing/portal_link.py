"""Portal links: addresses that let somebody without an API key look at one tenant's part of the
dashboard, or at one endpoint's, for a while. Pure.

A link carries what it allows, sealed by the keyring: nobody can read or change it, and nothing of
it is stored. It ends with its time; before that with the API key that made it, or, for one that
came in an owner's mail, when that address is taken from the endpoint's owners.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, cast

from hookfast.errors import Misconfigured, Unauthenticated
from hookfast.signing.keyring import Keyring

PortalScope = Literal["tenant", "tenant:read"]

PATH: Final = "/dashboard/portal"
PARAMETER: Final = "sig"
"""OpenTelemetry's semantic conventions have instrumentations leave the value of `sig` out of the
`url.query` of spans (HTTP, "redacted by default"): under another name a collector would hold what
lets one in."""
LONGEST: Final = timedelta(days=7)
_CONTEXT: Final = "portal link"
_TO_URL: Final = str.maketrans("+/", "-_", "=")
_FROM_URL: Final = str.maketrans("-_", "+/")
_MAX_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalLink:
    """What a link allows. `endpoint_id`: only that endpoint. `key_id`: the API key that made it;
    None for one of an owner's mail, where `owner_hash` says whose."""

    tenant_id: str
    endpoint_id: str | None
    scope: PortalScope
    expires_at: datetime
    key_id: str | None = None
    owner_hash: str | None = None

    def url(self, keyring: Keyring, *, public_url: str) -> str:
        """The link itself: whoever has it is let in."""
        members = [
            *(self.tenant_id, self.endpoint_id, self.scope, int(self.expires_at.timestamp())),
            *(self.key_id, self.owner_hash),
        ]
        sealed = keyring.seal(json.dumps(members, separators=(",", ":")), context=_CONTEXT)
        return f"{public_url}{PATH}?{PARAMETER}={sealed.translate(_TO_URL)}"


@dataclass(frozen=True, slots=True)
class OwnerLinks:
    """The links in owners' mail: each shows its endpoint, to look at only, for `lifetime`."""

    keyring: Keyring
    lifetime: timedelta

    def url(
        self, endpoint_id: str, *, tenant_id: str, owner: str, at: datetime, public_url: str
    ) -> str:
        """The link in a mail of `at` to the owner with this hash."""
        link = PortalLink(
            tenant_id=tenant_id,
            endpoint_id=endpoint_id,
            scope="tenant:read",
            expires_at=at + self.lifetime,
            owner_hash=owner,
        )
        return link.url(self.keyring, public_url=public_url)


def open_link(text: str, keyring: Keyring, *, now: datetime) -> PortalLink:
    """What the value of a link's parameter allows. Raises Unauthenticated for one that is over or
    that we did not make."""
    try:
        if len(text) > _MAX_CHARACTERS:
            raise Misconfigured("too long")
        sealed = text.translate(_FROM_URL)
        sealed += "=" * (-len(sealed) % 4)
        tenant_id, endpoint_id, scope, until, key_id, owner_hash = json.loads(
            keyring.open(sealed, context=_CONTEXT)
        )
    except Misconfigured:  # not by us, or by a key that is no more
        raise Unauthenticated(
            "This link is not valid. Ask whoever sent it for a new one.", code="invalid_link"
        ) from None
    expires_at = datetime.fromtimestamp(until, UTC)
    if expires_at <= now:
        raise Unauthenticated(
            "This link has expired. Ask whoever sent it for a new one.", code="expired_link"
        )
    return PortalLink(
        tenant_id=tenant_id,
        endpoint_id=endpoint_id,
        scope=cast(PortalScope, scope),
        expires_at=expires_at,
        key_id=key_id,
        owner_hash=owner_hash,
    )
