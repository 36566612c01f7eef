"""`python -m hookfast.supervisor PLAN`: what `hookfast up` becomes once its settings are read."""

from __future__ import annotations

import asyncio
import os
import sys

from hookfast.errors import HookfastError
from hookfast.logs import configure_logging
from hookfast.supervisor.banner import banner
from hookfast.supervisor.interrupt import interruptible
from hookfast.supervisor.output_encoding import escape_what_cannot_be_written
from hookfast.supervisor.plan import Plan
from hookfast.supervisor.service import service


def main() -> None:
    """Run until Ctrl-C or SIGTERM. Exits with 1 and a sentence when something cannot work."""
    escape_what_cannot_be_written()
    plan = Plan.loaded(sys.argv[1])
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


if __name__ == "__main__":
    main()
