"""Sends the outputs that people asked for, in a process that works on repositories.

Whoever asks stores that alone; one process takes it, by a lease, and writes it as the worker of a task does. One that
dies leaves its lease to lapse, and the next looks first. A change that goes onto a branch which was moved, merged or
removed since is applied to what is there now, and judged again as a whole.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from loops.agent.interruption import Abort
from loops.connections.github_desk import Desk
from loops.connections.github_reach import RepositoryReach
from loops.errors import ExternalError, RepositoryError, RunFenced, StoreBusy
from loops.ports import Clock, Reader, Writer
from loops.store import output_answers as store
from loops.store import outputs as output_store
from loops.store.ids import new_id
from loops.store.outputs import OutputRow
from loops.store.patience import persist
from loops.store.tasks import ClaimedTask
from loops.tasks.equipment import Job
from loops.tasks.outputs.answers import was
from loops.tasks.outputs.writing import MASKED, ONTO, Destination, OutputWriter
from loops.tasks.workspace.cache import Base, Caches, Remote
from loops.tasks.workspace.git import Access
from loops.tasks.workspace.going_on import Pushed, kept_base, later_start

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger("loops.outputs")

LOOK_SECONDS = 1.0
_NO_BASE = Base(Path("/nowhere"), "", "")


@dataclass(frozen=True, slots=True)
class Stores:
    """Where outputs are kept."""

    writer: Writer
    reader: Reader
    clock: Clock


class OutputSender:
    """Sends what people asked for, one output at a time. Of a repository of over `large` kilobytes only the newest
    commit is fetched."""

    def __init__(
        self, stores: Stores, reach: RepositoryReach, caches: Caches, outputs: OutputWriter, large: int
    ) -> None:
        self._stores = stores
        self._reach = reach
        self._caches = caches
        self._outputs = outputs
        self._large = large

    async def forever(self) -> None:
        """Look each second."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.once()
            except RunFenced as error:
                log.warning("%s", error.message)
            except StoreBusy as error:
                log.warning("what people want sent is not looked for now: %s", error.message)

    async def once(self) -> None:
        """All that is due. Raises StoreBusy or RunFenced."""
        for this in await self._stores.reader.read(store.due):
            sender = new_id()
            place = (this, sender)
            taken = await persist(self._stores.writer, lambda connection, place=place: store.take(connection, *place))  # type: ignore[misc]
            if taken is not None:
                async with self._alive(this, sender):
                    await self._send(*taken, sender)

    @asynccontextmanager
    async def _alive(self, this: tuple[str, int], sender: str) -> AsyncIterator[None]:
        """The lease is held meanwhile. Once it is lost the next request is not sent; see outputs.keep_lease."""
        beating = asyncio.create_task(self._beat(this, sender))
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, this: tuple[str, int], sender: str) -> None:
        while True:
            await asyncio.sleep(output_store.LEASE.total_seconds() / 3)
            await self._stored(lambda connection: store.renew(connection, this, sender))

    async def _send(self, task: ClaimedTask, row: OutputRow, sender: str) -> None:
        job = Job(task, sender, Abort())
        try:
            at = await self._reach.find(task.project_id, row.repository)
            token = await at.client.git_token(at.full_name)
            access = Access(at.clone_url, token)
            remote = Remote(at.connection_id, at.id, at.full_name, access, at.branch, at.kilobytes > self._large)
            desk = Desk(at)
            row = await self._on_top(job, row, desk, remote)
            base = await self._base(row, remote)
        except (ExternalError, RepositoryError) as error:
            await self._outputs.not_sent(job, row, error)
            return
        await self._outputs.send(job, Destination(desk, remote, base), row)

    async def _base(self, row: OutputRow, remote: Remote) -> Base:
        if row.kind != "pull_request" or row.base is None:
            return _NO_BASE
        branch = str(row.base.get("branch") or remote.branch)
        return await kept_base(self._caches, remote, branch, str(row.base["sha"]))

    async def _on_top(self, job: Job, row: OutputRow, desk: Desk, remote: Remote) -> OutputRow:
        """The output, its change on top of what is there now where it was to go onto a branch and surely did not."""
        if not (row.base or {}).get(ONTO) or row.status != "waiting" or was(row) == "uncertain":
            return row
        rows = await self._stores.reader.read(lambda connection: output_store.of_task(connection, row.task_id))
        pushed = Pushed([one for one in rows if one.turn < row.turn])
        start = await later_start(self._caches, remote, desk, pushed)
        base = {"sha": start.base.sha, "branch": start.base.branch, ONTO: start.onto, MASKED: False}
        this = (row.task_id, row.number)
        await self._stored(lambda connection: store.rebase(connection, this, job.owner, base))
        return replace(row, base=base)

    async def _stored(self, fn: "Callable[[Connection], None]") -> None:
        await persist(self._stores.writer, fn)
