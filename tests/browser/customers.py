"""The site of a customer: a receiver, and a page that embeds the portal."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from hookfast.sender.verify import CHALLENGE_HEADER

_FRAME = '<iframe src="{}" title="Webhooks" width="100%" height="2000"></iframe>'
_ELEMENTS = {
    "embed": '<embed src="{}">',
    "img": '<img src="{}" alt="">',
    "object": '<object data="{}"></object>',
    "script": '<script src="{}"></script>',
}


class Customers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer the challenge, and say thank you."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer("text/plain", b"thank you")

    def do_GET(self) -> None:
        """Show a page with the query in a frame, or in the element that the path names."""
        path, _, link = self.path.partition("?")
        element = _ELEMENTS.get(path.strip("/"), _FRAME).format(link)
        page = f"<!doctype html><title>Account</title><h1>Account</h1>{element}"
        self._answer("text/html", page.encode())

    def _answer(self, media_type: str, body: bytes) -> None:
        self.send_response(200)
        if (challenge := self.headers.get(CHALLENGE_HEADER)) is not None:
            self.send_header(CHALLENGE_HEADER, challenge)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
