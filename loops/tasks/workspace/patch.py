"""A patch of an agent's, applied where nothing of it can act: in an index alone, of a fresh repository without a tree.

No file of it ever stands on this machine's disk under its name, so hooks, filters, attributes and links have nothing to
act on. What is judged is the difference of the two trees, not what the patch says of itself.
"""

import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from loops.errors import BranchMoved, Fault, PatchRefused, RepositoryError
from loops.tasks.workspace.cache import Base
from loops.tasks.workspace.change import ABSENT, LINK, MODULE, Change, Rules, read_changes, too_much, violations
from loops.tasks.workspace.export import MOST_PATCH
from loops.tasks.workspace.git import FETCH_SECONDS, Access, Git
from loops.tasks.workspace.trees import removed
from loops.threads import off_loop, on_own_thread

_MEMORY = 2 << 30
_LARGEST_BINARY = 16 << 20
_NO_BLOB = frozenset({ABSENT, MODULE})
_LINK = re.compile(rb"(?:\A|(?<=\0))120000 blob ([0-9a-f]+)\t([^\0]+)")
_MOVED = ("stale info", "fetch first", "non-fast-forward")
_BINARY = re.compile(rb"^(?:literal|delta) (\d{1,20})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Author:
    """Who commits, and when: with the same of both, the same change is the same commit again."""

    name: str
    email: str
    at: datetime


class Patches:
    """Applies patches, each in a folder of its own below `folder`."""

    def __init__(self, folder: Path, git: Git) -> None:
        self._folder = folder
        self._git = replace(git, memory=_MEMORY)

    @asynccontextmanager
    async def applied(self, base: Base, patch: bytes, rules: Rules) -> AsyncIterator["Applied"]:
        """The patch on top of its base, for as long as it is used. Raises PatchRefused with every rule that it breaks,
        RepositoryError where git cannot be had to look."""
        _check_text(patch)
        place = Path(tempfile.mkdtemp(prefix="patch-", dir=self._folder))
        try:
            applied = Applied(self._git, place / "git", base)
            await applied.begin()
            await applied.apply(patch)
            await applied.check(rules)
            yield applied
        finally:
            await on_own_thread(lambda: removed(place))


class Applied:
    """A tree, and what may be made of it."""

    def __init__(self, git: Git, folder: Path, base: Base) -> None:
        self._git = git
        self._folder = folder
        self._base = base
        self._tree = ""
        self.changes: Sequence[Change] = ()

    async def begin(self) -> None:
        """A repository that has the objects of the base and nothing else."""
        await self._git.run("init", "-q", "--bare", "--template=", str(self._folder))
        information = self._folder / "objects" / "info"
        information.mkdir(exist_ok=True)
        (information / "alternates").write_text(f"{self._base.objects}\n", "utf-8")
        if (shallow := self._base.cache / "shallow").exists():
            shutil.copyfile(shallow, self._folder / "shallow")
        await self._run("read-tree", self._base.sha)

    async def apply(self, patch: bytes) -> None:
        """Into the index."""
        try:
            await self._run("apply", "--cached", "--binary", "--whitespace=nowarn", "-", stdin=patch, seconds=120.0)
        except RepositoryError as error:
            told = f"git does not take the patch: {error.message}"
            raise PatchRefused([Fault(".", told, "look at the patch", "path")]) from error
        self._tree = (await self._run("write-tree")).decode().strip()

    async def check(self, rules: Rules) -> None:
        """Raises PatchRefused."""
        raw = await self._run("diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", *self._between())
        changes = await self._sized(read_changes(raw))
        # Contents are read only of what is not too large: there may be much in a small patch.
        if refused := list(too_much(changes, rules)):
            raise PatchRefused(refused)
        new = await self._contents([change.blob for change in changes if change.after not in _NO_BLOB])
        old = await self._contents([change.old for change in changes if change.before not in _NO_BLOB])
        self.changes = [self._followed(change, new) for change in changes]
        added = {one.path: added_lines(old.get(one.old, b""), new.get(one.blob, b"")) for one in changes}
        links = await self._links()
        found = await off_loop(lambda: violations(self.changes, added, rules, links))
        if found:
            raise PatchRefused(found)

    async def commit(self, message: str, author: Author) -> str:
        """The commit's sha."""
        at = f"{int(author.at.timestamp())} +0000"
        who = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", author.name), ("EMAIL", author.email), ("DATE", at))
        }
        made = await self._run(
            "commit-tree", self._tree, "-p", self._base.sha, "-F", "-", stdin=message.encode(), environment=who
        )
        return made.decode().strip()

    async def push(self, sha: str, branch: str, access: Access, *, onto: bool = False) -> None:
        """A commit to a branch, which is never forced: again, it changes nothing. `onto` one that is there, and is what
        the commit was made on: raises BranchMoved where it is not that, or is gone."""
        ref = f"refs/heads/{branch}"
        # Without a lease a branch that was removed meanwhile would be there again. What has its parent there is no more
        # than a step forward, so nothing of anybody's is lost by it.
        lease = (f"--force-with-lease={ref}:{self._base.sha}",) if onto else ()
        arguments = ("push", "-q", "--no-verify", *lease, access.url, f"{sha}:{ref}")
        try:
            await self._run(*arguments, access=access, seconds=FETCH_SECONDS)
        except RepositoryError as error:
            if onto and any(word in error.message for word in _MOVED):
                told = f"the branch {branch} was moved or removed while this was worked on"
                raise BranchMoved(told, hint="say more in the thread: what follows begins with it as it is") from error
            raise

    async def _links(self) -> dict[str, str]:
        """The links of the base."""
        told = await self._run("ls-tree", "-r", "-z", self._base.sha)
        blobs = {name: blob.decode() for blob, name in _LINK.findall(told)}
        contents = await self._contents(sorted(set(blobs.values())))
        return {_text(name): _text(contents[blob]) for name, blob in blobs.items() if blob in contents}

    def _between(self) -> tuple[str, str]:
        return self._base.sha, self._tree

    async def _sized(self, changes: Sequence[Change]) -> list[Change]:
        blobs = [change.blob for change in changes if change.after not in _NO_BLOB]
        told = await self._run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(blobs).encode())
        sizes = dict(line.split() for line in told.decode().splitlines())
        return [replace(change, size=int(sizes.get(change.blob, 0))) for change in changes]

    def _followed(self, change: Change, contents: Mapping[str, bytes]) -> Change:
        if change.after != LINK:
            return change
        return replace(change, target=_text(contents[change.blob]))

    async def _contents(self, blobs: Sequence[str]) -> dict[str, bytes]:
        """What stands in these blobs, those left out that are too large to be compared with."""
        if not blobs:
            return {}
        told = await self._run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(blobs).encode())
        sized = [line.split() for line in told.decode().splitlines()]
        wanted = [name for name, size in sized if size.isdecimal() and int(size) <= _LARGEST_BINARY]
        read = await self._run("cat-file", "--batch", stdin="\n".join(wanted).encode())
        return dict(_batch(read))

    async def _run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        access: Access | None = None,
        environment: Mapping[str, str] | None = None,
        seconds: float = 60.0,
    ) -> bytes:
        given = {"GIT_DIR": str(self._folder), **(environment or {})}
        return await self._git.run(*arguments, access=access, environment=given, stdin=stdin, seconds=seconds)


def _check_text(patch: bytes) -> None:
    """Refuses what would take much to unpack, before anything is."""
    if len(patch) > MOST_PATCH:
        told = f"the patch has {len(patch)} bytes; {MOST_PATCH} are taken"
        raise PatchRefused([Fault(".", told, "ask for less at once", "size")])
    unpacked = sum(int(found) for found in _BINARY.findall(patch))
    if unpacked > _LARGEST_BINARY:
        told = f"its binary files come to {unpacked} bytes; {_LARGEST_BINARY} are taken"
        raise PatchRefused([Fault(".", told, "leave large files out", "size")])


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _batch(told: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of what `git cat-file --batch` said."""
    at = 0
    while at < len(told):
        end = told.index(b"\n", at)
        name, _kind, size = told[at:end].decode().split()
        at = end + 1 + int(size)
        yield name, told[end + 1 : at]
        at += 1


def added_lines(old: bytes, new: bytes) -> str:
    """The lines of a content that another has not, those of binary contents too."""
    known = set(old.split(b"\n"))
    lines = [line for line in new.split(b"\n") if line not in known]
    return b"\n".join(lines).decode("utf-8", "replace")
