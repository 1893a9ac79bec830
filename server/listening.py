"""The sockets: TCP for the world, a private socket in the data folder for commands on this machine."""

import asyncio
import json
import os
import socket
from pathlib import Path

from aiohttp import web

from config.settings import Settings
from loops.errors import ConfigError, Fault

SOCKET = "loops.sock"
SERVICE_FILE = "service.json"


class Listening:
    """A listening application. service.json in the data folder says where."""

    def __init__(self, settings: Settings, app: web.Application) -> None:
        self._settings = settings
        # Signatures are over the raw bytes: a body must reach its source as it was sent.
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, auto_decompress=False)
        self._socket = settings.data_dir / SOCKET
        self._file = settings.data_dir / SERVICE_FILE
        self._announced = False

    async def open(self) -> str:
        """Listen; the public URL. Raises ConfigError when the address cannot be had."""
        settings = self._settings
        await self._runner.setup()
        site = web.TCPSite(self._runner, settings.host, settings.port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(
                [Fault("LOOPS_PORT", f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
                       "stop what listens there, or choose another port")]
            ) from error  # fmt: skip
        port: int = self._runner.addresses[0][1]
        url = settings.with_port(port).public_url
        self._announced = True
        await self._open_socket()
        write_private(self._file, json.dumps({"url": url, "pid": os.getpid()}))
        return url

    async def _open_socket(self) -> None:
        self._settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            self._file.unlink(missing_ok=True)
            self._socket.unlink(missing_ok=True)
        await asyncio.wait_for(self._runner.cleanup(), drain_seconds + 5)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
