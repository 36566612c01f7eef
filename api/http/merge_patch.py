"""JSON merge patches (RFC 7396): `null` removes a member, which resets it to its default.

A field marked as WHOLE is replaced as a whole: merging its members would mix two values that have a
meaning only as a whole, and drop the nulls within it.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import Body
from pydantic import BaseModel, ValidationError

from api.answers.problems import invalid_members
from hookfast.resources.fields import WHOLE

MEDIA_TYPE = "application/merge-patch+json"

MergePatch = Annotated[
    dict[str, Any], Body(media_type=MEDIA_TYPE, description="A merge patch (RFC 7396).")
]
"""The body of a PATCH route."""

Form = TypeVar("Form", bound=BaseModel)


def merge(target: Any, patch: Any) -> Any:
    """Return `target` changed by `patch`: the algorithm of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def patch_between(before: Any, after: Any) -> Any:
    """Return the smallest patch that turns `before` into `after`, with null for each member that
    `after` lacks. A null within `after` cannot be expressed in a patch, and removes that member."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    removed = dict.fromkeys(name for name in before if name not in after)
    return removed | {
        name: patch_between(before.get(name), value)
        for name, value in after.items()
        if name not in before or value != before[name]
    }


def patched(current: Form, patch: dict[str, Any]) -> Form:
    """Return `current` with the patch applied, validated like new input. Raises InvalidInput."""
    before = current.model_dump()  # not as JSON, where decimals would be strings
    # merging would drop a null for an unknown member before validation could reject that
    unknown = {name: None for name in patch.keys() - type(current).model_fields.keys()}
    merged = before | unknown if unknown else merge(before, patch) | _whole(type(current), patch)
    try:
        return type(current).model_validate(merged)
    except ValidationError as error:
        raise invalid_members(error, merged) from None


def _whole(form: type[BaseModel], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a patch that replace their fields as a whole."""
    return {
        name: value
        for name, value in patch.items()
        if value is not None and WHOLE in form.model_fields[name].metadata
    }


def patch_of(form: type[BaseModel], **example: Any) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that patches objects described by `form`, with an
    example of a patch."""
    schema = form.model_json_schema(ref_template="#/components/schemas/{model}")
    about = {"description", "title", "default", "examples"}
    nullable = {
        name: {word: member[word] for word in ("description",) if word in member}
        | {
            "anyOf": [
                {word: value for word, value in member.items() if word not in about},
                {"type": "null"},
            ]
        }
        for name, member in schema["properties"].items()
    }
    document = {
        "title": f"{form.__name__} patch",
        "type": "object",
        "properties": nullable,
        "additionalProperties": False,
    }
    return {"requestBody": {"content": {MEDIA_TYPE: {"schema": document, "example": example}}}}
