"""Progress messages, with the time since the start of the run."""

from __future__ import annotations

import time

from rich.console import Console

console = Console(highlight=False)


class Progress:
    """Prints a line for each step. `prefix` is the current mode and database."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self.prefix = ""

    def say(self, text: str) -> None:
        """Print a step."""
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        where = f"{self.prefix} · " if self.prefix else ""
        console.print(f"{minutes:2}:{seconds:02}  {where}{text} …", style="dim", markup=False)
