"""What to look at next while the demo runs: its first dead letter, an open circuit, a recovery."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from hookfast.cli.demo.board import Line
from hookfast.deliveries.outcome import DeliveryStatus

_DEFAULT_URL = "http://127.0.0.1:8080"
_KINDS = ("dead letter", "circuit", "recovery")


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """Something worth a look. `urls` lead there, the most specific one first; `commands` show the
    same in another terminal, the shortest one last."""

    sentence: str
    urls: tuple[str, ...]
    commands: tuple[str, ...] = ()


def next_steps(
    lines: Sequence[Line], *, api_url: str, temporal_ui_url: str | None
) -> dict[str, NextStep]:
    """Return what these deliveries, newest first, have to show, by kind, the most telling kind
    first. Of each kind it is the oldest delivery, so that the advice stays the same while people
    follow it."""
    found: dict[str, NextStep] = {}
    pages = f"{api_url}/dashboard"
    for line in reversed(lines):
        if line.status is DeliveryStatus.DEAD:
            found.setdefault(
                "dead letter",
                NextStep(
                    sentence=f"why {line.event_type} never reached {line.receiver}",
                    urls=(f"{pages}/deliveries/{line.id}", f"{pages}/dead-letters"),
                    commands=_commands("deliveries show", line.id),
                ),
            )
        elif line.status is DeliveryStatus.HELD:
            found.setdefault(
                "circuit",
                NextStep(
                    sentence=f"how the circuit of {line.receiver} works",
                    urls=(f"{pages}/endpoints/{line.endpoint_id}", f"{pages}/endpoints"),
                    commands=_commands("endpoints health", line.endpoint_id),
                ),
            )
        elif line.recovered and line.url and temporal_ui_url:
            found.setdefault(
                "recovery",
                NextStep(
                    sentence=f"how {line.event_type} recovered",
                    urls=(line.url, f"{pages}/deliveries/{line.id}", temporal_ui_url),
                ),
            )
    return {kind: found[kind] for kind in _KINDS if kind in found}


def step_lines(step: NextStep, *, width: int | None = None) -> list[str]:
    """Return the advice as lines: a sentence, a URL, and a command. With `width`, the URL and the
    command are the first that fit, because a cut one cannot be used."""
    texts = [step.sentence]
    for choices in (step.urls, step.commands):
        if fitting := [text for text in choices if width is None or len(text) <= width]:
            texts.append(fitting[0])
    return texts


def commands_note(api_url: str) -> str:
    """Return what another terminal needs before the commands work there."""
    url = "" if api_url == _DEFAULT_URL else " and HOOKFAST_URL"
    return f"Commands need HOOKFAST_API_KEY{url}."


def _commands(command: str, id_: str) -> tuple[str, ...]:
    """Return the command with the id, and with its end, which is enough."""
    program = "hookfast"
    if which(program) is None and Path(sys.argv[0]).name == program:  # as `make demo` runs it
        program = os.path.relpath(sys.argv[0])
    return f"{program} {command} {id_}", f"{program} {command} {id_[-8:]}"
