"""Routes write their answers themselves, so what is in them must be JSON already."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, PlainSerializer

from api import routes
from api.http.routing import StrictRoute

JSON = (str, int, float, bool, NoneType, list, tuple, dict)


def models(hint: Any) -> Iterator[type[BaseModel]]:
    """Yield the models of a type, and theirs."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
        for field in hint.model_fields.values():
            yield from models(field.annotation)
    for inner in get_args(hint):
        yield from models(inner)


ANSWERED = {
    model
    for module in pkgutil.iter_modules(routes.__path__)
    for route in getattr(import_module(f"{routes.__name__}.{module.name}"), "routes").routes  # noqa: B009
    if isinstance(route, StrictRoute)
    for model in models(route.response_model)
}


def strange(hint: Any) -> Iterator[Any]:
    """Yield the parts of a type that are not JSON, except for models."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Any, Literal) or any(isinstance(part, PlainSerializer) for part in parts):
        return
    if kind in (Annotated, Union, UnionType) or kind in JSON:
        for part in parts:
            yield from strange(part)
    elif isinstance(kind, type) and not issubclass(kind, (*JSON, BaseModel)):
        yield kind


@pytest.mark.parametrize("model", sorted(ANSWERED, key=lambda model: model.__name__))
def test_answer_has_no_member_that_json_cannot_hold(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        if not any(isinstance(one, PlainSerializer) for one in field.metadata):
            assert list(strange(field.annotation)) == [], name


def test_all_routes_are_looked_at() -> None:
    assert len(ANSWERED) > 80
