"""`python -m hookfast.supervisor PLAN`, which `hookfast up` becomes once it has read its
settings."""

from __future__ import annotations

import asyncio
import os
import sys

from hookfast.errors import HookfastError
from hookfast.logs import configure_logging
from hookfast.supervisor.interrupt import interruptible
from hookfast.supervisor.output_encoding import escape_unencodable_output
from hookfast.supervisor.plan import Plan
from hookfast.supervisor.service import Service, service
from hookfast.version import VERSION

_BOLD, _YELLOW, _GREEN = "1", "33", "32"


def main() -> None:
    """Run until Ctrl-C or SIGTERM. Exits with 1 and a sentence for Hookfast's own errors."""
    escape_unencodable_output()
    plan = Plan.from_json(sys.argv[1])
    configure_logging(plan, process="up")
    try:
        asyncio.run(_run(plan))
    except HookfastError as error:
        red = "\033[31m{}\033[0m" if sys.stderr.isatty() else "{}"
        print(red.format(f"hookfast: {error.message}"), file=sys.stderr)
        sys.exit(1)


async def _run(plan: Plan) -> None:
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    async with interruptible() as hurry, service(plan, hurry) as running:
        print(banner(running, home=plan.home, coloured=coloured), flush=True)
        await asyncio.Event().wait()


def banner(running: Service, *, home: str, coloured: bool) -> str:
    """Return the addresses of everything, in lines that no terminal width cuts."""

    def styled(code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if coloured else text

    if running.missing:
        missing = ", ".join(running.missing)
        state = styled(_YELLOW, f"is running but not ready; missing: {missing}")
    else:
        state = f"{styled(_GREEN, 'is ready.')} Ctrl-C stops it."
    facts = {
        "Dashboard": f"{running.api_url}/  (sign in with an API key)",
        "API": running.api_url,
        "API docs": f"{running.api_url}/docs",
        "Temporal UI": running.temporal_ui_url or "(set HOOKFAST_TEMPORAL_UI_URL)",
        "Temporal": f"{running.temporal_address}, namespace {running.temporal_namespace}",
        "Data": home,
    }
    title = f"Hookfast {VERSION}"
    width = max(map(len, (title, *facts))) + 3
    lines = [f"{styled(_BOLD, title)}{' ' * (width - len(title))}{state}"]
    return "\n".join([*lines, *(f"{name:{width}}{value}" for name, value in facts.items())])


if __name__ == "__main__":
    main()
