"""The actions on one delivery that both sites offer: their forms, and the buttons on its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Response

from api.access.authentication import Writer
from api.routes.deliveries import ACTION_ROUTES, DeliveryDetail, get_delivery
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.deliveries.actions import ACTIONS, ActionSpec
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus

FOR_OPERATORS = tuple(ACTIONS.values())
FOR_CUSTOMERS = tuple(action for action in FOR_OPERATORS if action.in_portal)
"""The actions that each site offers."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button that requests an action, or leads to the page that asks first. `kind` is its CSS
    class."""

    action: ActionSpec
    label: str
    kind: str


def buttons(
    delivery: DeliveryDetail, offered: Iterable[ActionSpec], *, send_now: str = ""
) -> list[Button]:
    """Return the buttons of the actions that have an effect on a delivery. `send_now` is the label
    of those that send it while it is not finished."""
    blocks_lane = delivery.status is DeliveryStatus.DEAD and delivery.place is Place.HEAD
    found = []
    for action in offered:
        if not action.acts_now(delivery.status, blocks_lane=blocks_lane):
            continue
        label = action.label
        if action.sends and not delivery.status.finished:
            label = send_now or label
        main = "main" if delivery.status in action.main_in else ""
        found.append(Button(action, label, "danger" if action.ends else main))
    return found


def add_actions(routes: PageRouter, path: str, offered: Iterable[ActionSpec], *, noun: str) -> None:
    """Add the forms of these actions below the path of a delivery's page, which calls it `noun`."""
    for action in offered:
        routes.action(
            f"{path}/{action.name}", ACTION_ROUTES[action.name], f"The {noun} {action.done}."
        )
        if action.ends:
            _add_confirmation(routes, f"{path}/{action.name}", action, noun)


def _add_confirmation(routes: PageRouter, path: str, action: ActionSpec, noun: str) -> None:
    @routes.get(path)
    async def confirm(
        view: PageView, _: Writer, delivery: Annotated[DeliveryDetail, Depends(get_delivery)]
    ) -> Response:
        return view.confirm(
            f"{action.label} this {noun}?",
            about=f"{delivery.event_type}, {delivery.id}",
            text=action.effect,
            button=f"{action.label} {noun}",
        )
