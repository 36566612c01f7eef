"""Prints, as JSON, what the code on PYTHONPATH makes of the saved histories in a folder.

    python -P other_code.py <folder with histories>

It runs as a process of its own with the code of another version, so it imports nothing of this one.

- `failures`: histories that do not replay, or with an activity whose input cannot be read, and why
- `unknown`: histories of workflow types that this code does not have
- `messages`: the JSON schema of every argument and result of a workflow, activity, signal or query
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter
from temporalio import activity, workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

import activities
import workflows
from hookfast.temporal.payloads import DATA_CONVERTER


def classes_of(package: ModuleType) -> Iterator[type]:
    """Yield every class that a module of the package defines."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


WORKFLOWS = {
    definition.name: definition
    for one in classes_of(workflows)
    if (definition := workflow._Definition.from_class(one)) is not None and definition.name
}
ACTIVITIES = {
    definition.name: definition
    for one in classes_of(activities)
    for method in vars(one).values()
    if (definition := activity._Definition.from_callable(method)) is not None and definition.name
}


async def failure_of(history: WorkflowHistory) -> str | None:
    """Replay the history, and read the inputs of its activities."""
    replayer = Replayer(
        workflows=[one.cls for one in WORKFLOWS.values()],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=DATA_CONVERTER,
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if result.replay_failure is not None:
        return str(result.replay_failure)
    for event in history.events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled = event.activity_task_scheduled_event_attributes
            definition = ACTIVITIES.get(scheduled.activity_type.name)
            if definition is None:
                return f"there is no activity {scheduled.activity_type.name}"
            try:
                await DATA_CONVERTER.decode(scheduled.input.payloads, definition.arg_types)
            except (ValueError, TypeError, RuntimeError) as error:
                return f"the input of {scheduled.activity_type.name} cannot be read: {error}"
    return None


def messages() -> dict[str, Any]:
    """Return the schemas, by the names of their messages."""
    found: dict[str, Any] = {}

    def add(name: str, kind: Any) -> None:
        if kind is not None and dataclasses.is_dataclass(kind):
            found[name] = TypeAdapter(kind).json_schema()

    for name, work in ACTIVITIES.items():
        for number, kind in enumerate(work.arg_types or ()):
            add(f"activity {name}, argument {number}", kind)
        add(f"activity {name}, result", work.ret_type)
    for name, flow in WORKFLOWS.items():
        for number, kind in enumerate(flow.arg_types or ()):
            add(f"workflow {name}, argument {number}", kind)
        add(f"workflow {name}, result", flow.ret_type)
        for signal in flow.signals.values():
            for number, kind in enumerate(signal.arg_types or ()):
                add(f"workflow {name}, signal {signal.name}, argument {number}", kind)
    return found


async def read_histories(histories: Mapping[str, str]) -> dict[str, Any]:
    """Replay these histories, which are JSON texts by name."""
    failures, unknown = {}, []
    for name, text in histories.items():
        history = WorkflowHistory.from_json(f"saved/{name}", text)
        kind = history.events[0].workflow_execution_started_event_attributes.workflow_type.name
        if kind not in WORKFLOWS:
            unknown.append(name)
        elif (failure := await failure_of(history)) is not None:
            failures[name] = failure
    return {"failures": failures, "unknown": unknown}


if __name__ == "__main__":
    saved = {path.stem: path.read_text() for path in Path(sys.argv[1]).glob("*.json")}
    found = asyncio.run(read_histories(saved))
    print(json.dumps(found | {"messages": messages()}))
