"""TLS to PostgreSQL, as the parameters of its URL ask for it, with libpq's meanings and defaults.

asyncpg makes the TLS of a connection from the same parameters. Here they are tried before the first
connection, with the library that asyncpg uses: asyncpg says neither which parameter is wrong nor
why, and an error of a file looks like one of the network.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hookfast.storage.database.postgresql_parameters import check_file, one_of, refusal

_ENVIRONMENT: Final = {
    "sslmode": "PGSSLMODE",
    "sslnegotiation": "PGSSLNEGOTIATION",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslpassword": None,
    "sslcrl": "PGSSLCRL",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
}
"""The parameters of TLS, with libpq's variables for them."""
_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
OPTIONAL: Final = _MODES[:3]
_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_SYSTEM: Final = "system"


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS as asyncpg takes it: `parameters` of a URL; or a `context`, if it is to trust the
    authorities of the system, for which asyncpg has no parameter."""

    mode: str
    parameters: Mapping[str, str] = field(repr=False)
    context: ssl.SSLContext | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Tls:
        """Check the parameters and what their files contain. Raises Misconfigured, which names the
        parameter."""
        parameters = {
            name: value
            for name, variable in _ENVIRONMENT.items()
            if (value := given.get(name) or os.environ.get(variable or "", ""))
        }
        trusts_system = parameters.get("sslrootcert") == _SYSTEM
        if parameters.get("sslmode") == "true":  # as `ssl=true`, for libpq
            parameters["sslmode"] = "require"
        if trusts_system:
            parameters.setdefault("sslmode", "verify-full")
        mode = one_of("sslmode", parameters.get("sslmode", "prefer"), _MODES)
        _check_strength(mode, parameters)
        if mode == "disable":
            return cls(mode, parameters)
        context = _context(parameters)
        return cls(mode, parameters, context if trusts_system else None)


def _check_strength(mode: str, parameters: Mapping[str, str]) -> None:
    """Check that other parameters do not ask for more than the mode gives, or it for more than they
    give."""
    authorities = parameters.get("sslrootcert")
    if authorities == _SYSTEM and mode != "verify-full":
        raise refusal("sslrootcert", "with `system`, sslmode must be verify-full")
    negotiation = parameters.get("sslnegotiation", "postgres")
    negotiation = one_of("sslnegotiation", negotiation, ("postgres", "direct"))
    if negotiation == "direct" and mode in OPTIONAL:
        raise refusal("sslnegotiation", "with `direct`, sslmode must be require or stronger")
    if mode.startswith("verify") and authorities is None and not _default_file("root.crt").exists():
        raise refusal(
            "sslmode",
            "to verify the server's certificate, add sslrootcert=FILE with the certificate of its "
            "authority, or sslrootcert=system with sslmode=verify-full",
        )


def _context(parameters: Mapping[str, str]) -> ssl.SSLContext:
    """Load the files as asyncpg does, for a connection with `verify-full`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authorities, revoked = parameters.get("sslrootcert"), parameters.get("sslcrl")
    if authorities == _SYSTEM:
        context.load_default_certs()
    elif authorities is not None:
        check_file("sslrootcert", lambda: context.load_verify_locations(authorities))
    if revoked is not None:
        check_file("sslcrl", lambda: context.load_verify_locations(revoked))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    _load_identity(context, parameters)
    context.minimum_version = _version("ssl_min_protocol_version", "TLSv1.2", parameters)
    context.maximum_version = _version("ssl_max_protocol_version", "TLSv1.3", parameters)
    if context.minimum_version > context.maximum_version:
        raise refusal("ssl_min_protocol_version", "it is above ssl_max_protocol_version")
    context.set_alpn_protocols(["postgresql"])  # PostgreSQL 17 demands it without negotiation
    return context


def _load_identity(context: ssl.SSLContext, parameters: Mapping[str, str]) -> None:
    certificate, key = parameters.get("sslcert"), parameters.get("sslkey")
    if certificate is None:
        return
    if key is None and (default_key := _default_file("postgresql.key")).exists():
        key = str(default_key)
    if key is not None:
        check_file("sslkey", lambda: open(key, "rb").close())
    elif "PRIVATE KEY-----" not in _read("sslcert", certificate):
        raise refusal("sslcert", "its private key is missing; add sslkey=FILE")
    password = parameters.get("sslpassword", "")  # without one, OpenSSL would ask the terminal
    check_file("sslcert", lambda: context.load_cert_chain(certificate, key, lambda: password))


def _read(name: str, path: str) -> str:
    found: list[str] = []
    check_file(name, lambda: found.append(Path(path).read_text("latin-1")))
    return found[0]


def _version(name: str, default: str, parameters: Mapping[str, str]) -> ssl.TLSVersion:
    version = one_of(name, parameters.get(name, default), _VERSIONS)
    return ssl.TLSVersion[version.replace(".", "_")]


def _default_file(name: str) -> Path:
    return Path(os.path.expanduser("~/.postgresql"), name)  # also where there is no home folder
