"""The credentials with which requests reach an endpoint: `Authorization` and a TLS identity. Pure.

The column `credentials` is a list, newest first, of

    {"kind": "bearer" | "basic" | "oauth2" | "tls", "sealed": …, "shown": {…},
     "created_at": …, "expires_at": … | null}

where `sealed` is the JSON of the whole credential and `shown` what responses may show of it. There
is at most one of the first three kinds and one `tls` that does not expire. A replaced credential
remains, with an expiry, for the overlap: the receiver rejects the new one until it knows it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from hookfast.clock import rfc3339
from hookfast.endpoints.certificates import (
    clean_certificates,
    clean_private_key,
    describe,
    describe_authorities,
)
from hookfast.endpoints.secrets import expiry_of, live_secrets
from hookfast.errors import InvalidInput
from hookfast.signing.keyring import Keyring

Credential = dict[str, Any]
"""An element of the column `credentials`."""

# A token is sent as it is, so it must not end the header's line. RFC 6750, section 2.1, allows even
# fewer characters, but some servers' tokens have others.
TOKEN = re.compile(r"[!-~]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Bearer:
    """A fixed bearer token (RFC 6750)."""

    kind: ClassVar = "bearer"
    token: str = field(repr=False)

    def shown(self) -> dict[str, Any]:
        """Return what responses show. Raises InvalidInput if the token cannot be sent."""
        if not TOKEN.fullmatch(self.token):
            raise InvalidInput.at("/token", "a token is visible ASCII characters without spaces")
        return {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no answer may show."""
        return (self.token,)

    @property
    def authorization(self) -> str:
        """The value of the header `Authorization`."""
        return f"Bearer {self.token}"


@dataclass(frozen=True, slots=True)
class Basic:
    """A user name and a password, sent in UTF-8 (RFC 7617)."""

    kind: ClassVar = "basic"
    username: str
    password: str = field(repr=False)

    def shown(self) -> dict[str, Any]:
        """Return what responses show. Raises InvalidInput if they cannot be sent."""
        if ":" in self.username:
            raise InvalidInput.at("/username", "a user name has no colon")
        _reject_controls(self, "username", "password")
        return {"username": self.username}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no answer may show."""
        return (self._pair, _base64(self._pair), self.username, self.password)

    @property
    def authorization(self) -> str:
        """The value of the header `Authorization`."""
        return f"Basic {_base64(self._pair)}"

    @property
    def _pair(self) -> str:
        return f"{self.username}:{self.password}"


@dataclass(frozen=True, slots=True)
class OAuth2:
    """A client whose access tokens come from a token endpoint (RFC 6749, section 4.4, the client
    credentials grant). `client_authentication`: whether the client's id and secret are in the
    `Authorization` header of the token request (`basic`) or in its `body` (section 2.3.1).
    `audience` is sent if set: some servers require it."""

    kind: ClassVar = "oauth2"
    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    audience: str | None = None
    client_authentication: Literal["basic", "body"] = "basic"

    def shown(self) -> dict[str, Any]:
        """Return what responses show. Raises InvalidInput if they cannot be sent; the caller checks
        the URL."""
        _reject_controls(self, "client_id", "client_secret", "scope", "audience")
        shown = asdict(self)
        del shown["client_secret"]
        return shown

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no answer may show. The client's id is no secret (RFC 6749, section 2.2), but it is
        one together with its secret, as in a token request."""
        pairs = (f"{self.client_id}:{self.client_secret}", self._escaped_pair)
        return (*pairs, *map(_base64, pairs), self.client_secret)

    @property
    def authorization(self) -> str:
        """The value of the header `Authorization` of a token request (section 2.3.1)."""
        return f"Basic {_base64(self._escaped_pair)}"

    @property
    def _escaped_pair(self) -> str:
        # `%20` for a space, because some servers do not decode the form's `+`
        return f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """Our side of mutual TLS, in PEM: a client certificate (with its intermediates) and its private
    key, both or neither, and the authorities that may have issued the server's certificate (None:
    the system's)."""

    kind: ClassVar = "tls"
    certificate: str | None = None
    private_key: str | None = field(default=None, repr=False)
    authorities: str | None = None

    def cleaned(self) -> TlsIdentity:
        """Return the same identity in clean PEM, which is stored and which every TLS library reads.
        Raises InvalidInput at the faulty member."""
        certificate, private_key, authorities = self.certificate, self.private_key, self.authorities
        if certificate is not None:
            certificate = clean_certificates(certificate, pointer="/certificate")
        if private_key is not None:
            private_key = clean_private_key(private_key)
        if authorities is not None:
            authorities = clean_certificates(authorities, pointer="/authorities")
        return TlsIdentity(certificate, private_key, authorities)

    def shown(self) -> dict[str, Any]:
        """Return what responses show: facts about the certificates. Raises InvalidInput if they
        cannot be used; see `describe` and `describe_authorities`."""
        shown: dict[str, Any] = {"certificate": None, "authorities": None}
        if self.certificate is not None or self.private_key is not None:
            shown["certificate"] = describe(self.certificate, self.private_key)
        if self.authorities is not None:
            shown["authorities"] = describe_authorities(self.authorities)
        if not any(shown.values()):
            raise InvalidInput.at(
                "/certificate", "set `certificate` and `private_key`, `authorities`, or all three"
            )
        return shown


