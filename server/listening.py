"""The sockets: TCP for the world, a private socket in the data folder for commands on this machine."""

import asyncio
import os
import shutil
import socket
import tempfile
from pathlib import Path

from aiohttp import web

from config.settings import Settings
from loops.errors import ConfigError, Fault
from server.whereabouts import SOCKET, announce, retract

# What every system takes as the path of a socket; Linux takes 107 bytes, macOS 103.
_LONGEST_PATH = 100
IDLE_SECONDS = 75.0
"""After which a connection without a whole request head is closed, a new one and one that is kept alive. Proxies keep
theirs for a minute."""


class Listening:
    """A listening application. Where it serves people, service.json in the data folder says where; a worker tells its
    health on the same port if that is free, else on any."""

    def __init__(self, settings: Settings, app: web.Application, *, serves: bool = True) -> None:
        self._settings = settings
        self._serves = serves
        # Signatures are over the raw bytes: a body must reach its source as it was sent.
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, auto_decompress=False, keepalive_timeout=IDLE_SECONDS
        )
        self._socket = settings.data_dir / SOCKET
        self._elsewhere: Path | None = None
        self._announced = False
        self.address = ""

    async def open(self) -> str:
        """Listen; the public URL, and in `address` where it listens. Raises ConfigError when that cannot be had."""
        settings = self._settings
        await self._runner.setup()
        try:
            await self._open_port(settings.port)
        except OSError as error:
            if self._serves:
                raise ConfigError(
                    [Fault("LOOPS_PORT", f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
                           "stop what listens there, or choose another port")]
                ) from error  # fmt: skip
            await self._open_port(0)
        port: int = self._runner.addresses[0][1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.address = f"http://{host}:{port}"
        url = settings.with_port(port).public_url
        if self._serves:
            await self._open_socket()
            announce(settings.data_dir, url, self._socket)
        return url

    async def _open_port(self, port: int) -> None:
        await web.TCPSite(self._runner, self._settings.host, port, backlog=1024).start()

    async def _open_socket(self) -> None:
        self._settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(os.fsencode(self._socket)) > _LONGEST_PATH:
            self._elsewhere = Path(tempfile.mkdtemp(prefix="loops-"))  # mode 0700
            self._socket = self._elsewhere / SOCKET
        if _answers(self._socket):
            raise ConfigError(
                [Fault("LOOPS_DATA_DIR", f"another service listens in {self._settings.data_dir}",
                       "stop it, or give this process a data folder of its own")]
            )  # fmt: skip
        self._announced = True
        self._socket.unlink(missing_ok=True)
        private = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The mode has to be right before anybody can connect: bind under a mask instead of changing it afterwards.
        before = os.umask(0o177)
        try:
            private.bind(str(self._socket))
        finally:
            os.umask(before)
        await web.SockSite(self._runner, private).start()

    async def close(self, drain_seconds: float) -> None:
        """Refuse new connections, let requests in flight end."""
        if self._announced:  # else what lies there is another process's
            retract(self._settings.data_dir)
            self._socket.unlink(missing_ok=True)
        if self._elsewhere is not None:
            shutil.rmtree(self._elsewhere, ignore_errors=True)
        async with asyncio.timeout(drain_seconds + 5):
            await self._runner.cleanup()


def _answers(path: Path) -> bool:
    """Whether somebody listens on a private socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
