"""A receiver of webhooks in 60 lines that only needs the standard library.

    python3 docs/examples/receiver.py 9000 endpoint.json

It agrees to URL verification, checks `X-Hook-Signature` with the secret in `endpoint.json` (the
answer to the endpoint's creation), and prints what arrives. While there is a file `broken` beside
`endpoint.json` it answers 503.
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def verify(secret, headers, body, tolerance_seconds=300):
    """Return whether Hookfast signed exactly these bytes recently."""
    timestamp = headers.get("X-Hook-Timestamp", "")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = hmac.new(key, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    # while a secret is being rotated there is a signature per secret, separated by commas
    given = headers.get("X-Hook-Signature", "").split(",")
    fits = any(hmac.compare_digest(one.encode(), f"sha256={expected}".encode()) for one in given)
    return fits and abs(time.time() - int(timestamp)) <= tolerance_seconds


class Receiver(BaseHTTPRequestHandler):
    """Handles the requests of Hookfast."""

    protocol_version = "HTTP/1.1"
    created = Path(sys.argv[2] if len(sys.argv) > 2 else "endpoint.json")

    def do_GET(self):
        """Agree to URL verification by returning the challenge."""
        self._answer(204, {"X-Hook-Challenge": self.headers.get("X-Hook-Challenge", "")})

    def do_POST(self):
        """Receive a delivery. Answer 2xx once it is stored; otherwise it is sent again."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not verify(json.loads(self.created.read_text())["secret"], self.headers, body):
            print("rejected: the signature is wrong", flush=True)
            return self._answer(401)
        event, attempt = json.loads(body), self.headers["X-Hook-Attempt"]
        broken = self.created.with_name("broken").exists()
        note = "answering 503" if broken else "thanks"
        # X-Hook-Id stays the same when a delivery is sent again: remember it to act once
        print(f"{self.headers['X-Hook-Id']} attempt {attempt}: {event['type']}, {note}", flush=True)
        return self._answer(503 if broken else 204)

    def log_message(self, *_):
        """Suppress the log of the standard library."""

    def _answer(self, status, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
