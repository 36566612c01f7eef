"""Checks that the version which Temporal gives tasks to has workers, where workers have versions.

Without that, first attempts succeed, because the worker that starts a workflow runs its first task,
and everything after them stands still.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion

from hookfast.clock import Clock
from hookfast.deliveries.messages import DELIVERIES_QUEUE
from hookfast.doctor.finding import Finding, fail, ok
from hookfast.doctor.pollers import POLLED_RECENTLY, describe_queue

_CHECK = "temporal.worker_versions"
_VERSIONED = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED


async def check_worker_versions(client: Client, clock: Clock) -> AsyncIterator[Finding]:
    """Check that workers of the current version poll. Workers without a version, which are the
    default, yield nothing. Raises RPCError."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
    queue = await describe_queue(client, DELIVERIES_QUEUE, kind)
    since = clock() - POLLED_RECENTLY
    polling = {
        _version_of(poller)
        for poller in queue.pollers
        if poller.last_access_time.ToDatetime(since.tzinfo) > since
    }
    named = queue.versioning_info.current_deployment_version
    current = (
        WorkerDeploymentVersion(named.deployment_name, named.build_id) if named.build_id else None
    )
    if current in polling:
        if current is not None:
            saw = f"Version {current.build_id} of {current.deployment_name} is current."
            yield ok(_CHECK, saw)
        return
    newest = next((one for one in polling if one is not None), None)
    if newest is not None:
        yield fail(
            _CHECK,
            f"Temporal gives tasks to {_named(current)}, and all workers belong to "
            f"{_named(newest)}: first attempts are made, and retries stand still.",
            todo="Make their version current: `temporal worker deployment set-current-version "
            f"--deployment-name {newest.deployment_name} --build-id {newest.build_id}`.",
        )
    elif polling and current is not None:
        yield fail(
            _CHECK,
            f"Temporal gives tasks to {_named(current)}, and no worker has a version: first "
            "attempts are made, and retries stand still.",
            todo="Give the tasks to workers without a version: `temporal worker deployment "
            f"set-current-version --deployment-name {current.deployment_name} --unversioned`.",
        )


def _version_of(poller: PollerInfo) -> WorkerDeploymentVersion | None:
    options = poller.deployment_options
    if options.worker_versioning_mode != _VERSIONED:
        return None
    return WorkerDeploymentVersion(options.deployment_name, options.build_id)


def _named(version: WorkerDeploymentVersion | None) -> str:
    if version is None:
        return "workers without a version"
    return f"version {version.build_id} of deployment {version.deployment_name}"
