"""A receiver on Python's `http.server`, with a thread for each connection.
`python http_server_receiver.py [SECONDS]` prints its port; the seconds are how long a thread waits
for the next request of its connection."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    keep_alive = None

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
        self.connection.settimeout(self.keep_alive)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Handler.keep_alive = float(sys.argv[1])
    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
