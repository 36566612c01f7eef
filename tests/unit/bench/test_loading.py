"""The benchmarks' load generator and sink behave the same in Python and, if built, in Go."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from bench.loading import BINARY, PYTHON, Load, Plan, find_load

pytestmark = pytest.mark.anyio

LOADS = {"python": PYTHON} | (
    {"go": Load((str(BINARY), "send"), (str(BINARY), "sink"))} if BINARY.exists() else {}
)


@pytest.fixture(params=LOADS)
def load(request: pytest.FixtureRequest) -> Load:
    return LOADS[request.param]


@pytest.fixture
def sink(load: Load) -> Iterator[str]:
    with subprocess.Popen(load.sink, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


def ask(sink: str, what: str) -> Any:
    return httpx2.get(f"{sink}/{what}", trust_env=False).json()


def plan(sink: str, path: str = "/in", **given: Any) -> Plan:
    bodies = ('{"data": {"sent_at": {sent_at}}}', '{"data":{"sent_at":{sent_at},"n":2}}')
    return Plan(url=sink + path, bodies=bodies, **({"count": 10} | given))


async def test_sent_requests_arrive_with_their_latency(load: Load, sink: str) -> None:
    begun = time.monotonic_ns()
    outcome = await load.send(plan(sink, connections=3))
    over = time.monotonic_ns()
    assert begun < outcome.begun < outcome.ended < over
    assert outcome.statuses == {"200": 10}
    assert ask(sink, "count") == 10
    for latencies in (outcome.latencies, ask(sink, "report"), ask(sink, "report/in")):
        assert len(latencies) == 10
        assert all(0 < latency < (over - begun) / 1e6 for latency in latencies)
    assert all(begun < arrival < over for arrival in ask(sink, "arrivals"))
    assert ask(sink, "paths") == {"/in": ask(sink, "report")}
    assert ask(sink, "report/other") == []
    ask(sink, "reset")
    assert ask(sink, "count") == 0
    assert ask(sink, "report") == []


async def test_open_loop_keeps_its_rate(load: Load, sink: str) -> None:
    outcome = await load.send(plan(sink, rate=50.0))
    assert outcome.ended - outcome.begun >= 9 / 50 * 1e9
    since = [(arrival - outcome.begun) / 1e6 for arrival in ask(sink, "arrivals")]
    assert all(each > n * 20 for n, each in enumerate(since))


async def test_unexpected_answer_is_an_error(load: Load, sink: str) -> None:
    ask(sink, "break")
    with pytest.raises(AssertionError, match="503"):
        await load.send(plan(sink))
    assert ask(sink, "count") == 0
    ask(sink, "repair")
    with pytest.raises(AssertionError, match="200: "):
        await load.send(plan(sink, expect="accepted"))


async def test_sink_counts_duplicates(load: Load, sink: str) -> None:
    for message in ("dlv_1", "dlv_2", "dlv_1"):
        httpx2.post(f"{sink}/in", headers={"X-Hook-Id": message}, trust_env=False)
    assert (ask(sink, "count"), ask(sink, "duplicates")) == (3, 1)


async def test_black_hole_never_answers(load: Load, sink: str) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{sink}/hole/1", timeout=0.2, trust_env=False)
    assert (ask(sink, "count"), ask(sink, "swallowed")) == (0, 1)


def test_without_go_the_load_generator_is_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = find_load()
    assert found.sender == PYTHON.sender
    assert found.why_python == "there is no `go` on PATH"
