"""The tutorial and the guides for newcomers from elsewhere, followed from an empty folder."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from tests.docs.fenced import DOCS, blocks
from tests.docs.walk import FOLLOWED, follow
from tests.e2e.service_process import free_ports
from tests.e2e.tour import service, tour_ports

INSTALLING = 400
"""Seconds that a page may take which installs packages first."""


@pytest.mark.parametrize("page", FOLLOWED)
def test_every_program_that_a_page_starts_is_a_file_that_it_shows_before(page: str) -> None:
    saved: set[str] = set()
    for block in blocks(DOCS / page):
        if block.mark.startswith("file: "):
            saved.add(block.mark.removeprefix("file: "))
        elif block.language == "sh":
            started = re.findall(r"python (\w+\.py)|uvicorn (\w+):", block.text)
            assert {script or f"{module}.py" for script, module in started} <= saved
    assert saved


@pytest.mark.timeout(500)
@pytest.mark.slow  # a virtual environment, and waiting for retries and probes
def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    ports = tour_ports() | {"8001": str(free_ports(1)[0])}
    (folder := tmp_path / "empty").mkdir()
    with service(tmp_path, ports):
        output = follow("tutorial.md", folder, ports, patience=INSTALLING)
        [delivery] = re.findall(r"^delivery +(dlv_\w+)$", output, re.MULTILINE)
        labels = asyncio.run(_timers(f"delivery/{delivery}", port=ports["7233"]))

    assert labels == ["retry 1 of 4, after 503", "retry 2 of 4, after 503"]
    emitted = re.findall(r"^evt_\w+$", output, re.MULTILINE)
    assert len(emitted) == 2
    assert len(set(emitted)) == 1, "placed twice, the order is two events"
    assert '"retries":2' in output  # from the workflow's result
    assert re.search(r"circuit +open", output)
    assert re.search(r" held ", output)
    assert re.search(r"circuit +(closed|draining)", output)
    received = (folder / "receiver.log").read_text().splitlines()
    assert received[:2] == ["order.placed 1001 done", "order.paid 1001 done"]
    assert sorted(received[2:6]) == [f"order.placed {n} done" for n in (1002, 1003, 1004, 1005)]
    assert received[6:] == ["order.paid 1001 again: nothing to do"]


def _moved(page: str, tmp_path: Path) -> tuple[str, list[str]]:
    """Follow a guide for newcomers, and return its output and what its receiver printed."""
    ports = tour_ports()
    (folder := tmp_path / "empty").mkdir()
    with service(tmp_path, ports, HOOKFAST_ALLOW_UNVERIFIED="true"):
        output = follow(page, folder, ports, patience=INSTALLING)
    printed = (folder / "receiver.log").read_text().splitlines()
    return output, [line for line in printed if not line.startswith("127.0.0.1")]


@pytest.mark.timeout(500)
@pytest.mark.slow  # installs packages
def test_receiver_written_for_svix_verifies_what_hookfast_sends(tmp_path: Path) -> None:
    output, received = _moved("coming-from-svix.md", tmp_path)

    assert received == ['genuine: {"invoice":"in_8Tx2","amount":4200}']
    imported = re.findall(r"(ep_2\w) is (ep_\w+)$", output, re.MULTILINE)
    assert len(imported) == 2
    assert len(set(imported)) == 1, "the second import created endpoints again"


@pytest.mark.timeout(500)
@pytest.mark.slow  # installs packages
def test_receiver_accepts_convoys_signatures_and_hookfasts_with_one_secret(tmp_path: Path) -> None:
    _, received = _moved("coming-from-convoy.md", tmp_path)

    assert received == [
        'convoy {"invoice":"in_8Tx1","amount":900}',
        'convoy {"invoice":"in_8Tx1","amount":900}',
        'hookfast {"invoice":"in_8Tx2","amount":4200}',
    ]


@pytest.mark.timeout(500)
@pytest.mark.slow  # installs packages
def test_home_made_queue_is_handed_over_without_loss_or_duplicates(tmp_path: Path) -> None:
    output, received = _moved("coming-from-cron.md", tmp_path)

    assert sorted(received) == [
        'genuine {"invoice":"in_2","amount":200}',
        'genuine {"invoice":"in_3","amount":300}',
    ]
    handed_over = re.findall(r"^row (\d) is (evt_\w+)$", output, re.MULTILINE)
    assert len(handed_over) == 4
    assert len(set(handed_over)) == 2


async def _timers(workflow_id: str, *, port: str) -> list[str]:
    """Return the labels of the timers in all runs of the workflow: the Temporal UI shows them."""
    client = await Client.connect(f"127.0.0.1:{port}")
    convert = client.data_converter.payload_converter.from_payload
    runs = [run async for run in client.list_workflows(f'WorkflowId = "{workflow_id}"')]
    labels: list[str] = []
    for run in sorted(runs, key=lambda run: run.start_time):
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        labels += [
            convert(event.user_metadata.summary)
            for event in (await handle.fetch_history()).events
            if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED
        ]
    return labels
