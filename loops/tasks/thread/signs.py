"""What a task shows in its thread while it works: `eyes` on the message that started it, and one message that tells of
the progress, edited as it goes on and removed at the end of the turn.

All of it is best effort, and none of it is a result: those go through the outbox. A progress message is posted at most
once a turn: where a process died over it, the thread is read for its mark.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from loops.connections.book import ConnectionBook
from loops.connections.slack import SlackClient, api_of, slack_client
from loops.connections.slack_answer import Answer
from loops.errors import NotFound, StoreBusy, StoreError, Unreached
from loops.ports import Clock, Reader, Writer
from loops.store import thread_signs as store
from loops.store.thread_signs import UNKNOWN_TS, Looked, Sign
from loops.store.threads import ThreadRow
from loops.tasks.thread.progress import due_for_progress, next_look, progress_words

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger("loops.threads")

EVERY_SECONDS = 0.5
EMOJI = "eyes"
EVENT_TYPE = "loops_progress"
SHOWN = "shown"
_SECONDS = 8.0
# These may be better in a while; everything else stays as it is.
_FOR_NOW = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable", ""})
_DONE = frozenset({"already_reacted"})
_GONE = frozenset({"message_not_found", "channel_not_found", "cant_delete_message"})


class Limited(Exception):
    """Slack asks for patience, in seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:g} s")
        self.seconds = seconds


