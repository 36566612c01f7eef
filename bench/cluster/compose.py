"""What `docker-compose.yml` says: versions, settings and environments. Pure.

The cluster is built from these, so that there is one place for each of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "compose"
_SECRETS = "/run/secrets"


@dataclass(frozen=True, slots=True)
class Compose:
    """The file's services by name, and the first lines of the proxy's Dockerfile."""

    services: Mapping[str, Mapping[str, Any]]
    dockerfile: str

    @property
    def temporal_version(self) -> str:
        """Version of the Temporal server and its SQL tool, as `1.32.2`."""
        (version,) = {
            self._tag(name) for name in ("temporal", "temporal-schema", "temporal-namespace")
        }
        return version

    @property
    def caddy_version(self) -> str:
        """Version of the proxy, as `2.11.9`."""
        found = re.search(r"^FROM caddy:(\d+\.\d+\.\d+)", self.dockerfile, re.MULTILINE)
        if found is None:
            raise ValueError("The proxy's Dockerfile names no version of Caddy: FROM caddy:X.Y.Z")
        return found[1]

    @property
    def initdb_options(self) -> tuple[str, ...]:
        """Options with which PostgreSQL's image creates the folder of data."""
        return tuple(self.services["postgresql"]["environment"]["POSTGRES_INITDB_ARGS"].split())

    @property
    def postgresql_settings(self) -> tuple[str, ...]:
        """PostgreSQL's settings, as `max_connections=300`."""
        pairs = itertools.pairwise(self.services["postgresql"]["command"])
        return tuple(value for flag, value in pairs if flag == "-c")

    def environment(self, service: str, *, secrets: Path) -> dict[str, str]:
        """Return the environment of a service, with the defaults of its variables and the files of
        this folder as its secrets."""
        found: Mapping[str, str] = self.services[service].get("environment", {})
        return {
            name: _with_defaults(value).replace(_SECRETS, str(secrets))
            for name, value in found.items()
        }

    def _tag(self, service: str) -> str:
        reference, _, _ = str(self.services[service]["image"]).partition("@")
        return reference.rpartition(":")[2]


def read_compose() -> Compose:
    """Read the repository's `docker-compose.yml`."""
    content = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return Compose(content["services"], (FILES / "proxy" / "Dockerfile").read_text())


def _with_defaults(text: str) -> str:
    """Return the text with the defaults of Compose's `${NAME:-default}`."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
