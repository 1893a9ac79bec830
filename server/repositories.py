"""The parts that work on repositories, put together for a process that works on tasks."""

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from config.settings import Settings
from loops.agent.proposals import ProposalKind
from loops.connections.github_reach import RepositoryReach
from loops.errors import ConfigError, Fault, StoreBusy
from loops.own_output import Marks
from loops.ports import Clock, Reader, Writer
from loops.store import outputs as store
from loops.tasks.equipment import Equipment
from loops.tasks.outputs.sending import OutputSender, Stores
from loops.tasks.outputs.writing import OutputWriter, WritingRules
from loops.tasks.workspace.cache import Caches
from loops.tasks.workspace.change import Rules
from loops.tasks.workspace.checkout import OBJECTS, Checkouts
from loops.tasks.workspace.git import Git
from loops.tasks.workspace.leftovers import left_in, swept, tasks_of
from loops.tasks.workspace.patch import Patches
from loops.tasks.workspace.repository import RepositoryWork, Tooling, Yard
from loops.tasks.workspace.sandbox import Sandboxes
from server.github import GitHubParts
from server.runners import RUNNERS

log = logging.getLogger("loops.repositories")

_SWEEP_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Outlet:
    """What outputs are written with: marks of own output, the page of a run, what blots out secrets (in a change, those
    alone that are known by their value), and `how`."""

    marks: Marks
    link: Callable[[str], str]
    mask: Callable[[str], str]
    mask_values: Callable[[str], str]
    how: WritingRules


class RepositoryParts:
    """Equipment for tasks that name a repository, and what cleans up after them."""

    def __init__(
        self,
        settings: Settings,
        reach: RepositoryReach,
        stores: tuple[Writer, Reader, Clock],
        outlet: Outlet,
        sandboxes: Sandboxes,
    ) -> None:
        self._reader = stores[1]
        folders = _folders(settings.work_dir)
        self._runners = settings.work_dir / RUNNERS
        git = Git(folders["home"], os.environ)
        walled = sandboxes.tier != "none"
        self._caches = Caches(folders["cache"], git, _group(sandboxes, folders["home"]))
        self._checkouts = Checkouts(folders["tasks"], git, OBJECTS if walled else None, sandboxes.own)
        rules = Rules(protected=settings.protected_files, known=lambda text: outlet.mask_values(text) != text)
        how = replace(outlet.how, rules=rules, staged=settings.staged == "yes", link=outlet.link)
        writer = OutputWriter(*stores, outlet.marks, Patches(folders["patches"], git), how)
        most: dict[ProposalKind, int] = {
            "pull_request": 1,
            "comment": settings.task_comments,
            "labels": 1,
            "issue": settings.task_issues,
        }
        yard = Yard(self._caches, self._checkouts, sandboxes, large=settings.whole_clone_mb * 1024)
        tooling = Tooling(most, outlet.mask, outlet.mask_values)
        sending = Stores(*stores)
        self.sender = OutputSender(sending, reach, self._caches, writer, settings.whole_clone_mb * 1024)
        self.equipment: Sequence[Equipment] = (RepositoryWork(reach, yard, writer, tooling, stores[0], stores[2]),)

    async def forever(self) -> None:
        """Remove what tasks left that are over: at the start what was left when a process died, then every hour."""
        while True:
            try:
                await self.sweep()
            except (StoreBusy, OSError) as error:  # another process may sweep the same folders
                log.warning("left checkouts are not swept now: %s", error)
            await asyncio.sleep(_SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Once. Raises StoreBusy."""
        checkouts, runners = self._checkouts.left(), left_in(self._runners)
        left = tasks_of([*checkouts, *runners])
        under_way, known = await self._reader.read(lambda connection: store.open_tasks(connection, left))
        await self._checkouts.sweep(checkouts, under_way, known)
        await swept(self._runners, runners, under_way, known)
        await self._caches.sweep()


def repository_parts(
    settings: Settings,
    github: GitHubParts,
    stores: tuple[Writer, Reader, Clock],
    outlet: Outlet,
    sandboxes: Sandboxes | None,
) -> RepositoryParts | None:
    """The parts; None where nothing is there to run commands in."""
    if sandboxes is None:
        return None
    return RepositoryParts(settings, github.reach(stores[1]), stores, outlet, sandboxes)


def _group(sandboxes: Sandboxes, folder: Path) -> int | None:
    """The group of the user whom commands run as; None where that is the service's own user."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        sandboxes.own(Path(file.name))
        found = os.fstat(file.fileno())
    return None if found.st_uid == os.geteuid() else found.st_gid


def _folders(work_dir: Path) -> dict[str, Path]:
    """The folders below the work folder. Others may pass through where a checkout is theirs, and list nothing. Raises
    ConfigError."""
    modes = {"home": 0o700, "cache": 0o711, "tasks": 0o711, "patches": 0o700}
    try:
        work_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
        for name, mode in modes.items():
            (work_dir / name).mkdir(exist_ok=True)
            (work_dir / name).chmod(mode)
    except OSError as error:
        told, mend = f"{work_dir} cannot be written: {error.strerror}", "name a folder that the service may make"
        raise ConfigError([Fault("LOOPS_WORK_DIR", told, mend)]) from error
    return {name: work_dir / name for name in modes}