class ThreadSigns:
    """Looks after the threads of all tasks; any number of processes may. `page` is the page of a run."""

    def __init__(
        self, writer: Writer, reader: Reader, clock: Clock, book: ConnectionBook, page: Callable[[str], str]
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._book = book
        self._page = page

    async def forever(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except StoreBusy as error:
                log.warning("threads wait for the database: %s", error.message)
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> int:
        """How many threads were looked after."""
        now = self._clock.now()
        if not await self._reader.read(lambda connection: store.any_due(connection, now)):
            return 0
        taken = await self._writer.run(lambda connection: store.take(connection, now))
        await asyncio.gather(*(self._look_after(one) for one in taken))
        return len(taken)

    async def _look_after(self, looked: Looked) -> None:
        row = looked.row
        showing = _Showing(self._writer, looked, self._clock.now())
        unfinished, until = False, None
        try:
            opened = await self._book.of_project(row.project_id, row.connection_id, "slack")
            token = opened.secrets.get("bot_token")
            if token:
                async with slack_client(token, api_of(opened.config), seconds=_SECONDS) as client:
                    unfinished = await showing.show(client, self._page(row.run_id))
        except Limited as limited:
            unfinished, until = True, self._clock.now() + timedelta(seconds=limited.seconds)
        except Unreached as error:
            unfinished = True
            log.info("a thread cannot be looked after now: %s", error.message, extra={"task_id": row.task_id})
        except (NotFound, StoreError) as error:
            log.info("a thread is not looked after: %s", error.message, extra={"task_id": row.task_id})
        await self._give_back(row, showing.sign, until, unfinished=unfinished)

    async def _give_back(self, row: ThreadRow, sign: Sign, until: datetime | None, *, unfinished: bool) -> None:
        now = self._clock.now()
        again = next_look(row, now, unfinished=unfinished)
        if until is not None and again is not None:
            again = max(again, until)

        def give(connection: "Connection") -> None:
            store.give_back(connection, row, sign, again, now)
            if until is not None:
                store.put_off(connection, row.connection_id, until)

        await self._writer.run(give)


class _Showing:
    """One thread that is looked after now; `sign` is what stands in it."""

    def __init__(self, writer: Writer, looked: Looked, now: datetime) -> None:
        self._writer = writer
        self._looked = looked
        self._now = now
        row = looked.row
        self.sign = Sign(row.reaction, row.progress_ts, row.progress_text, row.progress_turn)

    async def show(self, client: SlackClient, page: str) -> bool:
        """Bring the thread up to date; whether something is left to do. Raises Limited and Unreached."""
        left = not self.sign.reaction and not await self._react(client)
        if self.sign.progress_ts == UNKNOWN_TS:
            self.sign = replace(self.sign, progress_ts=await self._find(client))
        row = self._looked.row
        if due_for_progress(row, self._now):
            await self._tell(client, progress_words(self._looked.activity, page, begun=self._looked.begun))
        elif self.sign.progress_ts and not (row.status == "working" and self.sign.progress_turn == row.turn):
            left = not await self._remove(client) or left
        return left

    async def _react(self, client: SlackClient) -> bool:
        row = self._looked.row
        asked = {"channel": row.channel, "timestamp": row.message_ts, "name": EMOJI}
        answer = await _call(client, "reactions.add", asked)
        if answer.ok or answer.code in _DONE:
            self.sign = replace(self.sign, reaction=SHOWN)
        elif answer.code in _FOR_NOW:
            return False
        else:
            needed = f", needed {answer.needed}, provided {answer.provided}" if answer.needed else ""
            self.sign = replace(self.sign, reaction=f"{answer.code}{needed}")
            log.info("the message that started a task got no reaction", extra={"reason": self.sign.reaction})
        return True

    async def _tell(self, client: SlackClient, text: str) -> None:
        row = self._looked.row
        if not self.sign.progress_ts:
            if self.sign.progress_turn < row.turn:
                await self._post(client, text)
            return
        if text == self.sign.progress_text:
            return
        answer = await _call(client, "chat.update", {**self._message(text), "ts": self.sign.progress_ts})
        if answer.ok:
            self.sign = replace(self.sign, progress_text=text)
        elif answer.code in _GONE:  # somebody removed it: then nobody wants it
            self.sign = replace(self.sign, progress_ts="")

    async def _post(self, client: SlackClient, text: str) -> None:
        row, former = self._looked.row, self.sign
        if not await self._writer.run(lambda connection: store.posting(connection, row)):
            return
        self.sign = replace(self.sign, progress_ts=UNKNOWN_TS, progress_turn=row.turn, progress_text=text)
        mark = {"event_type": EVENT_TYPE, "event_payload": {"task": row.task_id, "turn": row.turn}}
        asked = {**self._message(text), "thread_ts": row.thread_ts, "metadata": mark}
        try:
            answer = await _call(client, "chat.postMessage", asked)
        except Limited:
            self.sign = former
            raise
        except Unreached as error:
            if not error.sent:
                self.sign = former
            raise
        if answer.code not in _FOR_NOW or answer.ok:
            self.sign = replace(self.sign, progress_ts=answer.text("ts") if answer.ok else "")

    def _message(self, text: str) -> dict[str, object]:
        return {
            "channel": self._looked.row.channel,
            "text": text,
            "blocks": [{"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}],
            "parse": "none",
            "link_names": False,
            "unfurl_links": False,
            "unfurl_media": False,
        }

    async def _find(self, client: SlackClient) -> str:
        """The ts of a progress message of which nobody knows whether it was posted; empty where it is not there."""
        row = self._looked.row
        asked = {"channel": row.channel, "ts": row.thread_ts, "limit": 200, "include_all_metadata": True}
        asked["oldest"] = f"{(row.created_at - timedelta(minutes=2)).timestamp():.6f}"
        answer = await _call(client, "conversations.replies", asked, query=True)
        for posted in answer.body.get("messages") or []:
            metadata = posted.get("metadata") if isinstance(posted, dict) else None
            payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
            if payload == {"task": row.task_id, "turn": self.sign.progress_turn}:
                return str(posted.get("ts") or "")
        return ""

    async def _remove(self, client: SlackClient) -> bool:
        asked = {"channel": self._looked.row.channel, "ts": self.sign.progress_ts}
        answer = await _call(client, "chat.delete", asked)
        if not answer.ok and answer.code in _FOR_NOW:
            return False
        self.sign = replace(self.sign, progress_ts="", progress_text="")
        return True


async def _call(client: SlackClient, method: str, asked: Mapping[str, object], *, query: bool = False) -> Answer:
    answer = await client.call(method, asked, form="query" if query else "json")
    if answer.is_limited:
        raise Limited(1.0 if answer.retry_after is None else answer.retry_after)
    return answer
