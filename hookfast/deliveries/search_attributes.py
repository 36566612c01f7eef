"""The search attributes by which people find deliveries and batches in the Temporal UI. Pure."""

from __future__ import annotations

from typing import Any, Final

from temporalio.common import SearchAttributeKey

TENANT: Final = SearchAttributeKey.for_keyword("HookTenant")
ENDPOINT: Final = SearchAttributeKey.for_keyword("HookEndpoint")
EVENT_TYPE: Final = SearchAttributeKey.for_keyword("HookEventType")
STATE: Final = SearchAttributeKey.for_keyword("HookState")
DELIVERIES: Final = SearchAttributeKey.for_keyword_list("HookDeliveries")
"""Of a batch: the last 12 characters of its deliveries' ids."""
SEARCH_ATTRIBUTES: Final[tuple[SearchAttributeKey[Any], ...]] = (
    TENANT,
    ENDPOINT,
    EVENT_TYPE,
    STATE,
    DELIVERIES,
)


def kind_of(key: SearchAttributeKey[Any]) -> str:
    """Return a search attribute's type as Temporal's CLI names it: `Keyword` or `KeywordList`."""
    return key.indexed_value_type.name.title().replace("_", "")
