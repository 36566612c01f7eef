"""Client certificates, and servers that demand them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.endpoints.credentials import Access, TlsIdentity
from hookfast.sender import Sender
from tests.support.mutual_tls_server import MutualTlsServer, identity_of, issue_identity, pem_of
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
HOOK = "hook@example.com"


@pytest.fixture(scope="session")
def private() -> trustme.CA:
    """An authority that the sender does not trust, for certificates of clients and servers."""
    return trustme.CA()


async def post(sender: Sender, url: str, *identities: TlsIdentity) -> Outcome:
    access = Access(tls=identities)
    return await sender.post(url, headers={}, body=b"{}", timeout=PATIENCE, access=access)


def trusting_system(identity: TlsIdentity, authority: trustme.CA) -> TlsIdentity:
    """The identity, which takes the tests' authority for the system's."""
    return TlsIdentity(identity.certificate, identity.private_key, pem_of(authority))


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_certificate_is_presented_on_a_connection_that_is_kept(
    sender: Sender, authority: trustme.CA, private: trustme.CA, version: ssl.TLSVersion
) -> None:
    identity = trusting_system(issue_identity(private, HOOK), authority)
    with MutualTlsServer(
        authority.issue_cert("127.0.0.1"), clients_of=private, version=version
    ) as server:
        for _ in range(3):
            assert (await post(sender, server.url, identity)).succeeded
    assert server.clients == [HOOK] * 3
    assert server.connections == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("expired", "rejected the client certificate: it has expired"),
        ("revoked", "rejected the client certificate: it has been revoked"),
        ("another authority's", "rejected the client certificate: it does not trust its issuer"),
    ],
)
async def test_a_rejected_client_certificate_fails_and_says_why(
    sender: Sender,
    authority: trustme.CA,
    private: trustme.CA,
    version: ssl.TLSVersion,
    fault: str,
    words: str,
) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    issuer = trustme.CA() if fault == "another authority's" else private
    certificate = issuer.issue_cert(HOOK, not_after=past if fault == "expired" else None)
    with MutualTlsServer(
        authority.issue_cert("127.0.0.1"),
        clients_of=private,
        revoked=(certificate,) if fault == "revoked" else (),
        version=version,
    ) as server:
        identity = identity_of(certificate, trusts=pem_of(authority))
        outcome = await post(sender, server.url, identity)
    assert (outcome.result, outcome.error) == (Result.TLS, f"127.0.0.1:{server.port} {words}.")
    assert identity.private_key is not None
    assert identity.private_key not in repr((identity, outcome))
    assert server.clients == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_missing_client_certificate_fails_and_says_so(
    sender: Sender, authority: trustme.CA, private: trustme.CA, version: ssl.TLSVersion
) -> None:
    with MutualTlsServer(
        authority.issue_cert("127.0.0.1"), clients_of=private, version=version
    ) as server:
        outcome = await post(sender, server.url)
    assert outcome.result is Result.TLS
    # The alert for this exists since TLS 1.3.
    words = "requires a client certificate" if version is VERSIONS[1] else "client certificate"
    assert outcome.error is not None
    assert words in outcome.error


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_replaced_certificate_is_used_while_the_server_rejects_the_new_one(
    sender: Sender, authority: trustme.CA, private: trustme.CA, version: ssl.TLSVersion
) -> None:
    """A rotation, during which the server learns to trust the new one's authority."""
    other = trustme.CA()
    old = trusting_system(issue_identity(private, "old@example.com"), authority)
    new = trusting_system(issue_identity(other, "new@example.com"), authority)
    with MutualTlsServer(
        authority.issue_cert("127.0.0.1"), clients_of=private, version=version
    ) as server:
        assert (await post(sender, server.url, new, old)).succeeded
        assert server.clients == ["old@example.com"]
        after_the_overlap = await post(sender, server.url, new)
        assert after_the_overlap.result is Result.TLS
        server.trust(other)
        assert (await post(sender, server.url, new, old)).succeeded
    assert server.clients == ["old@example.com", "new@example.com"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"400 Bad Request|The SSL certificate error", "400 Bad Request; {}."),
        (b"403 Forbidden|no client certificate", "403 Forbidden; {}."),
        (b"495 SSL|", "495; {}."),
        (b"400 Bad Request|unknown invoice", "400 Bad Request."),
        (b"500 Oops|TLS certificate", "500 Internal Server Error."),
    ],
)
async def test_an_answer_about_the_client_certificate_is_explained(
    sender: Sender, authority: trustme.CA, private: trustme.CA, answer: bytes, words: str
) -> None:
    """nginx completes the handshake with a certificate that it rejects, and answers 400."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        status, _, body = answer.partition(b"|")
        length = b"\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(b"HTTP/1.1 " + status + length + body)
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    past = datetime(2026, 1, 2, 3, tzinfo=UTC)
    valid, expired = (
        trusting_system(issue_identity(private, HOOK, not_after=end), authority)
        for end in (None, past)
    )
    problems = {
        (valid,): "it rejected the client certificate",
        (expired,): "it rejected the client certificate, which expired on 2026-01-02",
        (): "it requires a client certificate",
    }
    async with Receiver(serve=serve, ssl_context=context) as receiver:
        for identities, problem in problems.items():
            outcome = await post(sender, receiver.url(), *identities)
            assert outcome.error == "The server answered " + words.format(problem)


async def test_if_both_certificates_are_rejected_the_new_ones_failure_is_the_outcome(
    sender: Sender, authority: trustme.CA, private: trustme.CA
) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    old = trusting_system(issue_identity(private, HOOK, not_after=past), authority)
    new = trusting_system(issue_identity(trustme.CA(), HOOK), authority)
    with MutualTlsServer(authority.issue_cert("127.0.0.1"), clients_of=private) as server:
        outcome = await post(sender, server.url, new, old)
    assert outcome.error is not None
    assert outcome.error.endswith("it does not trust its issuer.")
    assert len(server.rejected) == 2


async def test_own_authorities_replace_the_systems(
    sender: Sender, authority: trustme.CA, private: trustme.CA
) -> None:
    with MutualTlsServer(private.issue_cert("127.0.0.1"), clients_of=private) as server:
        trusted = issue_identity(private, HOOK, trusts=pem_of(private))
        assert (await post(sender, server.url, trusted)).succeeded
        wrong = issue_identity(private, HOOK, trusts=pem_of(authority))
        for identities in ((wrong,), ()):
            outcome = await post(sender, server.url, *identities)
            assert outcome.result is Result.TLS
            assert outcome.error is not None
            assert "authority that is not trusted" in outcome.error
    assert server.clients == [HOOK]


async def test_a_servers_certificate_may_be_trusted_alone(
    sender: Sender, private: trustme.CA
) -> None:
    certificate = private.issue_cert("127.0.0.1")
    pinned = certificate.cert_chain_pems[0].bytes().decode()
    with MutualTlsServer(certificate, clients_of=private) as server:
        identity = issue_identity(private, HOOK, trusts=pinned)
        assert (await post(sender, server.url, identity)).succeeded


async def test_own_authorities_do_not_weaken_the_check_of_the_name(
    sender: Sender, private: trustme.CA
) -> None:
    with MutualTlsServer(private.issue_cert("hooks.example"), clients_of=private) as server:
        identity = issue_identity(private, HOOK, trusts=pem_of(private))
        outcome = await post(sender, server.url, identity)
    assert outcome.result is Result.TLS
    assert server.clients == []


async def test_different_identities_never_share_a_connection(
    sender: Sender, authority: trustme.CA, private: trustme.CA
) -> None:
    names = ["a@example.com", "b@example.com"]
    identities = [trusting_system(issue_identity(private, name), authority) for name in names]
    with MutualTlsServer(authority.issue_cert("127.0.0.1"), clients_of=private) as server:
        for identity in identities * 2:
            assert (await post(sender, server.url, identity)).succeeded
        await asyncio.gather(*(post(sender, server.url, identities[0]) for _ in range(4)))
    assert server.clients[:4] == names * 2
    assert set(server.clients[4:]) == {names[0]}


async def test_the_private_key_is_in_no_file_and_leaves_no_descriptor_open(
    sender: Sender,
    authority: trustme.CA,
    private: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with MutualTlsServer(authority.issue_cert("127.0.0.1"), clients_of=private) as server:
        assert (
            await post(
                sender, server.url, trusting_system(issue_identity(private, HOOK), authority)
            )
        ).succeeded
        open_files = await asyncio.to_thread(_open_files)
    assert not [path for path in open_files if "client-certificate" in path]
    assert await asyncio.to_thread(os.listdir, tmp_path) == []


def _open_files() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of listdir itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found
