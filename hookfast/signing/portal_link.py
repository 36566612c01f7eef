"""Portal links open the portal of one tenant or one endpoint, without an API key. Pure.

A link contains its permissions, encrypted by the keyring: nobody can read or change them, and
nothing is stored. It ends at its expiry, and earlier with the right behind it
(`hookfast.storage.accounts.sessions`): when the API key that created it, its tenant or its endpoint
ends, or, for a link in an owner's mail, when that address is removed from the endpoint's owners.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, cast

from hookfast.errors import Misconfigured, Unauthenticated
from hookfast.signing.keyring import Keyring

PortalScope = Literal["tenant", "tenant:read"]

PATH: Final = "/portal/open"
PARAMETER: Final = "sig"
"""The query parameter. By OpenTelemetry's semantic conventions (HTTP, "redacted by default"),
instrumentations redact the value of `sig` in the `url.query` of spans. With another name, a
collector would store working links."""
MAX_LIFETIME: Final = timedelta(days=7)
_CONTEXT: Final = "portal link"
_TO_URL: Final = str.maketrans("+/", "-_", "=")
_FROM_URL: Final = str.maketrans("-_", "+/")
_MAX_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalLink:
    """The permissions of a link. `endpoint_id` limits it to one endpoint. `key_id` is the API key
    that created it; None for a link in mail to the owner with `owner_hash`."""

    tenant_id: str
    endpoint_id: str | None
    scope: PortalScope
    expires_at: datetime
    key_id: str | None = None
    owner_hash: str | None = None

    def url(self, keyring: Keyring, *, public_url: str) -> str:
        """Return the link's URL, which gives access to everyone who has it."""
        sealed = keyring.seal(self._text(), context=_CONTEXT)
        return f"{public_url}{PATH}?{PARAMETER}={sealed.translate(_TO_URL)}"

    def digest(self) -> str:
        """Return a SHA-256 in hex that tells links apart, however their URLs are spelled: base64
        can be written in several ways. Links that grant the same and expire in the same second are
        one."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def _text(self) -> str:
        members = [
            *(self.tenant_id, self.endpoint_id, self.scope, int(self.expires_at.timestamp())),
            *(self.key_id, self.owner_hash),
        ]
        return json.dumps(members, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class OwnerLinks:
    """Creates the links in owners' mail, which show one endpoint, read-only, for `lifetime`."""

    keyring: Keyring
    lifetime: timedelta

    def url(
        self, endpoint_id: str, *, tenant_id: str, owner: str, at: datetime, public_url: str
    ) -> str:
        """Return the link for a mail sent at `at` to the owner with this hash."""
        link = PortalLink(
            tenant_id=tenant_id,
            endpoint_id=endpoint_id,
            scope="tenant:read",
            expires_at=at + self.lifetime,
            owner_hash=owner,
        )
        return link.url(self.keyring, public_url=public_url)


def open_link(text: str, keyring: Keyring, *, now: datetime) -> PortalLink:
    """Return the permissions in a link's parameter. Raises Unauthenticated for a link that has
    expired or was not created by this server."""
    try:
        if len(text) > _MAX_CHARACTERS:
            raise Misconfigured("too long")
        sealed = text.translate(_FROM_URL)
        sealed += "=" * (-len(sealed) % 4)
        tenant_id, endpoint_id, scope, until, key_id, owner_hash = json.loads(
            keyring.open(sealed, context=_CONTEXT)
        )
    except Misconfigured:  # not created here, or encrypted by a removed key
        raise Unauthenticated(
            "This link is not valid. Ask its sender for a new one.", code="invalid_link"
        ) from None
    expires_at = datetime.fromtimestamp(until, UTC)
    if expires_at <= now:
        raise Unauthenticated(
            "This link has expired. Ask its sender for a new one.", code="expired_link"
        )
    return PortalLink(
        tenant_id=tenant_id,
        endpoint_id=endpoint_id,
        scope=cast(PortalScope, scope),
        expires_at=expires_at,
        key_id=key_id,
        owner_hash=owner_hash,
    )
