"""Slack connections at run time: their sockets kept open, and their apps learned.

The stored connections are looked at every second; what was added, changed or deleted, here or by another process, is
followed. Connections that share an app token share one socket, since Slack gives an envelope to one socket alone: each
envelope is then accepted for every one of them.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from loops.connections.book import ConnectionBook, OpenConnection
from loops.connections.kinds import check_changes, kind_named
from loops.connections.secrets import SecretBox
from loops.connections.slack import SlackIdentity, api_of, identify
from loops.errors import ExternalError, NotFound, RequestError, StoreBusy, StoreError
from loops.ports import Clock, Writer
from loops.store import connections as store
from triggers.intake import Intake
from triggers.slack.line import SocketLine
from triggers.slack.patience import Patience, Timing
from triggers.slack.receive import SlackSource

log = logging.getLogger("loops.slack")

_Key = tuple[str, str]  # a token, and where the API is that knows it


class SlackSessions:
    """Follows the Slack connections for as long as `forever` runs."""

    def __init__(
        self,
        book: ConnectionBook,
        box: SecretBox,
        writer: Writer,
        clock: Clock,
        intake: Intake,
        source: SlackSource,
        timing: Timing | None = None,
    ) -> None:
        self._book = book
        self._box = box
        self._writer = writer
        self._clock = clock
        self._intake = intake
        self._source = source
        self._timing = timing or Timing()
        self._epoch = -1
        self._lines: dict[_Key, tuple[SocketLine, asyncio.Task[None]]] = {}
        self._learning: dict[int, tuple[_Key, asyncio.Task[None]]] = {}

    async def forever(self) -> None:
        """Until cancelled; every socket is closed then. Ends by the error of a part that fails unforeseen."""
        try:
            while True:
                await self._look()
                for _, task in (*self._lines.values(), *self._learning.values()):
                    if task.done():
                        task.result()
                await asyncio.sleep(self._timing.look)
        finally:
            await _stop(task for _, task in (*self._lines.values(), *self._learning.values()))

    async def _look(self) -> None:
        try:
            changed = await self._book.changed("slack", self._epoch)
        except StoreBusy as error:
            log.warning("cannot look for Slack connections: %s", error.message)
            return
        if changed is not None:
            await self._follow_sockets(changed[1])
            await self._follow_tokens(changed[1])
            self._epoch = changed[0]

    async def _follow_sockets(self, opened: Sequence[OpenConnection]) -> None:
        wanted: dict[_Key, list[OpenConnection]] = {}
        for one in opened:
            if one.secrets.get("app_token"):
                wanted.setdefault((one.secrets["app_token"], api_of(one.config)), []).append(one)
        await _stop([self._lines.pop(key)[1] for key in [*self._lines] if key not in wanted])
        for key, sharing in wanted.items():
            if key in self._lines:
                self._lines[key][0].connections = sharing
            else:
                line = SocketLine(*key, sharing, self._intake, self._source, self._timing)
                self._lines[key] = line, _task(line.forever(), f"slack-socket-{sharing[0].id}")

    async def _follow_tokens(self, opened: Sequence[OpenConnection]) -> None:
        tokens = {one.id: (one.secrets.get("bot_token", ""), api_of(one.config)) for one in opened}
        outdated = [number for number, (key, _) in self._learning.items() if tokens.get(number) != key]
        await _stop([self._learning.pop(number)[1] for number in outdated])
        for one in opened:
            key = tokens[one.id]
            if key[0] and one.id not in self._learning:
                self._learning[one.id] = (key, _task(self._learn(one, *key), f"slack-identity-{one.id}"))

    async def _learn(self, connection: OpenConnection, bot_token: str, base_url: str) -> None:
        """Ask Slack once whose the token is, and keep it with the connection: own messages are known by it."""
        patience = Patience(self._timing)
        extra = {"connection": connection.id, "project": connection.project_id}
        while True:
            try:
                identity = await identify(bot_token, base_url)
                if await self._writer.run(lambda c: self._keep(c, connection, bot_token, identity)):  # noqa: B023
                    log.info("learned whose the bot token of a Slack connection is", extra=extra)
                return
            except RequestError as error:
                log.warning("what Slack says of a bot token cannot be kept: %s", error.message, extra=extra)
                return
            except (ExternalError, StoreError) as error:
                what = "the bot token of a Slack connection cannot be checked"
                await asyncio.sleep(patience.tell(what, error, extra))

    def _keep(
        self, transaction: sa.Connection, connection: OpenConnection, bot_token: str, identity: SlackIdentity
    ) -> bool:
        """Whether anything had to be stored; nothing is when the token was changed meanwhile."""
        try:
            row = store.held(transaction, connection.project_id, connection.id)
        except NotFound:
            return False
        secrets = {name: str(value) for name, value in self._box.open(row.secrets).items()}
        learned = identity.settings()
        if secrets.get("bot_token") != bot_token or learned.items() <= row.config.items():
            return False
        checked = check_changes(kind_named("slack"), {**row.config, **secrets}, learned)
        store.change(transaction, row.id, config=checked.config, secrets=row.secrets, now=self._clock.now())
        return True


def _task(work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
    return asyncio.create_task(work, name=f"loops-{name}")


async def _stop(tasks: Iterable["asyncio.Task[None]"]) -> None:
    ended = [*tasks]
    for task in ended:
        task.cancel()
    await asyncio.gather(*ended, return_exceptions=True)
