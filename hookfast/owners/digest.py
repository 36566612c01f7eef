"""Messages between the workflow of one owner's mail and its activities.

They are kept in workflow history, so they hold no address, no URL and no text of a mail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hookfast.owners.notice import NoticeKind
from hookfast.workflow_input import workflow_input

WORKFLOW_TYPE: Final = "OwnerMailWorkflow"


def workflow_id(owner_hash: str) -> str:
    """Return the id of the only workflow that mails this owner."""
    return f"mail/{owner_hash}"


@workflow_input
@dataclass(frozen=True, slots=True)
class MailInput:
    """Input of the workflow. `gather_seconds`: how long it waits for more notices before a mail;
    `digest_every_seconds`: the shortest time between two mails of one kind."""

    owner_hash: str
    gather_seconds: float
    digest_every_seconds: float


@dataclass(frozen=True, slots=True)
class WaitingKind:
    """Waiting notices of one kind. `rest_seconds`: how long they still wait, because a mail of this
    kind was sent lately."""

    kind: NoticeKind
    notices: int
    rest_seconds: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """All notices that wait for one owner. A kind occurs once."""

    kinds: list[WaitingKind] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SendInput:
    """Input of the activity that sends an owner one mail with all notices of a kind."""

    owner_hash: str
    kind: NoticeKind


@dataclass(frozen=True, slots=True)
class SendResult:
    """Result of sending a mail. `endpoints`: how many endpoints the mail was about, 0 if no notice
    was left to send. `refused`: the mail server rejected the address permanently."""

    endpoints: int
    refused: bool = False


@dataclass(frozen=True, slots=True)
class MailState:
    """Result of the workflow: how many mails this run sent, and how many were rejected."""

    sent: int = 0
    refused: int = 0
