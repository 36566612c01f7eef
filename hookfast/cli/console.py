"""What the service's commands share: standard output, and settings whose errors are sentences."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console
from rich.panel import Panel

from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings, load_settings

out = Console()
"""Standard output, for the results of a command. Logs go to standard error."""


def read_settings() -> Settings:
    """Return the settings in force. Raises Misconfigured, which names each invalid setting."""
    try:
        return load_settings()
    except ValidationError as error:
        wrong = (
            f"HOOKFAST_{str(fault['loc'][0]).upper()}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_input=False)
        )
        raise Misconfigured("; ".join(wrong)) from None
    except SettingsError as error:
        raise Misconfigured(str(error)) from None


def print_operator_key(key: str) -> None:
    """Print a new operator key, the only time it is shown."""
    out.print(
        Panel.fit(
            "It is shown below only once, and stored only as a hash: save it now.\n"
            "Send it as `Authorization: Bearer hf_…`.\n"
            "HOOKFAST_OPERATOR_KEY sets your own key.",
            title="New operator key",
            border_style="yellow",
        )
    )
    # outside the panel, which would break the key in a narrow terminal: it could not be copied
    out.print(key, style="bold", soft_wrap=True, markup=False, highlight=False)
