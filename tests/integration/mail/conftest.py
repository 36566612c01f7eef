"""A mail server, and certificates for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest
import trustme

from tests.support.mail_server import MailServer


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The certificate authority of the server's certificate."""
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's TLS context that trusts the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture(scope="session")
def serving(authority: trustme.CA) -> ssl.SSLContext:
    """The server's TLS context, with a certificate for 127.0.0.1."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server on loopback without TLS."""
    with MailServer() as server:
        yield server
