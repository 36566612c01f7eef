"""Temporal's worker versioning, off unless the environment names a deployment and a version.

Temporal's worker controller for Kubernetes sets both variables. Workflows move to the version that
is current in Temporal with their next task (`AUTO_UPGRADE`), because a delivery may wait for weeks
and its code understands the histories of the versions beside it. See docs/upgrading.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from hookfast.errors import Misconfigured

DEPLOYMENT: Final = "TEMPORAL_DEPLOYMENT_NAME"
BUILD: Final = "TEMPORAL_WORKER_BUILD_ID"


def deployment_of(environment: Mapping[str, str]) -> WorkerDeploymentConfig | None:
    """Return the deployment that workers register with; None where it is not named.

    Raises Misconfigured if only one of the two variables is set.
    """
    name, build = environment.get(DEPLOYMENT), environment.get(BUILD)
    if not name and not build:
        return None
    if not name or not build:
        missing, given = (BUILD, DEPLOYMENT) if name else (DEPLOYMENT, BUILD)
        raise Misconfigured(
            f"{given} is set and {missing} is not; set both to register workers with a deployment, "
            "or neither"
        )
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=name, build_id=build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )
