"""Debian's tinyproxy on loopback: a real HTTP proxy for CONNECT, with Basic authentication."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Self

import pytest

from hookfast.settings.egress_proxy import EgressProxy, parse_egress_proxy
from tests.e2e.service_process import free_ports
from tests.support.waiting import eventually

USER, PASSWORD = "hook", "secret-pass_w.rd"  # tinyproxy allows no other characters
_REQUEST = re.compile(r"Request \(file descriptor [0-9]+\): CONNECT (\S+) ")
_CONFIGURATION = """
Port {port}
Listen 127.0.0.1
LogFile "{log}"
LogLevel Connect
MaxClients 100
BasicAuth {user} {password}
"""


class TinyProxy:
    """A proxy process with its files in `folder`. It connects to each of `ports`, or to every port,
    and may be stopped and started again on the same port."""

    def __init__(self, folder: Path, *, ports: tuple[int, ...] = ()) -> None:
        if shutil.which("tinyproxy") is None:
            pytest.skip("tinyproxy is missing: apt-get install -y tinyproxy")
        (self.port,) = free_ports(1)
        self._log = folder / "tinyproxy.log"
        self._configuration = folder / "tinyproxy.conf"
        self._configuration.write_text(
            _CONFIGURATION.format(port=self.port, log=self._log, user=USER, password=PASSWORD)
            + "".join(f"ConnectPort {port}\n" for port in ports)
        )
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """The value of `HOOKFAST_EGRESS_PROXY`."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    @property
    def parsed(self) -> EgressProxy:
        return parse_egress_proxy(self.url)

    @property
    def asked(self) -> list[str]:
        """The targets of the requests so far, e.g. `127.0.0.1:443`."""
        return _REQUEST.findall(self._log.read_text())

    async def start(self) -> None:
        """Start the process, and wait until it listens."""
        self._process = await asyncio.create_subprocess_exec(
            "tinyproxy", "-d", "-c", str(self._configuration), stdout=asyncio.subprocess.DEVNULL
        )

        async def listens() -> bool:
            assert self._process is not None
            assert self._process.returncode is None, "tinyproxy ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionRefusedError:
                return False
            writer.close()
            return True

        await eventually(listens)

    async def stop(self) -> None:
        """Kill the process, and with it its connections."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
