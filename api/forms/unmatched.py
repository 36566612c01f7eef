"""Patterns of subscriptions that match no registered event type: warnings, or errors if the
settings say so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.context.context import Context
from hookfast.errors import FieldError, InvalidInput
from hookfast.events.catalogue import did_you_mean
from hookfast.events.event_type import can_have_parts, describe_parts
from hookfast.events.operational import is_reserved


class PatternWarning(BaseModel):
    """Something to look at in an accepted subscription."""

    pointer: str = Field(description="JSON pointer (RFC 6901) to the pattern, as it was sent.")
    code: Literal["unknown_event_type"] = Field(description="What it is, for programs; stable.")
    detail: str = Field(description="What it is and what may have been meant, for people.")


async def check_matches(
    context: Context,
    connection: AsyncConnection,
    events: Sequence[str],
    *,
    tenant_id: str,
    accepted: Collection[str] = (),
) -> list[PatternWarning]:
    """Return a warning for each pattern that matches no registered event type. `events` are as they
    came, and `accepted` are the patterns that the subscription has already.

    Raises InvalidInput (`unknown_event_type`) instead for those that it does not have already, with
    the setting `strict_subscriptions`.
    """
    explained = await explain_unmatched(context, connection, events, tenant_id=tenant_id)
    pointers = {pattern: f"/events/{events.index(pattern)}" for pattern in explained}
    errors = [
        FieldError(pointers[pattern], detail)
        for pattern, detail in explained.items()
        if pattern not in accepted
    ]
    if errors and context.settings.strict_subscriptions:
        raise InvalidInput(
            f"{errors[0].detail} This server accepts only patterns that match a registered event "
            "type (HOOKFAST_STRICT_SUBSCRIPTIONS).",
            code="unknown_event_type",
            errors=tuple(errors),
        )
    return [
        PatternWarning(pointer=pointers[pattern], code="unknown_event_type", detail=detail)
        for pattern, detail in explained.items()
    ]


async def explain_unmatched(
    context: Context, connection: AsyncConnection, patterns: Collection[str], *, tenant_id: str
) -> dict[str, str]:
    """Return the patterns that match no registered event type, each with a sentence for people."""
    catalogue = context.catalogue
    unmatched = await catalogue.unmatched(connection, patterns, tenant_id=tenant_id)
    parts = context.settings.event_type_parts
    explained = {}
    for pattern in unmatched:
        if catalogue.is_empty and not is_reserved(pattern):
            detail = f"No event type is registered yet, so {pattern!r} matches none."
        elif parts is not None and not can_have_parts(pattern, parts):
            detail = (
                f"No event type can match {pattern!r}: event types have {describe_parts(parts)} "
                "here (HOOKFAST_EVENT_TYPE_PARTS)."
            )
        else:
            detail = f"No registered event type matches {pattern!r} yet."
        suggestion = catalogue.suggest_pattern(pattern, tenant_id=tenant_id)
        explained[pattern] = detail + did_you_mean(suggestion)
    return explained
