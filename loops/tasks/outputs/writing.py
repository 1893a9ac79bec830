"""Writes what a task asked for, once its agent has ended: each output at most once, whatever dies on the way.

1. An output is `uncertain` from before its first request to after its last: a worker that finds one so looks outside,
   by branch or by marker, before it does anything.
2. A pull request can be asked for again and again: its commit is the same commit, its branch the same branch, and
   GitHub opens one for a branch. Adding labels is no different.
3. Right before each request the worker asks whether the output is still its own; one that lost it sends nothing more.
4. A comment or an issue whose request got no answer is looked for, and not sent again by the worker that sent it.
5. What breaks a rule, or what GitHub refuses, is `refused`, and says why.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar, cast

from loops.agent.interruption import Aborted, Interrupted
from loops.connections.github_desk import Desk
from loops.errors import BranchMoved, ExternalError, LoopsError, RepositoryError
from loops.own_output import Marks, OwnMark, Place
from loops.ports import Clock, Reader, Writer
from loops.store import outputs as store
from loops.store.github import keep_head
from loops.store.outputs import OutputRow, OutputStatus
from loops.store.patience import persist
from loops.tasks.equipment import Job
from loops.tasks.outputs.attempt import Unsettled, Writing, attempted
from loops.tasks.outputs.wording import branch_name, commit_message, marker_of, said, title_line, with_footer
from loops.tasks.workspace.cache import Base, Remote
from loops.tasks.workspace.change import Rules
from loops.tasks.workspace.patch import Author, Patches

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger("loops.outputs")

T = TypeVar("T")

CANCELLED = "the task was cancelled"
MASKED = "masked"
"""Said beside the base of a stored patch: secrets were blotted out of it, so that it is not the change any more."""
_STAGED_HERE = "staged: it passed the checks, and this service writes nothing (LOOPS_STAGED is yes)"
_STAGED = "staged: it passed the checks, and waits for a person who has it sent"
ONTO = "onto"
"""Said beside the base of a stored patch: the branch of the task that it goes onto, empty for a new one."""
_BEGUN = "writing began, and nobody knows yet what came of it"
_CUT_SHORT = "the task was cancelled while it was being written"
_TOO_LONG = "it took too long, and nobody knows what came of it"
_LONGEST = 900.0
_REPEATABLE = frozenset({"pull_request", "labels"})
_MOST_ATTEMPTS = 10
_LONGEST_REASON = 2_000


@dataclass(frozen=True, slots=True)
class WritingRules:
    """How outputs are written. `staged` writes none of them, `link` is the page of a run, `pauses` are the seconds
    between tries, and after `settle` what a dead worker had sent has come to what it comes to."""

    rules: Rules = field(default_factory=Rules)
    staged: bool = False
    link: Callable[[str], str] = lambda _run_id: ""
    pauses: tuple[float, ...] = (1.0, 3.0, 9.0)
    settle: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the outputs of a task go, and what its change is one of. `patch` is the change as it was read; None for a
    worker that has what is stored alone."""

    desk: Desk
    remote: Remote
    base: Base
    patch: bytes | None = None

    @property
    def login(self) -> str:
        """The name that all is written under."""
        return self.desk.at.login


