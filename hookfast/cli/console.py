"""What the commands share: the terminal, and the settings with errors in words."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console
from rich.panel import Panel

from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings, load_settings

out = Console()
"""Standard output, for what a command says. Logs go to standard error."""


def read_settings() -> Settings:
    """The settings in force. Raises Misconfigured, naming each setting that cannot work."""
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
    """Show a new operator key, the only time anyone sees it."""
    out.print(
        Panel.fit(
            "It is shown below, this once, and stored only as a hash: keep it now.\n"
            "Send it as `Authorization: Bearer hf_…`.\n"
            "HOOKFAST_OPERATOR_KEY sets one of your own.",
            title="New operator key",
            border_style="yellow",
        )
    )
    # outside of the frame: in a narrow terminal that would break it, and what is copied be no key
    out.print(key, style="bold", soft_wrap=True, markup=False, highlight=False)
