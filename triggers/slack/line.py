"""The sockets of one app token, one after the other, for every connection that has the token."""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

from slack_sdk.socket_mode.request import SocketModeRequest

from loops.connections.book import OpenConnection
from loops.connections.slack import open_socket
from loops.errors import ExternalError, PayloadMalformed, StoreError
from triggers.intake import Intake
from triggers.slack.answering import answering_app
from triggers.slack.event import team
from triggers.slack.patience import Patience, Timing
from triggers.slack.receive import SlackSource
from triggers.slack.socket import Socket
from triggers.source import Arrival, Incoming

log = logging.getLogger("loops.slack")

_OUTDATED = frozenset({"warning", "refresh_requested"})
_OFF = "link_disabled"


class SocketLine:
    """Keeps a socket open while `forever` runs. `connections` may be changed meanwhile."""

    def __init__(
        self,
        app_token: str,
        base_url: str,
        connections: Sequence[OpenConnection],
        intake: Intake,
        source: SlackSource,
        timing: Timing,
    ) -> None:
        self.connections = connections
        self._token = app_token
        self._base_url = base_url
        self._intake = intake
        self._source = source
        self._timing = timing
        self._patience = Patience(timing)
        self._app = answering_app()
        self._current: Socket | None = None

    async def forever(self) -> None:
        """Until cancelled; the socket is closed then."""
        try:
            while True:
                try:
                    await self._next()
                except ExternalError as error:
                    wait = self._patience.tell(
                        "the socket of a Slack connection cannot be opened", error, self._named()
                    )
                    await asyncio.sleep(wait)
        finally:
            await self._close()

    async def _next(self) -> None:
        """Open the next socket, and stay until it ends. Raises ExternalError when it cannot be opened."""
        fresh = await self._opened()
        # Only now: until the next one is open, an outdated socket goes on bringing envelopes.
        await self._close()
        self._current = fresh
        begun = asyncio.get_running_loop().time()
        log.info("listening to Slack by Socket Mode", extra=self._named())
        await fresh.over.wait()
        self._tell_end(fresh)
        if fresh.reason not in _OUTDATED:
            await self._close()
        if asyncio.get_running_loop().time() - begun >= self._timing.settled:
            self._patience.reset()
        else:
            await asyncio.sleep(self._patience.wait())

    async def _opened(self) -> Socket:
        url = await open_socket(self._token, self._base_url)
        socket = Socket(self._app, self._accept, ping_seconds=self._timing.ping)
        await socket.open(url)
        return socket

    async def _close(self) -> None:
        former, self._current = self._current, None
        if former is not None:
            await former.close()

    def _tell_end(self, socket: Socket) -> None:
        if socket.reason == _OFF:
            log.warning("Socket Mode was switched off in the app's settings on Slack", extra=self._named())
        else:
            log.info("a Slack socket ended: %s", socket.reason or "the connection was lost", extra=self._named())

    async def _accept(self, request: SocketModeRequest) -> bool:
        """Store the envelope for every connection of the token; whether it may be acknowledged."""
        headers = {"content-type": "application/json"}
        if request.retry_attempt:
            headers["x-slack-retry-num"] = str(request.retry_attempt)
        incoming = Incoming(headers, json.dumps(request.payload).encode())
        try:
            arrival = self._source.read(incoming)
            for connection in _addressed(self.connections, arrival):
                await self._intake.accept(self._source, connection, incoming, arrival)
        except PayloadMalformed as error:
            # Acknowledged: it would be no better the next time.
            log.warning("an envelope of Slack's cannot be read: %s", error.message, extra=self._named())
        except StoreError as error:
            log.warning("an envelope of Slack's is not stored, so Slack sends it again: %s", error.message)
            return False
        return True

    def _named(self) -> dict[str, Any]:
        return {"connections": ", ".join(str(one.id) for one in self.connections)}


def _addressed(connections: Sequence[OpenConnection], arrival: Arrival) -> Sequence[OpenConnection]:
    """Of the connections that share an app those of the workspace that the envelope is for, where they are known."""
    if len(connections) == 1 or not isinstance(arrival.parsed, dict):
        return connections
    wanted = team(arrival.parsed)
    return [one for one in connections if one.config.get("team_id", wanted) == wanted] or connections
