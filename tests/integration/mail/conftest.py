"""A mail server with certificates of its own."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest
import trustme

from tests.support.mail_server import MailServer


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The certificate authority that `trusting` trusts."""
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture(scope="session")
def serving(authority: trustme.CA) -> ssl.SSLContext:
    """The server's side: a certificate for 127.0.0.1."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """One without TLS, on loopback."""
    with MailServer() as server:
        yield server
