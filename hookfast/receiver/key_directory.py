"""The sender's key directory: public keys that are fetched over HTTPS and cached."""

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

    The keys are fetched on first use, after `max_age`, and when a request names an unknown key, but
    at most every `min_interval`, so that forged key ids cannot cause a flood of fetches. While the
    sender is unreachable, the keys are used until `max_stale` after the last fetch; then requests
    raise KeysUnavailable (503), and Hookfast sends them again. A key removed from the directory is
    therefore trusted for `max_age` longer, at most for `max_stale`.

    The reason of a failed fetch is logged (`hookfast.receiver`) and not shown to senders. Raises
    Misconfigured without `cryptography`, and for a URL that is not https.

    Blocks during a fetch, for `timeout` per read; other threads wait for it.
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
        # Checked here, because at the first request it would look like an unreachable directory.
        need_cryptography()
        scheme = urlsplit(url).scheme
        if scheme != "https" and not (allow_http and scheme == "http"):
            raise Misconfigured("the key directory needs https: over http, anybody could answer")
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
            if found is None and self._may_fetch():
                self._refresh()
                found = self._usable().rsa(key_id)
            return found

    def ed25519(self) -> Sequence[Ed25519Key]:
        with self._lock:
            return self._fresh().ed25519()

    def _fresh(self) -> KeySet:
        aged = self._keys is None or self._monotonic() - self._fetched_at > self._max_age
        if aged and self._may_fetch():
            self._refresh()
        return self._usable()

    def _usable(self) -> KeySet:
        if self._keys is None or self._monotonic() - self._fetched_at > self._max_stale:
            raise KeysUnavailable(
                f"the key directory {self._url} cannot be read, or has no usable keys: see the"
                " receiver's log"
            )
        return self._keys

    def _may_fetch(self) -> bool:
        return self._tried_at is None or self._monotonic() - self._tried_at >= self._min_interval

    def _refresh(self) -> None:
        self._tried_at = self._monotonic()
        try:
            self._keys = KeySet.from_jwks(_fetch(self._url, self._timeout))
        except (OSError, http.client.HTTPException, Misconfigured) as error:
            _log.warning("the key directory %s cannot be read: %s", self._url, error)
            return  # the cached keys stay in use while `_usable` allows it
        self._fetched_at = self._tried_at


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return None, so that urllib raises the 3xx: a redirect may lead to http, or anywhere."""


_opener = urllib.request.build_opener(_NoRedirect)


def _fetch(url: str, timeout: float) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - the constructor checked the scheme
    with _opener.open(request, timeout=timeout) as response:
        document: bytes = response.read(MAX_DOCUMENT_BYTES + 1)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise Misconfigured("the key set is too large")
    return document
