"""The compose file and the Kubernetes examples fit the published schemas."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import kubernetes_validate
import pytest

from tests.unit.deploy.test_compose import COMPOSE
from tests.unit.deploy.test_kubernetes import OBJECTS


def test_the_compose_file_fits_its_specification() -> None:
    vendored = files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    jsonschema.validate(COMPOSE, json.loads(vendored.read_text()))


@pytest.mark.parametrize("version", ["1.31", "1.37"])
@pytest.mark.parametrize("which", OBJECTS, ids="/".join)
def test_each_kubernetes_object_fits_its_schema(which: tuple[str, str], version: str) -> None:
    kubernetes_validate.validate(OBJECTS[which], version, strict=True)
