"""The URL of a mail server, as in `HOOKFAST_SMTP_URL`. Pure.

`smtp://user:password@host:587` upgrades to TLS with STARTTLS, `smtps://` begins with TLS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, get_args
from urllib.parse import parse_qs, unquote, urlsplit

from hookfast.errors import Misconfigured

StartTls = Literal["never", "offered", "required"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpServer:
    """A mail server. `tls`: encrypted from the first byte; otherwise `starttls` says whether the
    connection is upgraded. The password is not in the `repr`."""

    host: str
    port: int
    tls: bool
    starttls: StartTls
    username: str | None
    password: str | None = field(repr=False)


def parse_smtp_url(url: str) -> SmtpServer:
    """Parse the URL of a mail server.

    The port is 465 with `smtps://`, else 587 with a user and 25 without. `?starttls=` may be
    `required`, `offered` (the server decides) or `never`; the default is `offered`, but `required`
    if a password is sent to another machine. User and password are percent-decoded.

    Raises Misconfigured. Its message quotes nothing of the URL: with a stray `/` or `@`, any part
    may contain the password.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _misconfigured("its host, port or query cannot be read") from None
    if parts.scheme not in ("smtp", "smtps"):
        raise _misconfigured("it must begin with smtp:// or smtps://")
    if not host:
        raise _misconfigured("it has no host")
    try:
        host.encode("idna")
    except UnicodeError:  # a label is empty or too long: the name can never be looked up
        raise _misconfigured("its host is not a valid name") from None
    if parts.path not in ("", "/") or parts.fragment:
        raise _misconfigured("only a query may follow the host and port")
    username = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    if (username is None) != (password is None):
        raise _misconfigured("it must have both a user and a password, or neither")
    tls = parts.scheme == "smtps"
    return SmtpServer(
        host=host,
        port=port or (465 if tls else 587 if username else 25),
        tls=tls,
        starttls=_starttls(options, tls=tls, sends_secret=bool(password) and not _loopback(host)),
        username=username,
        password=password,
    )


def _starttls(options: dict[str, list[str]], *, tls: bool, sends_secret: bool) -> StartTls:
    if not options:
        return "required" if sends_secret else "offered"
    given = options.pop("starttls", [])
    if options:
        raise _misconfigured("its query may have only `starttls`")
    if tls:
        raise _misconfigured("smtps:// uses TLS from the start; remove `starttls`")
    for known in get_args(StartTls):
        if given == [known]:
            choice: StartTls = known
            return choice
    raise _misconfigured("`starttls` must be required, offered or never")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _misconfigured(why: str) -> Misconfigured:
    return Misconfigured(
        f"HOOKFAST_SMTP_URL cannot be used: {why}. It has the form "
        "smtp://user:password@host:587; write other characters than letters, digits, '-', '.', "
        "'_' and '~' in user and password as %XX"
    )
