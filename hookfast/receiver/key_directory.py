"""The sender's key directory: public keys fetched over HTTPS, kept, and fetched again in time."""

from __future__ import annotations

import http.client
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from .errors import KeysUnavailable, Misconfigured
from .keys import Ed25519Key, KeySet, RsaKey, need_cryptography

WELL_KNOWN_PATH = "/.well-known/hookfast-keys.json"
MAX_DOCUMENT_BYTES = 262_144

_log = logging.getLogger("hookfast.receiver")


class KeyDirectory:
    """The keys at `url`, e.g. `https://hooks.example.com/.well-known/hookfast-keys.json`.

    They are fetched when first needed and again after `max_age`, or when a request names a key
    that is not among them, but at most every `min_interval`: forged key ids must not make this
    receiver hammer the sender. While the sender is away the keys are used until `max_stale` after
    they were fetched; then requests are refused with KeysUnavailable (503), which Hookfast sends
    again. A key taken out of the directory is thus trusted for `max_age` more, at most `max_stale`.

    Why it could not be read is logged (`hookfast.receiver`), and no business of who sends requests.
    Raises Misconfigured without `cryptography`, and for a URL that is not https.

    Blocks while it fetches, for `timeout` per read; one thread fetches, the others wait for it.
    """

    def __init__(
        self,
        url: str,
        *,
        max_age: timedelta = timedelta(hours=1),
        max_stale: timedelta = timedelta(days=1),
        min_interval: timedelta = timedelta(minutes=1),
        timeout: timedelta = timedelta(seconds=5),
        allow_http: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        # here and not at the first request: there it would pass for a directory that is away
        need_cryptography()
        scheme = urlsplit(url).scheme
        if scheme != "https" and not (allow_http and scheme == "http"):
            raise Misconfigured("a key directory is read over https, or anybody could answer")
        self._url = url
        self._max_age = max_age.total_seconds()
        self._max_stale = max_stale.total_seconds()
        self._min_interval = min_interval.total_seconds()
        self._timeout = timeout.total_seconds()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._fetched_at = 0.0
        self._tried_at: float | None = None

    def rsa(self, key_id: str) -> RsaKey | None:
        with self._lock:
            found = self._fresh().rsa(key_id)
            if found is None and self._may_try():
                self._try()
                found = self._usable().rsa(key_id)
            return found

    def ed25519(self) -> Sequence[Ed25519Key]:
        with self._lock:
            return self._fresh().ed25519()

    def _fresh(self) -> KeySet:
        aged = self._keys is None or self._monotonic() - self._fetched_at > self._max_age
        if aged and self._may_try():
            self._try()
        return self._usable()

    def _usable(self) -> KeySet:
        if self._keys is None or self._monotonic() - self._fetched_at > self._max_stale:
            raise KeysUnavailable(
                f"the key directory {self._url} cannot be read, or holds no keys that can be used:"
                " the receiver's log says why"
            )
        return self._keys

    def _may_try(self) -> bool:
        return self._tried_at is None or self._monotonic() - self._tried_at >= self._min_interval

    def _try(self) -> None:
        self._tried_at = self._monotonic()
        try:
            self._keys = KeySet.from_jwks(_fetch(self._url, self._timeout))
        except (OSError, http.client.HTTPException, Misconfigured) as error:
            _log.warning("the key directory %s cannot be read: %s", self._url, error)
            return  # the keys at hand stay in use, as long as _usable lets them
        self._fetched_at = self._tried_at


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None makes urllib raise the 3xx: a redirect may lead to plain http, or anywhere."""


_opener = urllib.request.build_opener(_NoRedirect)


def _fetch(url: str, timeout: float) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - the constructor checked the scheme
    with _opener.open(request, timeout=timeout) as response:
        document: bytes = response.read(MAX_DOCUMENT_BYTES + 1)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise Misconfigured("the key set is too long")
    return document
