"""The cost of telemetry: microseconds of CPU per delivery, for its spans and its measures.

`python -m bench.telemetry [COUNT]` creates the spans and takes the measures of COUNT deliveries
(default 5000), each delivered at its first attempt, and prints one table. It does so in a process
of its own for each of: no collector, a collector that accepts everything, an unreachable collector.
"in the way" is the CPU of the thread that delivers, for which a delivery waits; "beside it" that of
the thread that exports. A whole delivery takes 5 to 10 ms of CPU (`make bench`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hookfast.clock import utc_now
from hookfast.telemetry import instruments, providers, spans

_EVENT_TYPE = "order.invoice.paid"
_CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_IDS = {
    "event": "evt_0190a5d2f8e17b3c8d4e5f6071829304",
    "delivery": "dlv_0190a5d2f8e17b3c8d4e5f6071829305",
    "endpoint": "ep_0190a5d2f8e17b3c8d4e5f6071829306",
    "tenant": "tnt_0190a5d2f8e17b3c8d4e5f6071829307",
}


def _spans() -> None:
    """Create the spans as emit, relay and attempt do."""
    with spans.emission(_CALLER) as emission:
        event = emission.begin(_EVENT_TYPE)
        event.committed(_IDS["event"], 1)
    with spans.start_of_delivery(
        event.traceparent, event_type=_EVENT_TYPE, since=utc_now(), ids=_IDS
    ):
        pass
    with spans.attempt(
        event.traceparent, event_type=_EVENT_TYPE, number=1, trigger="first", ids=_IDS
    ) as attempt:
        with spans.request(
            "https://hooks.example.com/in", event.traceparent, resend_count=0
        ) as request:
            request.answered("success", 204, succeeded=True)
        attempt.ended("success", following="delivered")


def _measures() -> None:
    """Take the measures as emit, relay and attempt do."""
    instruments.EVENTS.add(origin="api")
    instruments.RELAY_BATCH.record(20)
    instruments.RELAY_STARTS.add(carrier="workflow", result="started")
    instruments.IN_FLIGHT.add(1)
    instruments.ATTEMPTS.add(result="success", status_class="2xx", trigger="first")
    instruments.ATTEMPT_DURATION.record(0.012, result="success")
    instruments.FIRST_ATTEMPT_DELAY.record(0.02)
    instruments.DELIVERIES.add(outcome="delivered")
    instruments.DELIVERY_DURATION.record(0.03)
    instruments.IN_FLIGHT.add(-1)


def _measure(count: int) -> dict[str, float]:
    """Return the microseconds per delivery in this process."""
    telemetry = providers.start("worker")
    found: dict[str, float] = {"traced": telemetry.traces}
    for name, work in (("measures", _measures), ("spans", _spans)):
        for _ in range(100):
            work()
        all_before, before = time.process_time(), time.thread_time()
        for index in range(count):
            work()
            if index % 100 == 99:
                time.sleep(0.02)  # 5,000 a second at most: more than is ever delivered
        found[name] = (time.thread_time() - before) / count * 1e6
        found[f"{name} beside"] = (time.process_time() - all_before) / count * 1e6 - found[name]
    return found


def _child(count: int, collector: str | None) -> dict[str, float]:
    environment = {name: value for name, value in os.environ.items() if name[:5] != "OTEL_"}
    if collector is not None:
        environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, "OTEL_METRICS_EXPORTER": "none"}
    printed = subprocess.run(
        [sys.executable, "-m", "bench.telemetry", "--child", str(count)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    found: dict[str, float] = json.loads(printed.stdout)
    return found


class _Sink(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_measure(int(sys.argv[2]))))
        os._exit(0)  # do not wait for a collector that is away
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cases = {
        "no collector": None,
        "a collector": f"http://127.0.0.1:{server.server_port}",
        "a collector that is away": "http://127.0.0.1:9",
    }
    print(f"microseconds of CPU per delivery, {count} deliveries")
    print(f"{'':26}{'measures':>10}{'spans, in the way':>20}{'spans, beside it':>20}")
    for name, collector in cases.items():
        found = _child(count, collector)
        print(
            f"{name:26}{found['measures']:10.0f}{found['spans']:20.0f}{found['spans beside']:20.0f}"
        )


if __name__ == "__main__":
    main()