Authentication = Bearer | Basic | OAuth2
AnyCredential = Bearer | Basic | OAuth2 | TlsIdentity

_KINDS: dict[str, type[AnyCredential]] = {
    kind.kind: kind for kind in (Bearer, Basic, OAuth2, TlsIdentity)
}


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials of an endpoint that are valid now, newest first. A request uses the first
    ones, and the next when the receiver rejects those. `sealed` are its other secrets that a
    receiver knows, and that no answer may show."""

    authentication: tuple[Authentication, ...] = ()
    tls: tuple[TlsIdentity, ...] = ()
    sealed: tuple[str, ...] = field(default=(), repr=False)


PUBLIC = Access()
"""No credentials."""


def seal_credential(
    credential: AnyCredential, keyring: Keyring, *, endpoint_id: str, now: datetime
) -> Credential:
    """Check and seal a credential for the column. Raises InvalidInput at the faulty member."""
    shown = credential.shown()
    text = json.dumps(asdict(credential))
    return {
        "kind": credential.kind,
        "sealed": keyring.seal(text, context=_context(endpoint_id, credential.kind)),
        "shown": shown,
        "created_at": rfc3339(now),
        "expires_at": None,
    }


def put_credential(
    stored: Sequence[Credential], new: Credential, *, overlap: timedelta, now: datetime
) -> list[Credential]:
    """Add a sealed credential to the column. The credential before it expires after `overlap`,
    and older ones end now."""
    tls = new["kind"] == "tls"
    current, others = current_credential(stored, tls=tls), without_credential(stored, tls=tls)
    if current is None or not overlap:
        return [new, *others]
    return [new, current | {"expires_at": rfc3339(now + overlap)}, *others]


def without_credential(stored: Sequence[Credential], *, tls: bool) -> list[Credential]:
    """Return the column without all TLS identities, or without all other credentials."""
    return [one for one in stored if (one["kind"] == "tls") is not tls]


def current_credential(stored: Sequence[Credential], *, tls: bool) -> Credential | None:
    """Return the TLS identity, or the other credential, that does not expire."""
    of_group = (one for one in stored if (one["kind"] == "tls") is tls)
    return next((one for one in of_group if one["expires_at"] is None), None)


def has_secret(stored: Sequence[Credential], *, tls: bool, now: datetime) -> bool:
    """Whether requests carry a client certificate, or another credential. Authorities that are
    trusted are no secret of ours."""
    return any(
        not tls or one["shown"]["certificate"] is not None
        for one in live_secrets(stored, now)
        if (one["kind"] == "tls") is tls
    )


def replaced_until(stored: Sequence[Credential], *, tls: bool) -> datetime | None:
    """Return until when the replaced credential is used, or was; None if none was kept."""
    ends = [expiry_of(one) for one in stored if (one["kind"] == "tls") is tls]
    return max((end for end in ends if end is not None), default=None)


def open_credentials(
    stored: Sequence[Credential], keyring: Keyring, *, endpoint_id: str, now: datetime
) -> Access:
    """Open the credentials that are valid now. Raises Misconfigured if one cannot be opened."""
    authentication: list[Authentication] = []
    tls: list[TlsIdentity] = []
    for one in live_secrets(stored, now):
        text = keyring.open(one["sealed"], context=_context(endpoint_id, one["kind"]))
        credential = _KINDS[one["kind"]](**json.loads(text))
        if isinstance(credential, TlsIdentity):
            tls.append(credential)
        else:
            authentication.append(credential)
    return Access(tuple(authentication), tuple(tls)) if stored else PUBLIC


def sealed_credentials(
    stored: Sequence[Credential], *, endpoint_id: str
) -> Iterator[tuple[str, str]]:
    """Yield the sealed text of each credential with its context."""
    for one in stored:
        yield _context(endpoint_id, one["kind"]), one["sealed"]


def reseal_credentials(
    stored: Sequence[Credential], keyring: Keyring, *, endpoint_id: str
) -> list[Credential]:
    """Seal the column with the newest key. Raises Misconfigured if a value cannot be opened."""
    return [
        one | {"sealed": keyring.reseal(one["sealed"], context=_context(endpoint_id, one["kind"]))}
        for one in stored
    ]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _reject_controls(credential: Basic | OAuth2, *names: str) -> None:
    for name in names:
        if _CONTROL.search(getattr(credential, name) or ""):
            raise InvalidInput.at(f"/{name}", "control characters are not allowed")


def _context(endpoint_id: str, kind: str) -> str:
    return f"{endpoint_id} (credential {kind})"
