"""Copies of repositories, one bare repository for each (connection, repository), fetched whenever a task begins.

Tasks read the objects of a copy while others fetch into it, so nothing is ever removed from one; a copy that nobody has
used for a month goes whole.
"""

import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loops.errors import RepositoryError
from loops.tasks.workspace.git import FETCH_SECONDS, Access, Git
from loops.tasks.workspace.locked import locked
from loops.tasks.workspace.trees import removed
from loops.threads import on_own_thread

log = logging.getLogger("loops.tasks.cache")

KEEP_SECONDS = 30 * 86_400.0
_BROKEN = ("bad object", "corrupt", "not a git repository", "loose object", "missing", "unresolved deltas")


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository as a connection reaches it. `id` is the host's number of it, which stays when it is renamed. Of a
    `large` one only the newest commit is fetched."""

    connection_id: int
    id: int
    full_name: str
    access: Access
    branch: str
    large: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """What a task begins with: the newest commit of the branch, and the copy that has its objects."""

    cache: Path
    branch: str
    sha: str

    @property
    def objects(self) -> Path:
        """The folder of the copy's objects."""
        return self.cache / "objects"


class Caches:
    """The copies in a folder. `group` may read them: those whom the commands of tasks run as."""

    def __init__(self, folder: Path, git: Git, group: int | None = None) -> None:
        self._folder = folder
        self._git = git
        self._group = group

    async def fresh(self, remote: Remote) -> Base:
        """The copy of a repository as it is now. Raises RepositoryError."""
        cache = self._folder / f"{remote.connection_id}-{remote.id}.git"
        async with self._held(cache):
            try:
                return await self._fetched(cache, remote)
            except RepositoryError as error:
                if not cache.exists() or not any(word in error.message for word in _BROKEN):
                    raise
            # What a crash of the machine left half written is fetched anew.
            await on_own_thread(lambda: removed(cache))
            return await self._fetched(cache, remote)

    async def head(self, remote: Remote, branch: str) -> str | None:
        """The newest commit of a branch as it is there now; None where there is no such branch. Raises
        RepositoryError."""
        ref, access = f"refs/heads/{branch}", remote.access
        told = await self._git.run("ls-remote", "--heads", access.url, ref, access=access, seconds=FETCH_SECONDS)
        # A pattern matches the ends of names too.
        found = [line.split("\t") for line in told.decode("utf-8", "replace").splitlines()]
        return next((one[0] for one in found if len(one) == 2 and one[1] == ref), None)

    @asynccontextmanager
    async def _held(self, cache: Path) -> AsyncIterator[None]:
        async with locked(cache.with_suffix(".lock"), 2 * FETCH_SECONDS):
            yield

    async def _fetched(self, cache: Path, remote: Remote) -> Base:
        if not await on_own_thread(cache.exists):
            await self._made(cache)
        await on_own_thread(lambda: _unlock(cache))
        ref = f"refs/heads/{remote.branch}"
        depth = ("--depth=1",) if remote.large else ()
        arguments = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", *depth, remote.access.url, f"+{ref}:{ref}")
        await self._git.run(*arguments, folder=cache, access=remote.access, seconds=FETCH_SECONDS)
        sha = await self._git.run("rev-parse", "--verify", f"{ref}^{{commit}}", folder=cache)
        return Base(cache, remote.branch, sha.decode().strip())

    async def _made(self, cache: Path) -> None:
        """Under its name once it is whole."""
        making = cache.with_suffix(".making")
        await on_own_thread(lambda: removed(making))
        making.mkdir(mode=0o750)
        if self._group is not None:
            os.chown(making, -1, self._group)
        # What git makes in there is the group's to read, and stays so.
        await self._git.run("init", "-q", "--bare", "--template=", "--shared=0640", str(making))
        making.rename(cache)

    async def sweep(self) -> None:
        """Remove copies that were not used for a month."""
        oldest = time.time() - KEEP_SECONDS
        for lock in self._folder.glob("*.lock"):
            try:
                if lock.stat().st_mtime < oldest:
                    await _dropped(lock)
            except OSError as error:  # another process sweeps the same folders
                log.warning("a copy is not swept: %s", error)


async def _dropped(lock: Path) -> None:
    """Remove the copy that a lock is of."""
    copy = lock.with_suffix(".git")
    with suppress(RepositoryError):  # somebody fetches into it just now
        async with locked(lock, 0.0):
            await on_own_thread(lambda: _removed(copy, lock))


def _removed(copy: Path, lock: Path) -> None:
    removed(copy)
    if not copy.exists():
        lock.unlink(missing_ok=True)


def _unlock(cache: Path) -> None:
    """Locks of a git that was killed. Nobody else fetches, since this process holds ours."""
    for place in (cache.glob("*.lock"), (cache / "refs").rglob("*.lock")):
        for left in place:
            left.unlink(missing_ok=True)
