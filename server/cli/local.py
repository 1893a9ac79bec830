"""A service in this process, for a command that finds none running: the same API, on a socket of its own.

It starts no runs and dispatches nothing: what a command stores waits for the next service.
"""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import sqlalchemy as sa
from aiohttp import web

from config.settings import Settings
from loops.errors import NotFound
from loops.store.database import is_sqlite
from server.app import Service, Wiring
from server.logs import setup_logging
from server.web import make_app


def require_database(settings: Settings) -> None:
    """Raises NotFound where opening the database would make one: nobody asks for that in a folder without a service."""
    if not is_sqlite(settings.database_url):
        return
    file = Path(sa.make_url(settings.database_url).database or "")
    if file.exists():
        return
    folder = settings.data_dir
    what = (
        f"no service runs on, and no database is in, {folder}"
        if file.parent == folder
        else f"no service runs on {folder}, and there is no database {file}"
    )
    raise NotFound(what, hint="run it in the folder of the service, or set LOOPS_DATA_DIR, or --url")


@contextmanager
def local_service(settings: Settings) -> Iterator[Path]:
    """The socket of an API over the database of these settings, for as long as the context lasts."""
    setup_logging("warning", "text", settings.secret_values)
    with tempfile.TemporaryDirectory(prefix="loops-") as folder, asyncio.Runner() as runner:  # mode 0700
        path = Path(folder) / "loops.sock"
        served = _Served(settings, path)
        try:
            runner.run(served.open())
            thread = threading.Thread(target=runner.run, args=(served.until_done(),), name="loops-local")
            thread.start()
            try:
                yield path
            finally:
                served.finish()
                thread.join()
        finally:
            runner.run(served.close())


class _Served:
    def __init__(self, settings: Settings, path: Path) -> None:
        self._settings = settings
        self._path = path
        self._opened = AsyncExitStack()

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        service = Service(self._settings, "web", Wiring(dispatching=False))
        self._opened.push_async_callback(service.stop)
        await service.open()
        runner = web.AppRunner(make_app(service.services), access_log=None, handle_signals=False)
        self._opened.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.UnixSite(runner, str(self._path)).start()

    async def until_done(self) -> None:
        await self._done.wait()

    def finish(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)

    async def close(self) -> None:
        await self._opened.aclose()