class OutputWriter:
    """Writes the outputs of tasks."""

    def __init__(
        self, writer: Writer, reader: Reader, clock: Clock, marks: Marks, patches: Patches, how: WritingRules
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._marks = marks
        self._patches = patches
        self._how = how

    async def rows(self, task_id: str) -> list[OutputRow]:
        """What a task asked for."""
        return await self._reader.read(lambda connection: store.of_task(connection, task_id))

    async def write(self, job: Job, to: Destination) -> list[OutputRow]:
        """Deal with every output of the turn that is not dealt with; how all of these stand then. Raises RunFenced."""
        for row in await self._of_turn(job):
            if row.status == "proposed" or (row.status == "uncertain" and row.attempts < self._tries(row)):
                await self._deal(job, to, row)
        return await self._of_turn(job)

    async def _of_turn(self, job: Job) -> list[OutputRow]:
        return [row for row in await self.rows(job.task.id) if row.turn == job.task.turn]

    async def send(self, job: Job, to: Destination, row: OutputRow) -> None:
        """Deal with an output whose turn is over, which a person wants sent and `job.owner` has a lease on. One that
        was uncertain is looked for first. Raises RunFenced."""
        asked = row.answers[-1]
        if self._how.staged:
            await self.not_sent(job, row, RepositoryError("this service writes nothing: LOOPS_STAGED is yes"))
            return
        if row.status == "uncertain" and row.attempts - int(asked["attempts"]) >= self._tries(row):
            await self._move(job, row, "uncertain", row.reason)
            return
        absent = row.status == "waiting" and asked["was"] != "uncertain"
        await self._attempt(job, to, row, absent=absent, staged=False)

    async def not_sent(self, job: Job, row: OutputRow, error: LoopsError) -> None:
        """It could not even be begun: it stands as it did, with why. Raises RunFenced."""
        stood = cast("OutputStatus", row.answers[-1]["was"] if row.status == "waiting" else row.status)
        await self._move(job, row, stood, _told(error))

    async def refuse(self, job: Job, reason: str) -> list[OutputRow]:
        """Nothing more of a task is written, and why; how all outputs stand then."""
        now, task_id = self._clock.now(), job.task.id
        await self._stored(lambda connection: store.refuse_open(connection, task_id, reason, now))
        return await self.rows(task_id)

    async def _deal(self, job: Job, to: Destination, row: OutputRow) -> None:
        if job.abort.asked and row.status == "proposed":
            await self._move(job, row, "refused", CANCELLED)
            return
        await self._attempt(job, to, row, absent=row.status == "proposed", staged=self._stages(job))

    def _stages(self, job: Job) -> bool:
        """Whether a person has the last word: where the service or the loop says so."""
        return self._how.staged or job.request.get("staged") is True

    async def _attempt(self, job: Job, to: Destination, row: OutputRow, *, absent: bool, staged: bool) -> None:
        """`absent`: it is known that it is not there."""
        try:
            async with self._prepared(job, to, row) as writing:
                if staged:
                    await self._move(job, row, "staged", _STAGED_HERE if self._how.staged else _STAGED)
                    return
                address = None if absent else await self._found(row, writing)
                absent = address is None
                if address is None:
                    await self._move(job, row, "uncertain", _BEGUN, begins=True)
                    tried = attempted(writing, self._how.pauses, lambda: self._still(job, row))
                    address = await job.abort.within(tried, _LONGEST)
            await self._move(job, row, "written", url=address)
        except Interrupted as error:
            await self._move(job, row, "uncertain", _CUT_SHORT if isinstance(error, Aborted) else _TOO_LONG)
        except Unsettled as unsettled:
            await self._move(job, row, "uncertain", str(unsettled))
        except (ExternalError, RepositoryError) as error:
            await self._move(job, row, "refused" if absent else "uncertain", _told(error))

    @staticmethod
    def _tries(row: OutputRow) -> int:
        return _MOST_ATTEMPTS if row.kind in _REPEATABLE else 2

    async def _found(self, row: OutputRow, writing: Writing) -> str | None:
        """Where it stands, if a worker that died had written it."""
        left = row.updated_at + self._how.settle - self._clock.now()
        await asyncio.sleep(max(0.0, left.total_seconds()))
        return await writing.find()

    @asynccontextmanager
    async def _prepared(self, job: Job, to: Destination, row: OutputRow) -> AsyncIterator[Writing]:
        """What is to be written, checked. Raises PatchRefused, RepositoryError or ExternalError."""
        desk, home = to.desk, to.desk.at.home
        text = said(str(row.body.get("body") or ""), home)
        since = row.created_at - timedelta(minutes=5)
        marker, title = marker_of(row.task_id, row.number), title_line(str(row.body.get("title") or ""), home=home)
        subject = int(row.body.get("subject") or 0)
        match row.kind:
            case "pull_request":
                async with self._pull_request(job, to, row, title) as writing:
                    yield writing
            case "comment":
                whole = self._signed(job, to, row, text, "Written", subject)
                yield Writing(lambda: desk.comment(subject, whole), lambda: desk.found_comment(subject, marker, since))
            case "issue":
                whole = self._signed(job, to, row, text, "Opened", None)
                yield Writing(lambda: desk.open_issue(title, whole), lambda: desk.found_issue(marker, since))
            case _:
                labels = await _known_labels(desk, [str(one) for one in row.body.get("labels") or ()])
                yield Writing(lambda: desk.label(subject, labels), _nowhere, repeatable=True)

    @asynccontextmanager
    async def _pull_request(self, job: Job, to: Destination, row: OutputRow, title: str) -> AsyncIterator[Writing]:
        patch = _whole(row, to)
        body = str(row.body.get("body") or "")
        onto, message = str((row.base or {}).get(ONTO) or ""), str(row.body.get("message") or "").strip()
        branch = onto or branch_name(title, job.place)
        subject, _, rest = message.partition("\n") if message else (title, "", body)
        home = to.desk.at.home
        text = said(body, home, becomes_commit=True)
        whole = self._signed(job, to, row, text, "Opened as a draft, to be reviewed by a person,", None)
        async with self._patches.applied(to.base, patch, self._how.rules) as applied:
            email = f"{to.login}@users.noreply.github.com"
            sha = await applied.commit(commit_message(subject, rest, home), Author(to.login, email, row.created_at))

            async def write() -> str:
                there = await _open_pull(to.desk, onto) if onto else None
                await self._about_to_push(job, to, row, (branch, sha))
                await applied.push(sha, branch, to.remote.access, onto=bool(onto))
                await self._still(job, row)
                return there or await to.desk.open_pull_request(branch, title, whole)

            async def find() -> str | None:
                return await (_pushed_onto(to.desk, onto, sha) if onto else to.desk.pull_request(branch))

            yield Writing(write, find, repeatable=True)

    async def _still(self, job: Job, row: OutputRow) -> None:
        """Right before a request that follows another. Raises RunFenced where it is this worker's no more."""
        now, this = self._clock.now(), (row.task_id, row.number)
        await self._stored(lambda connection: store.writing_again(connection, this, job.owner, now))

    async def _about_to_push(self, job: Job, to: Destination, row: OutputRow, pushed: tuple[str, str]) -> None:
        """Before it: its webhook is known as own output, and later turns know where to look."""
        now, this = self._clock.now(), (row.task_id, row.number)

        def keep(connection: "Connection") -> None:
            store.keep_head(connection, this, job.owner, *pushed, now)
            keep_head(connection, to.remote.id, pushed[1], _mark(job), now)

        await self._stored(keep)

    def _signed(self, job: Job, to: Destination, row: OutputRow, text: str, what: str, number: int | None) -> str:
        """The text with where it comes from, and the mark by which its webhook is known as own output."""
        mark = self._marks.make(_mark(job), Place(to.remote.id, number, to.login))
        link = self._how.link(job.task.run_id)
        return with_footer(text, link, marker_of(row.task_id, row.number), mark, what)

    async def _move(
        self, job: Job, row: OutputRow, status: OutputStatus, reason: str = "", url: str = "", *, begins: bool = False
    ) -> None:
        now, this, told = self._clock.now(), (row.task_id, row.number), reason[:_LONGEST_REASON]

        def move(connection: "Connection") -> None:
            store.move(connection, this, job.owner, status, now, reason=told, url=url, begins=begins)

        await self._stored(move)
        log.info("output of a task", extra={"task_id": row.task_id, "kind": row.kind, "status": status, "reason": told})

    async def _stored(self, fn: Callable[["Connection"], T]) -> T:
        return await persist(self._writer, fn)


def _whole(row: OutputRow, to: Destination) -> bytes:
    """The change as it is; never the text in which secrets are blotted out."""
    if not row.patch:
        raise RepositoryError("nothing was changed in the checkout", hint="see what the agent did in its rounds")
    if to.patch is None and (row.base or {}).get(MASKED):
        told = "the change touches a secret of this service, which is not stored, and the worker that read it died"
        raise RepositoryError(told, hint="run the loop again")
    return to.patch or row.patch


def _told(error: LoopsError) -> str:
    hint = f" ({error.hint})" if error.hint else ""
    return f"{error.message}{hint}"


def _mark(job: Job) -> OwnMark:
    # Own output starts no run, so none is further than one from where it all began.
    return OwnMark(job.task.run_id, 1)


async def _open_pull(desk: Desk, branch: str) -> str | None:
    """The pull request from a branch that one more commit may go to; None where there is none. Raises BranchMoved."""
    pull = await desk.pull_of(branch)
    if pull is None:
        return None
    if pull.state != "open":
        hint = "say more in the thread: what follows begins anew"
        raise BranchMoved(f"{pull.url} was {pull.state} while this was worked on", hint=hint)
    if pull.by_itself:
        hint = "switch auto-merge off there, or make the change in a new task"
        raise BranchMoved(f"{pull.url} is set to be merged by itself, and nobody would have seen the change", hint=hint)
    return pull.url


async def _pushed_onto(desk: Desk, branch: str, sha: str) -> str | None:
    """The pull request, where a commit was pushed to its branch."""
    pull = await desk.pull_of(branch)
    if pull is None or not (pull.head == sha or await desk.holds(branch, sha)):
        return None
    return pull.url


async def _nowhere() -> None:
    return None


async def _known_labels(desk: Desk, labels: list[str]) -> list[str]:
    """The labels, all of which the repository has: GitHub would make up those that it has not."""
    known = await desk.label_names()
    if unknown := [one for one in labels if one.lower() not in known]:
        raise RepositoryError(f"{', '.join(map(repr, unknown))}: {desk.at.full_name} has no such label")
    return labels
