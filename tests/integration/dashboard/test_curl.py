"""The curl script on a delivery's page, run by a real shell, sends valid signatures."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from api.dashboard.pages.curl import MAX_BODY, curl_script
from api.forms.credentials import BearerView, CertificateView, TlsView
from api.forms.endpoint import EndpointView
from api.routes.deliveries import DeliveryView
from hookfast.clock import utc_now
from hookfast.receiver import Verifier
from tests.support.waiting import PATIENCE

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEEDED = ("bash", "curl", "openssl")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}: install them"
)


class ReceivedRequest:
    """The request that the server received."""

    headers: dict[str, str]
    body: bytes


@pytest.fixture
def server() -> Iterator[tuple[str, ReceivedRequest]]:
    """A server: its URL, and the request that it received."""
    received = ReceivedRequest()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.headers = dict(self.headers.items())
            received.body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/hook?a='b'&c=$d", received
        listening.shutdown()
        thread.join()


def delivery() -> DeliveryView:
    return DeliveryView.model_construct(
        id="dlv_" + "1" * 32, event_type="order.invoice.paid", payload="full"
    )


def endpoint(url: str, **members: Any) -> EndpointView:
    shown: dict[str, Any] = {"signatures": ["hook", "standard"], "signature_hash": "sha256"}
    shown |= {"headers": {}, "authentication": None, "tls": None}
    return EndpointView.model_construct(url=url, **shown | members)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"evt_1","data":{"amount":42}}',
        """{"data":"it's $HOME `id` $(id) \\\\ \\" % %s \\u00e9 é ☃"}""".encode(),
    ],
)
def test_curl_script_sends_the_body_with_valid_signatures(
    server: tuple[str, ReceivedRequest], body: bytes
) -> None:
    url, received = server
    script = curl_script(delivery(), endpoint(url), body=body, attempt=3)
    assert SECRET not in script
    subprocess.run(["bash", "-c", script.replace("whsec_…", SECRET)], check=True, timeout=PATIENCE)
    assert received.body == body
    assert received.headers["X-Hook-Topic"] == "order.invoice.paid"
    assert received.headers["X-Hook-Attempt"] == "3"
    for profile in ("hook", "standard"):
        verified = Verifier(SECRET, profiles=[profile]).verify(received.headers, received.body)
        assert verified.message_id == "dlv_" + "1" * 32


def test_curl_script_reads_a_large_body_from_a_file(server: tuple[str, ReceivedRequest]) -> None:
    url, _ = server
    script = curl_script(delivery(), endpoint(url), body=b"x" * (MAX_BODY + 1), attempt=1)
    assert "body.json" in script
    assert len(script) < 2_000


def test_curl_script_has_a_place_for_each_credential() -> None:
    since = {"created_at": utc_now(), "previous_expires_at": None}
    certificate = CertificateView.model_construct(subject="CN=hook")
    shown = endpoint(
        "https://a.example/",
        headers={"X-Shop": "***"},
        authentication=BearerView(kind="bearer", **since),
        tls=TlsView.model_construct(certificate=certificate, authorities=[certificate]),
    )
    script = curl_script(delivery(), shown, body=b"{}", attempt=1)
    for option in (
        "-H 'Authorization: …'",
        "-H 'X-Shop: …'",
        "--cert client.pem --key client.key",
        "--cacert authorities.pem",
    ):
        assert f"  {option} \\\n" in script
