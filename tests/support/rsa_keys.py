"""An RSA key for all tests of a process. No module generates one while it is imported, because
every process imports all modules."""

from __future__ import annotations

from functools import cache

from hookfast.signing.keys import RsaSigner, generate_rsa, rsa_signer


@cache
def shared_signer() -> RsaSigner:
    """Return a signer with a key that is generated once, which takes most of a second."""
    return rsa_signer(generate_rsa())
