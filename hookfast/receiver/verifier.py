"""The verifier checks that Hookfast signed exactly these bytes, recently.

Verify the raw body before any decoding or JSON parsing, and do not use it before it is verified.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NoReturn

from .errors import (
    Misconfigured,
    MissingHeader,
    ProfileNotAccepted,
    TimestampTooNew,
    TimestampTooOld,
    UnknownKey,
    WrongSignature,
)
from .headers import Headers, SignedHeaders, decimal
from .keys import PublicKeys
from .profiles import (
    SIGNATURE_HEADERS,
    STRONGEST_FIRST,
    ProfileName,
    SignedMessage,
    signatures,
    signed_message,
)
from .secret import hmac_keys

_BY_SECRET: frozenset[ProfileName] = frozenset({"standard", "nonce", "hook", "body"})
_BY_PUBLIC_KEY: frozenset[ProfileName] = frozenset({"rsa", "standard-ed25519"})


@dataclass(frozen=True, slots=True)
class Verified:
    """A request that is proven to come from Hookfast.

    The signature proves the body, the `timestamp`, and with the `standard` profiles the
    `message_id`. It does not prove `event_type`, `attempt` or other headers: trust the body's
    `type`.
    """

    message_id: str
    event_type: str | None
    timestamp: datetime | None
    """The signing time; None for the profile `body`, which signs no time."""
    attempt: int | None
    profile: ProfileName
    replay_key: str
    """The digest of the signed message, which is the same only for a replay."""
    body_digest: str
    fresh_for: timedelta | None
    """How much longer the timestamp is accepted; None for the profile `body`."""

    @property
    def idempotency_key(self) -> str:
        """The key that is the same whenever this message is sent again: its id.

        With the profile `body`, it is the digest of the body instead, because a captured request
        can be replayed forever under other ids. Do not use that profile for encrypted bodies, which
        differ each time.
        """
        return f"body:{self.body_digest}" if self.profile == "body" else self.message_id


class Verifier:
    """Verifies requests with the endpoint's secrets, or with the sender's public keys.

        verifier = Verifier(secrets=[current, previous], profiles=["standard"])
        verified = verifier.verify(request.headers, await request.body())

    `secrets`: `whsec_…`, both of them during a rotation. `public_keys`: a KeySet or KeyDirectory.
    `profiles`: the accepted profiles. `"any"` means every profile that signs a time and that these
    secrets and keys can verify; `body` signs no time and must be named.
    `tolerance`: how far the timestamp may be from `clock`, in both directions, limits included.
    `allow_sha1`: accept `hook` signatures with SHA-1.

    Of several signatures, only the one of the strongest accepted profile counts: a correct weaker
    one does not excuse a wrong one. Raises Misconfigured, a ValueError, for a configuration that
    cannot work. A verifier has no state per request, so one can serve all threads.
    """

    def __init__(
        self,
        secrets: str | Sequence[str] = (),
        *,
        public_keys: PublicKeys | None = None,
        profiles: Literal["any"] | Sequence[ProfileName] = "any",
        tolerance: timedelta = timedelta(minutes=5),
        allow_sha1: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._keys = hmac_keys(secrets)
        self._public_keys = public_keys
        if tolerance <= timedelta():
            raise Misconfigured("the tolerance must be positive")
        self._tolerance = tolerance
        self._allow_sha1 = allow_sha1
        self._clock = clock
        self.profiles = self._accepted(profiles)

    def __repr__(self) -> str:
        return f"Verifier(profiles={list(self.profiles)})"

    def verify(self, headers: Headers, body: bytes) -> Verified:
        """Verify a request. Raises a VerificationError, whose message says what to do, or TypeError
        for a body that is not bytes: a decoded body is no longer the signed one."""
        if not isinstance(body, bytes | bytearray | memoryview):
            raise TypeError("verify the raw bytes of the body, before any decoding or parsing")
        signed_headers = SignedHeaders(headers)
        raw = bytes(body)
        claim = self._strongest(signed_headers, raw)
        if not self._matches(claim, signed_headers):
            raise WrongSignature(
                f"no {claim.profile} signature matches. Check that these are the exact bytes of the"
                " body, and that the verifier has the secret of this endpoint; during a rotation,"
                " both secrets"
            )
        return self._verified(claim, signed_headers, digest=hashlib.sha256(raw).hexdigest())

    def _accepted(
        self, profiles: Literal["any"] | Sequence[ProfileName]
    ) -> tuple[ProfileName, ...]:
        possible: set[str] = set()
        if self._keys:
            possible |= _BY_SECRET
        if self._public_keys is not None:
            possible |= _BY_PUBLIC_KEY
        if not possible:
            raise Misconfigured("pass the endpoint's secret, or public keys")
        if profiles == "any":
            named: set[str] = possible - {"body"}
        else:
            named = {profiles} if isinstance(profiles, str) else set(profiles)
        for name in sorted(named - set(STRONGEST_FIRST)):
            raise Misconfigured(f"unknown profile {name!r}; use {', '.join(STRONGEST_FIRST)}")
        for name in sorted(named - possible):
            needed = "public keys" if name in _BY_PUBLIC_KEY else "a secret"
            raise Misconfigured(f"the profile {name} needs {needed}")
        if not named:
            raise Misconfigured("name at least one profile")
        return tuple(profile for profile in STRONGEST_FIRST if profile in named)

    def _strongest(self, headers: SignedHeaders, body: bytes) -> SignedMessage:
        for profile in self.profiles:
            usable = tuple(
                signature
                for signature in signatures(headers, profile)
                if self._allow_sha1 or signature.scheme != "sha1"
            )
            if usable:
                return signed_message(headers, body, profile=profile, signatures=usable)
        return self._raise_unsigned(headers)

    def _raise_unsigned(self, headers: SignedHeaders) -> NoReturn:
        accepted = ", ".join(self.profiles)
        present = sorted({name for name in SIGNATURE_HEADERS.values() if name in headers})
        if not present:
            header = SIGNATURE_HEADERS[self.profiles[0]]
            raise MissingHeader(
                f"the request is not signed: {header} is missing. Check that no proxy removes it,"
                f" and that one of {accepted} is among the endpoint's signatures",
                header=header,
            )
        raise ProfileNotAccepted(
            f"{', '.join(present)} has no signature that is accepted here ({accepted};"
            f" SHA-1 is {'allowed' if self._allow_sha1 else 'not allowed'}). Change the endpoint's"
            " signatures, or the profiles, secrets and keys of this verifier"
        )

    def _matches(self, claim: SignedMessage, headers: SignedHeaders) -> bool:
        if claim.profile == "rsa":
            return self._matches_rsa(claim, headers)
        if claim.profile == "standard-ed25519":
            return self._matches_ed25519(claim)
        # Every secret is tried with every signature, even after a match, so that the time taken
        # does not reveal which one was close.
        matches = False
        for signature in claim.signatures:
            for key in self._keys:
                expected = _hmac(key, claim.message, scheme=signature.scheme)
                matches |= hmac.compare_digest(expected.encode(), signature.value.encode())
        return matches

    def _matches_ed25519(self, claim: SignedMessage) -> bool:
        assert self._public_keys is not None  # noqa: S101 - the profile is not accepted without
        keys = self._public_keys.ed25519()
        return any(key.verifies(raw, claim.message) for raw in _raw(claim) for key in keys)

    def _matches_rsa(self, claim: SignedMessage, headers: SignedHeaders) -> bool:
        assert self._public_keys is not None  # noqa: S101 - the profile is not accepted without
        named = headers.require("X-Webhook-Key-Id", why="it names the public key")
        # during a rotation there may be several keys and signatures
        ids = [key_id.strip() for key_id in named.split(",")][: len(claim.signatures)]
        known = [key for key_id in ids if (key := self._public_keys.rsa(key_id)) is not None]
        if not known:
            raise UnknownKey(
                "the key in X-Webhook-Key-Id is not in the key directory: check that it is the"
                " directory of this sender"
            )
        return any(key.verifies(raw, claim.message) for raw in _raw(claim) for key in known)

    def _verified(self, claim: SignedMessage, headers: SignedHeaders, *, digest: str) -> Verified:
        # The timestamp is checked last: it is proven now, so an error means that a clock is wrong
        # or the request is old.
        timestamp, fresh_for = self._age(claim)
        attempt = headers.first("X-Hook-Attempt", "X-Webhook-Attempt")
        replay_key = hashlib.sha256(claim.profile.encode() + b"\0" + claim.message).hexdigest()
        return Verified(
            message_id=claim.message_id,
            event_type=headers.first("X-Hook-Topic", "X-Webhook-Event"),
            timestamp=timestamp,
            attempt=None if attempt is None else decimal(attempt, header="X-Hook-Attempt"),
            profile=claim.profile,
            replay_key=replay_key,
            body_digest=digest,
            fresh_for=fresh_for,
        )

    def _age(self, claim: SignedMessage) -> tuple[datetime | None, timedelta | None]:
        if claim.timestamp is None:
            return None, None
        timestamp = datetime.fromtimestamp(claim.timestamp, UTC)
        age = self._clock() - timestamp
        difference = f"{abs(age.total_seconds()):.0f} s"
        most = f"{self._tolerance.total_seconds():.0f} s"
        if age > self._tolerance:
            raise TimestampTooOld(
                f"correctly signed, but {difference} ago and only {most} are allowed: an old"
                " request was sent again, or this machine's clock is ahead",
                age=age,
            )
        if -age > self._tolerance:
            raise TimestampTooNew(
                f"correctly signed, but {difference} in the future and only {most} are allowed:"
                " this machine's clock is behind",
                age=age,
            )
        return timestamp, self._tolerance - age


def _hmac(key: bytes, message: bytes, *, scheme: str) -> str:
    if scheme == "v1":
        return base64.b64encode(hmac.digest(key, message, "sha256")).decode()
    return hmac.digest(key, message, scheme).hex()


def _raw(claim: SignedMessage) -> list[bytes]:
    """Return the signatures that are valid base64."""
    decoded = (_decoded(signature.value) for signature in claim.signatures)
    return [raw for raw in decoded if raw is not None]


def _decoded(value: str) -> bytes | None:
    try:
        raw = base64.b64decode(value, validate=True)
    except ValueError:
        return None
    # b64decode ignores unused trailing bits; only the canonical encoding is accepted
    return raw if base64.b64encode(raw).decode() == value else None
