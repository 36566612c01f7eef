"""What `up` says when it is ready."""

from __future__ import annotations

from hookfast.supervisor.service import Service
from hookfast.version import VERSION

_BOLD, _YELLOW, _GREEN = "1", "33", "32"


def banner(running: Service, *, home: str, coloured: bool) -> str:
    """Where everything is, in lines that are never cut."""

    def styled(code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if coloured else text

    if running.missing:
        lacks = ", ".join(running.missing)
        state = styled(_YELLOW, f"is up but not ready; it lacks: {lacks}")
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
