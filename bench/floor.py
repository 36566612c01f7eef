"""The floor: a bare workflow, started eagerly, with one local activity that does the signed POST.

`python -m bench.floor SINK_URL IN_FLIGHT` warms up and prints `ready`. For each number that it then
reads, one per line, it delivers that many messages to the sink and prints `took SECONDS`. Without
database, search attributes and outbox, this is the cost of Temporal and one POST alone, on the same
server and with the same sender as the product.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from ipaddress import ip_network

import uvloop
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from hookfast.deliveries.headers import request_headers
from hookfast.deliveries.outcome import Outcome
from hookfast.ids import new_id
from hookfast.sender import AddressGuard, Sender
from hookfast.signing.signature import HashName, Profile
from hookfast.telemetry.traceparent import new as new_traceparent
from hookfast.temporal import connection

_QUEUE = "floor"
_WARM_UP = 100


@workflow.defn
class FloorWorkflow:
    """Start, POST, end."""

    @workflow.run
    async def run(self, message_id: str) -> None:
        await workflow.execute_local_activity(
            "floor_post", message_id, start_to_close_timeout=timedelta(seconds=30)
        )


class Poster:
    """The signed POST, exactly as the product makes it."""

    def __init__(self, sender: Sender, url: str) -> None:
        self._sender = sender
        self._url = url

    @activity.defn(name="floor_post")
    async def post(self, message_id: str) -> None:
        body = b'{"id":"%s","data":{"sent_at":0,"filler":"%s"}}' % (message_id.encode(), b"x" * 300)
        outcome: Outcome = await self._sender.post(
            self._url,
            headers=request_headers(
                body,
                message_id=message_id,
                event_type="order.invoice.paid",
                attempt=1,
                timestamp=int(time.time()),
                profiles=(Profile.HOOK, Profile.STANDARD),
                keys=(bytes(32),),
                hash_name=HashName.SHA256,
                custom={},
                traceparent=new_traceparent(),
            ),
            body=body,
            timeout=5.0,
        )
        assert outcome.succeeded, outcome.error


async def _deliver(client: Client, count: int, in_flight: int) -> float:
    slots = asyncio.Semaphore(in_flight)

    async def one() -> None:
        async with slots:
            message_id = new_id("dlv")
            handle = await client.start_workflow(
                FloorWorkflow.run,
                message_id,
                id=f"floor/{message_id}",
                task_queue=_QUEUE,
                request_eager_start=True,
            )
            await handle.result()

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return time.perf_counter() - begun


async def _main(url: str, in_flight: int) -> None:
    client = await connection.connect("auto")
    sender = Sender(guard=AddressGuard([ip_network("127.0.0.0/8")]))
    async with Worker(
        client,
        task_queue=_QUEUE,
        workflows=[FloorWorkflow],
        activities=[Poster(sender, url).post],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=200,
        max_concurrent_local_activities=200,
    ):
        await _deliver(client, _WARM_UP, in_flight)
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print("took", await _deliver(client, int(line), in_flight), flush=True)
    await sender.aclose()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2])))
