"""Workers have a version only where the environment names one."""

from __future__ import annotations

import pytest
from temporalio.common import VersioningBehavior

from hookfast.errors import Misconfigured
from hookfast.temporal.versioning import BUILD, DEPLOYMENT, deployment_of


def test_workers_have_no_version_by_default() -> None:
    assert deployment_of({}) is None
    assert deployment_of({DEPLOYMENT: "", BUILD: ""}) is None


def test_workflows_move_to_the_current_version() -> None:
    found = deployment_of({DEPLOYMENT: "prod/hookfast", BUILD: "0.2.0-ab12"})
    assert found is not None
    assert found.use_worker_versioning
    assert (found.version.deployment_name, found.version.build_id) == (
        "prod/hookfast",
        "0.2.0-ab12",
    )
    assert found.default_versioning_behavior is VersioningBehavior.AUTO_UPGRADE


@pytest.mark.parametrize(("given", "missing"), [(DEPLOYMENT, BUILD), (BUILD, DEPLOYMENT)])
def test_half_of_a_version_is_an_error_that_names_the_other_half(given: str, missing: str) -> None:
    with pytest.raises(Misconfigured, match=f"{given} is set and {missing} is not"):
        deployment_of({given: "x"})
