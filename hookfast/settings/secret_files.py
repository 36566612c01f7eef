"""Secrets from files: `HOOKFAST_OPERATOR_KEY_FILE` names the file whose content
`HOOKFAST_OPERATOR_KEY` would be. Environments show in `ps`, in crash reports and to every child;
files do not. Every secret setting has such a variable; so has `TEMPORAL_API_KEY`.
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
    """The settings that the variables of `source` (the environment, or a `.env` file) name files
    for. Raises Misconfigured, which never quotes a file's content."""

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
        return chosen(variable, self._variables), field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {}
        for name, field in self.settings_cls.model_fields.items():
            value, _, _ = self.get_field_value(field, name)
            if value is not None:
                found[name] = value
        return found


def chosen(variable: str, variables: Mapping[str, str | None]) -> str | None:
    """What the file of `<variable>_FILE` holds; None where no file is named. Raises Misconfigured
    when that file cannot be used, or both are set: nobody could tell which one counts."""
    named = variables.get(f"{variable}_FILE")
    if not named:
        return None
    if variables.get(variable):
        raise Misconfigured(f"{variable} and {variable}_FILE are both set; unset one of them")
    return read(Path(named), variable=f"{variable}_FILE")


def read(file: Path, *, variable: str) -> str:
    """The secret in `file`, without the line's end. Raises Misconfigured.

    That everyone may read the file is no error: it is how Docker Swarm and Kubernetes mount secrets
    unless told otherwise, where "everyone" is one container. `hookfast doctor` warns of it.
    """
    try:
        # not blocking: a FIFO in its place must not hang the start
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            content = os.read(descriptor, _MAX_BYTES + 1) if stat.S_ISREG(mode) else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Misconfigured(
            f"{variable} names {file}, which cannot be read ({error.strerror or error}); mount the "
            "secret there, readable for the user that runs Hookfast"
        ) from None
    if not stat.S_ISREG(mode):
        # what Docker makes of a bind mount whose source is not there is a folder
        raise Misconfigured(f"{variable} names {file}, which is not a file; mount the secret there")
    if mode & _OTHERS_WRITE:
        raise Misconfigured(
            f"{variable} names {file}, which others may write; run: chmod go-w {file}"
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


def named(settings_cls: type[BaseSettings], variables: Mapping[str, str]) -> dict[str, Path]:
    """The variables that name secret files, with the files."""
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
