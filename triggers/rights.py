"""What the sender of a GitHub event may do, asked of GitHub: `actor_access` where a connection can ask.

Asked for only where a loop's decision turns on it, once for a repository and login, never inside a transaction. An
event whose answer is not known yet is put off for as long as the answer takes; others go on. Whatever goes wrong is
"read", and the reason says what.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import sqlalchemy as sa

from loops.connections.github import GitHubClient, GitHubClients
from loops.errors import ExternalError, StoreBusy
from loops.event import Event, JsonValue
from loops.ports import Clock, Writer
from loops.store import deliveries
from loops.store.connections import ConnectionRow
from loops.store.github import epoch_of, rights_epoch

log = logging.getLogger("loops.rights")

KEEP = timedelta(minutes=5)
KEEP_FAULT = timedelta(seconds=10)
"""For as long the same question is not asked again after an error: long enough for what waited on it."""
PATIENCE = timedelta(seconds=15)
"""After as long an event that waits for an answer is looked at again in any case: its process may be gone."""
MOST_ASKED = 1000
_MOST_KNOWN = 20_000
_NOT_FOUND = 404

Facts: TypeAlias = Mapping[str, JsonValue]
"""Properties that take the place of the delivery's."""


@dataclass(frozen=True, slots=True)
class Question:
    """What may a login do in a repository, asked by a connection; `epoch` counts the changes that it has heard of."""

    connection_id: int
    repository: str
    login: str
    installation: int | None
    epoch: int
    client: GitHubClient

    @property
    def words(self) -> str:
        """What it waits for."""
        return f"asks GitHub what {self.login} may do in {self.repository}"


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer, and what it holds for."""

    epoch: int
    client: GitHubClient
    facts: Facts
    until: datetime


class Rights:
    """The answers of this process. `facts` is called in transactions, `ask` on the event loop."""

    def __init__(
        self,
        clients: GitHubClients,
        writer: Writer,
        clock: Clock,
        *,
        answered: Callable[[], None],
        observe: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        """`answered` is called after what waited for an answer is due; `observe` is told what each question came to:
        write, read, limited or failed."""
        self._clients = clients
        self._writer = writer
        self._clock = clock
        self._answered = answered
        self._observe = observe
        self._known: dict[tuple[int, str, str], _Known] = {}
        self._asked: dict[Question, list[str]] = {}
        self._tasks: dict[asyncio.Task[None], Question] = {}

    def asking(self, row: ConnectionRow | None, event: Event) -> Callable[[sa.Connection], Question] | None:
        """What makes the question that the event leaves open, which costs a look into the database; None where the
        delivery answers it, or nobody can be asked."""
        get = event.properties.get
        repository, login, installation = get("repository"), get("sender"), get("installation_id")
        if row is None or get("event_type") == "push" or not isinstance(login, str) or not isinstance(repository, str):
            return None
        client = self._clients.of(row)
        if client is None or not login or not repository:
            return None
        number = installation if isinstance(installation, int) else None

        def question(connection: sa.Connection) -> Question:
            return Question(row.id, repository, login, number, epoch_of(connection, rights_epoch(row.id)), client)

        return question

    def facts(self, question: Question) -> Facts | None:
        """The answer, if it is known."""
        known = self._known.get(_place(question))
        if known is None or known.epoch != question.epoch or known.client is not question.client:
            return None
        return known.facts if known.until > self._clock.now() else None

    def ask(self, question: Question, delivery_id: str) -> None:
        """Ask, and let the delivery be dispatched then. Asked again while it is, it is the same question; with too many
        at once it is left for later."""
        self._ask(question, [delivery_id])

    async def answered(self, question: Question) -> None:
        """Ask, and wait until `facts` knows the answer, for somebody who waits for it. With too many at once it knows
        none."""
        if self.facts(question) is None:
            self._ask(question, [])
            asking = [task for task, asked in self._tasks.items() if asked == question]
            if asking:
                await asyncio.wait(asking)

    def _ask(self, question: Question, waits: list[str]) -> None:
        waiting = self._asked.get(question)
        if waiting is not None:
            waiting += waits
        elif len(self._asked) < MOST_ASKED:
            self._asked[question] = waits
            task = asyncio.create_task(self._answer(question), name="loops-rights")
            self._tasks[task] = question
            task.add_done_callback(self._ended)

    async def aclose(self) -> None:
        """Stop asking. What waits for an answer is dispatched by whoever comes next."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("a question to GitHub ended by an error", exc_info=task.exception())

    async def _answer(self, question: Question) -> None:
        try:
            if self.facts(question) is None:  # else the answer came between the look and the question
                facts, keep = await self._told(question)
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[_place(question)] = _Known(question.epoch, question.client, facts, self._clock.now() + keep)
        finally:
            waiting = self._asked.pop(question)
        if not waiting:
            return
        try:
            await self._writer.run(lambda connection: deliveries.due_now(connection, waiting, self._clock.now()))
        except StoreBusy as error:  # they come due by themselves
            log.warning("what waited for GitHub waits on: %s", error.message)
        self._answered()

    async def _told(self, question: Question) -> tuple[Facts, timedelta]:
        try:
            found = await question.client.permission(question.repository, question.login, question.installation)
        except ExternalError as error:
            self._observe("limited" if error.status == 429 else "failed")
            log.warning(
                "GitHub does not tell what a sender may do, so it counts as read: %s",
                error.message,
                extra={"connection": question.connection_id, "repository": question.repository},
            )
            keep = KEEP if error.status == _NOT_FOUND else KEEP_FAULT
            return _facts("read", f"GitHub does not tell what {question.login} may do: {error.message}"), keep
        self._observe(found.access)
        return _facts(found.access, f"GitHub says that {question.login} has {found.role} access"), KEEP


def _place(question: Question) -> tuple[int, str, str]:
    return question.connection_id, question.repository, question.login.lower()


def _facts(access: str, reason: str) -> Facts:
    return {"actor_access": access, "actor_access_reason": reason}
