"""What the workflow of one owner's mail and its activities say to each other.

These values live in workflow history: no address, no URL, no word of a mail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hookfast.owners.notice import NoticeKind

WORKFLOW_TYPE: Final = "OwnerMailWorkflow"


def workflow_id(owner_hash: str) -> str:
    """The id of the one workflow that mails this owner."""
    return f"mail/{owner_hash}"


@dataclass(frozen=True, slots=True)
class MailInput:
    """The workflow's input. `gather_seconds`: how long news is waited for before mailing;
    `digest_every_seconds`: the shortest time between two mails of one kind."""

    owner_hash: str
    gather_seconds: float
    digest_every_seconds: float


@dataclass(frozen=True, slots=True)
class WaitingKind:
    """Notices of one kind that wait. `rest_seconds`: how long they still have to, because a mail
    of that kind went out lately."""

    kind: NoticeKind
    notices: int
    rest_seconds: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """Everything that waits for one owner; a kind occurs once."""

    kinds: list[WaitingKind] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SendInput:
    """Send this owner one mail with everything of this kind."""

    owner_hash: str
    kind: NoticeKind


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of it. `endpoints`: how many endpoints the mail was about; 0 when nothing was
    left to tell. `refused`: the mail server will never take mail for this address."""

    endpoints: int
    refused: bool = False


@dataclass(frozen=True, slots=True)
class MailState:
    """The workflow's result: how many mails this run sent, and how many were refused."""

    sent: int = 0
    refused: int = 0
