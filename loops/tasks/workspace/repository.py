"""A repository as equipment of a task: a checkout in a sandbox, and afterwards what the agent asked to have written.

The agent has no token and no network. Its change is read out of the sandbox as text once it has ended, kept with the
task before anything is judged, and written by the service. A worker that takes up a task goes on in the checkout that
is there; one whose change is kept already needs none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from loops.agent.interruption import Aborted, Expired
from loops.agent.proposals import ProposalKind
from loops.agent.tools import Resources
from loops.connections.github_desk import Desk
from loops.connections.github_reach import Reached, RepositoryReach
from loops.errors import RepositoryError, RunFenced, StoreBusy
from loops.packed import unpack
from loops.ports import Clock, Writer
from loops.store import outputs as store
from loops.store.outputs import OutputRow
from loops.store.patience import persist
from loops.tasks.equipment import Came, Job, Kit
from loops.tasks.outputs.stored import StoredProposals, subject_number
from loops.tasks.outputs.wording import from_report
from loops.tasks.outputs.writing import CANCELLED, MASKED, ONTO, Destination, OutputWriter
from loops.tasks.runners.verdict import unmasked
from loops.tasks.workspace.cache import Caches, Remote
from loops.tasks.workspace.checkout import OBJECTS, Checkout, Checkouts
from loops.tasks.workspace.export import MOST_PATCH, exported
from loops.tasks.workspace.files import Files
from loops.tasks.workspace.git import Access
from loops.tasks.workspace.going_on import Pushed, Start, first_start, kept_base, later_start
from loops.tasks.workspace.reading import CheckoutFiles
from loops.tasks.workspace.sandbox import Room, Sandboxes, SandboxLimits
from loops.tasks.workspace.workspace import Workspace
from loops.threads import off_loop

if TYPE_CHECKING:
    from sqlalchemy import Connection

_LONGEST_CLONE = 1800.0
_NOT = frozenset({"refused", "uncertain", "proposed"})
_ENDED_BEFORE = "the task ended before it was written"
_NOTHING_TO_DO = "the agent found nothing to do"
_GONE = "the checkout that this task worked in is gone: its worker died, and another machine took the task up"


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Yard:
    """Where repositories and checkouts lie, and what commands run in. A repository of over `large` kilobytes is fetched
    without its history."""

    caches: Caches
    checkouts: Checkouts
    sandboxes: Sandboxes
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    large: int = 200_000


@dataclass(frozen=True, slots=True)
class Tooling:
    """What the tools of an agent are given: `most` is how many outputs of each kind a task may ask for, `mask` blots
    out secrets, `mask_values` those alone that are known by their value."""

    most: Mapping[ProposalKind, int] = field(
        default_factory=lambda: {"pull_request": 1, "comment": 1, "labels": 1, "issue": 1}
    )
    mask: Callable[[str], str] = _as_it_is
    mask_values: Callable[[str], str] = _as_it_is


class RepositoryWork:
    """Equipment of the tasks that name a repository."""

    def __init__(
        self, reach: RepositoryReach, yard: Yard, outputs: OutputWriter, tooling: Tooling, writer: Writer, clock: Clock
    ) -> None:
        self.reach = reach
        self.yard = yard
        self.outputs = outputs
        self.tooling = tooling
        self.writer = writer
        self.clock = clock

    @asynccontextmanager
    async def open(self, job: Job) -> AsyncIterator[Kit | None]:
        """See Equipment. Raises RepositoryError, ExternalError or SandboxError."""
        if not job.request.get("repository"):
            yield None
            return
        is_over = True
        try:
            work = _Work(self, job)
            try:
                await job.abort.within(work.begin(), _LONGEST_CLONE)
            except Aborted:
                yield Kit()  # the runner finds the cancel by itself
                return
            except Expired as error:
                raise RepositoryError(f"the repository was not there after {_LONGEST_CLONE:g} s") from error
            # Opened in this task of asyncio's, which closes it too.
            async with AsyncExitStack() as inner:
                yield await work.opened(inner)
        except (RunFenced, StoreBusy, asyncio.CancelledError):
            is_over = False  # somebody takes the task up, maybe here
            raise
        finally:
            if is_over:
                await self.outputs.refuse(job, CANCELLED if job.abort.asked else _ENDED_BEFORE)
                await self.yard.checkouts.give_back(job.place)


class _Work:
    """What is opened for one task. Its sandbox is closed before its change is read."""

    def __init__(self, whole: RepositoryWork, job: Job) -> None:
        self._whole = whole
        self._job = job
        self._event: Mapping[str, Any] | None = unpack(job.task.event)
        self._checkout: Checkout | None = None
        self._onto = ""
        self._told = ""
        self._sandbox: AsyncExitStack | None = None
        self._raw: bytes | None = None
        self._to: Destination

    async def begin(self) -> None:
        """Find the repository, and the checkout, where one is needed still."""
        job, yard, place = self._job, self._whole.yard, self._job.place
        prefer = ((self._event or {}).get("properties") or {}).get("integration_id")
        name = str(job.request["repository"])
        at = await self._whole.reach.find(job.task.project_id, name, prefer if isinstance(prefer, int) else None)
        remote = await self._remote(at)
        rows = await self._whole.outputs.rows(job.task.id)
        pushed = Pushed([row for row in rows if row.turn < job.task.turn])
        kept = next((row.base for row in self._own(rows) if row.patch is not None and row.base is not None), None)
        if kept is not None:
            base = await kept_base(yard.caches, remote, str(kept.get("branch") or remote.branch), str(kept["sha"]))
            self._to = Destination(Desk(at), remote, base)
            return
        self._checkout = self._found(pushed)
        if self._checkout is not None:
            self._to = Destination(Desk(at), remote, self._checkout.base)
            return
        is_over = yard.checkouts.is_over(place)
        if job.has_begun and not is_over:
            raise RepositoryError(_GONE, hint="run the loop again")
        start = await self._start(remote, Desk(at), pushed)
        if not is_over:
            self._checkout = await yard.checkouts.make(place, start.base)
        self._onto, self._told = start.onto, start.told
        self._to = Destination(Desk(at), remote, start.base)

    def _own(self, rows: list[OutputRow]) -> list[OutputRow]:
        return [row for row in rows if row.turn == self._job.task.turn]

    def _found(self, pushed: Pushed) -> Checkout | None:
        """The checkout that a killed worker left. A later turn without a round begins again: with the branch as it is,
        and what its agent is told of that."""
        job = self._job
        if job.task.turn > 1 and not job.has_begun:
            return None
        found = self._whole.yard.checkouts.found(job.place)
        if found is not None and found.base.branch in pushed.branches:
            self._onto = found.base.branch
        return found

    async def _start(self, remote: Remote, desk: Desk, pushed: Pushed) -> Start:
        caches = self._whole.yard.caches
        if self._job.task.turn == 1:
            return await first_start(caches, remote)
        return await later_start(caches, remote, desk, pushed)

    async def opened(self, inner: AsyncExitStack) -> Kit:
        """What the task is given."""
        whole, checkout, at = self._whole, self._checkout, self._to.desk.at
        subject = subject_number(self._event, at.full_name)
        most, mask = whole.tooling.most, whole.tooling.mask
        proposals = StoredProposals(whole.writer, whole.clock, self._job, at.full_name, subject, most, mask)
        if checkout is None:
            return Kit(lambda given: replace(given, proposals=proposals), self.settle)
        sandbox = await inner.enter_async_context(whole.yard.sandboxes.open(self._room(checkout)))
        self._sandbox = inner
        workspace = Workspace(sandbox, checkout.folder)
        files = CheckoutFiles(Files(checkout.folder))
        told = self._told

        def into(given: Resources) -> Resources:
            return replace(given, proposals=proposals, workspace=workspace, checkout=files, begins=told)

        return Kit(into, self.settle)

    async def _remote(self, at: Reached) -> Remote:
        token = await at.client.git_token(at.full_name)
        large = at.kilobytes > self._whole.yard.large
        return Remote(at.connection_id, at.id, at.full_name, Access(at.clone_url, token), at.branch, large)

    def _room(self, checkout: Checkout, limits: SandboxLimits | None = None) -> Room:
        yard = self._whole.yard
        readable = {OBJECTS: checkout.base.objects} if yard.sandboxes.tier != "none" else {}
        return Room(checkout.folder, readable, limits=limits or yard.limits)

    async def settle(self, came: Came) -> Came:
        """See Kit."""
        outputs, ending = self._whole.outputs, came.result.ending
        if self._sandbox is not None:
            await self._sandbox.aclose()
        if ending == "noop":
            return _told(came, self._own(await outputs.refuse(self._job, _NOTHING_TO_DO)))
        try:
            changed = await self._keep(came)
        except RepositoryError as error:
            await outputs.refuse(self._job, error.message)
            return _not_taken(came, [error.message])
        came = replace(came, result=unmasked(came.result, changed=changed))
        if came.result.ending != "done":
            reason = f"the task did not end by itself: {came.result.reason}"
            return _told(came, self._own(await outputs.refuse(self._job, reason)))
        # The token of an installation is good for an hour, which the agent may have taken.
        remote = await self._remote(self._to.desk.at)
        rows = await outputs.write(self._job, replace(self._to, remote=remote, patch=self._raw))
        if self._job.abort.asked and not any(row.status == "written" for row in rows):
            return replace(came, result=replace(came.result, ending="cancelled", reason="cancelled on request"))
        came = _told(came, rows)
        unwritten = [f"{row.kind.replace('_', ' ')} {row.status}: {row.reason}" for row in rows if row.status in _NOT]
        return _not_taken(came, unwritten) if unwritten else came

    async def _keep(self, came: Came) -> bool:
        """Store the change, without the secrets of this service, with the pull request that is to hold it, made of the
        report where none was asked for. False where nothing is changed. What is judged and pushed is the change as it
        is, which this worker alone has."""
        checkout, job, whole = self._checkout, self._job, self._whole
        if checkout is None:  # kept by the worker before this one
            return True
        patch = await self._patch(checkout)
        if not patch:
            return False
        mask, now, task = whole.tooling.mask, whole.clock.now(), (job.task.id, job.owner)
        self._raw = patch
        shown = await off_loop(lambda: _masked(patch, whole.tooling.mask_values))
        title = str(job.request.get("title") or "") or came.result.message.strip().partition("\n")[0]
        report = from_report(came.result.message, title, mask)
        base = {"sha": checkout.base.sha, "branch": checkout.base.branch, ONTO: self._onto, MASKED: shown != patch}
        rows = self._own(await whole.outputs.rows(job.task.id))
        asked = next((row.number for row in rows if row.kind == "pull_request"), None)
        repository = self._to.desk.at.full_name

        def store_it(connection: "Connection") -> None:
            number = asked or store.add(
                connection, *task, f"{job.place}:end", "pull_request", repository, report, 1, now, job.task.turn
            )
            if number is not None:
                store.keep_patch(connection, (job.task.id, number), job.owner, shown, base, now)

        await persist(whole.writer, store_it)
        return True

    async def _patch(self, checkout: Checkout) -> bytes:
        """What the agent changed, read in a sandbox where nothing of its own runs any more."""
        yard = self._whole.yard
        limits = replace(yard.limits, output=MOST_PATCH + 1, file=max(yard.limits.file, MOST_PATCH + 1))
        async with yard.sandboxes.open(self._room(checkout, limits)) as sandbox:
            return await exported(sandbox, checkout.base.sha, yard.checkouts.objects_of(checkout.base))


def _masked(patch: bytes, mask: Callable[[str], str]) -> bytes:
    """The patch as it may be shown."""
    text = patch.decode("utf-8", "surrogateescape")
    shown = mask(text)
    return patch if shown == text else shown.encode("utf-8", "surrogateescape")


def _told(came: Came, rows: list[OutputRow]) -> Came:
    """With the pull requests that are there, and that nothing was written where all is staged."""
    urls = [row.url for row in rows if row.kind == "pull_request" and row.status == "written"]
    staged = "; staged: nothing was written" if any(row.status == "staged" for row in rows) else ""
    return Came(replace(came.result, reason=f"{came.result.reason}{staged}"), (*came.pr_urls, *urls))


def _not_taken(came: Came, reasons: list[str]) -> Came:
    """What was not written as it was asked for is no success."""
    return replace(came, result=replace(came.result, ending="refused", reason="; ".join(reasons[:3])))
