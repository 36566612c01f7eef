"""Reads secrets from files: `HOOKFAST_OPERATOR_KEY_FILE` names a file with the value of
`HOOKFAST_OPERATOR_KEY`. Environments show in `ps`, in crash reports and to every child process;
files do not. Every secret setting has such a variable, and so has `TEMPORAL_API_KEY`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource

from hookfast.errors import Misconfigured

_MAX_BYTES = 65_536
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SecretFiles(PydanticBaseSettingsSource):
    """The settings source for files that are named in `source`, the environment or a `.env` file.
    Raises Misconfigured, which never quotes a file's content."""

    def __init__(
        self, settings_cls: type[BaseSettings], source: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        variables = cast("EnvSettingsSource", source).env_vars
        self._variables = {name.upper(): value for name, value in variables.items()}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        variable = f"{self.config.get('env_prefix', '')}{field_name}".upper()
        if not _is_secret(field):
            return None, field_name, False
        return read_for(variable, self._variables), field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {}
        for name, field in self.settings_cls.model_fields.items():
            value, _, _ = self.get_field_value(field, name)
            if value is not None:
                found[name] = value
        return found


def read_for(variable: str, variables: Mapping[str, str | None]) -> str | None:
    """Return the secret in the file that `<variable>_FILE` names; None if it is not set. Raises
    Misconfigured if the file cannot be used, or both variables are set, which is ambiguous."""
    named = variables.get(f"{variable}_FILE")
    if not named:
        return None
    if variables.get(variable):
        raise Misconfigured(f"{variable} and {variable}_FILE are both set; unset one of them")
    return read(Path(named), variable=f"{variable}_FILE")


def read(file: Path, *, variable: str) -> str:
    """Return the secret in `file`, without the end of the line. Raises Misconfigured.

    A file that everyone may read is accepted: Docker Swarm and Kubernetes mount secrets so by
    default, where "everyone" is one container. `hookfast doctor` warns about it.
    """
    try:
        # non-blocking, because a FIFO instead of a file must not block the start
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            content = os.read(descriptor, _MAX_BYTES + 1) if stat.S_ISREG(mode) else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Misconfigured(
            f"{variable} names {file}, which cannot be read ({error.strerror or error}); mount the "
            "secret there, readable by the user that runs Hookfast"
        ) from None
    if not stat.S_ISREG(mode):
        # Docker creates a folder for a bind mount whose source does not exist
        raise Misconfigured(f"{variable} names {file}, which is not a file; mount the secret there")
    if mode & _OTHERS_WRITE:
        raise Misconfigured(
            f"{variable} names {file}, which other users may write; run: chmod go-w {file}"
        )
    if len(content) > _MAX_BYTES:
        raise Misconfigured(f"{variable} names {file}, which is too long for a secret")
    try:
        text = content.decode().strip()
    except UnicodeDecodeError:
        raise Misconfigured(f"{variable} names {file}, which is not text") from None
    if not text:
        raise Misconfigured(f"{variable} names {file}, which is empty; write the secret into it")
    return text


def named_files(settings_cls: type[BaseSettings], variables: Mapping[str, str]) -> dict[str, Path]:
    """Return the files that these variables name for secrets, by variable."""
    prefix = settings_cls.model_config.get("env_prefix", "")
    secrets = [
        f"{prefix}{name}".upper()
        for name, field in settings_cls.model_fields.items()
        if _is_secret(field)
    ]
    variables_of_files = [f"{name}_FILE" for name in (*secrets, "TEMPORAL_API_KEY")]
    return {name: Path(variables[name]) for name in variables_of_files if variables.get(name)}


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in (field.annotation, *get_args(field.annotation))
