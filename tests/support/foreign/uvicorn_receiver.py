"""A receiver on uvicorn. `python uvicorn_receiver.py [SECONDS]` prints its port; the seconds are
for `timeout_keep_alive`."""

import socket
import sys

import uvicorn


async def app(scope, receive, send):
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    keep_alive = {"timeout_keep_alive": float(sys.argv[1])} if len(sys.argv) > 1 else {}
    config = uvicorn.Config(app, log_level="warning", lifespan="off", **keep_alive)
    uvicorn.Server(config).run([listening])
