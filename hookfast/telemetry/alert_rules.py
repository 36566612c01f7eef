"""The alert rules for Prometheus, with absolute links.

In `alert_rules.yml` the links of an alert are paths: of its entry in the runbook, of the panel in
Grafana that shows what it measures, and of our own page about it. They become absolute here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

_RULES = Path(__file__).with_name("alert_rules.yml")
_LINK = re.compile(r"^( +)(runbook_url|dashboard_url|hookfast_url): (\S+)$", re.MULTILINE)
_URL_CHARACTERS = ":/?#[]@!$&'()*+,;=%"


def alert_rules(*, runbook_url: str | None, grafana_url: str | None, public_url: str) -> str:
    """Return the rules as YAML. `runbook_url` is the page of the runbook, `grafana_url` and
    `public_url` are the first parts of the URLs of Grafana and Hookfast. The links to the runbook
    and to Grafana stay paths while these are None."""
    ours = _in_a_template(public_url.rstrip("/"))
    grafana = _in_a_template((grafana_url or "").rstrip("/"))

    def absolute(match: re.Match[str]) -> str:
        indent, name, path = match.groups()
        match name:
            case "runbook_url" if runbook_url is not None:
                url = f"{_in_a_template(runbook_url)}#{path.partition('#')[2]}"
            case "dashboard_url":
                url = f"{grafana}{path}&var-hookfast={quote(ours, safe='')}"
            case "hookfast_url":
                url = f"{ours}{path}"
            case _:
                url = path
        return f"{indent}{name}: {json.dumps(url)}"

    return _LINK.sub(absolute, _RULES.read_text(encoding="utf-8"))


def _in_a_template(url: str) -> str:
    """Encode what no URL may have, such as braces: Prometheus reads annotations as templates."""
    return quote(url, safe=_URL_CHARACTERS)
