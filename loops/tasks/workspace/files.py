"""The files of a checkout, read and written by the service itself although an agent has made them.

No symbolic link is followed at any step, and only plain files are opened: what an agent puts in the way of a path leads
nowhere. A path is walked folder by folder from the checkout, each opened by its name in the one before.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from loops.tasks.workspace.sandbox import HOME

EntryKind = Literal["file", "folder", "link", "other"]
MOST_FILE = 8 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe that an agent has made would never return.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_GIT = ".git"
_DEEPEST = 100
_LONGEST = 3_000
"""Parts and characters of a path: more than git and the tools of a repository can deal with are not taken."""
MOST_SEEN = 20_000
"""Names that one listing looks at."""
Refusal = Literal["BAD_PATH", "NOT_FOUND", "IS_LINK", "NOT_A_FILE", "NOT_A_FOLDER", "TOO_LARGE", "CANNOT"]


class FileFault(Exception):
    """A path leads to nothing that may be opened; `reason` is stable."""

    def __init__(self, reason: Refusal, words: str) -> None:
        super().__init__(words)
        self.reason = reason
        self.words = words


@dataclass(slots=True)
class _Seen:
    """How many names a listing has looked at."""

    names: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder; `size` is in bytes, of a file."""

    path: str
    kind: EntryKind
    size: int | None = None


class Files:
    """The files of one checkout, by their paths from its top. All of it blocks: call it on a thread."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def read(self, path: str) -> bytes:
        """The content of a file. Raises FileFault."""
        folders, name = _split(path)
        with self._folder(folders) as folder, _told(path):
            descriptor = os.open(name, _READ, dir_fd=folder)
            try:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise FileFault("NOT_A_FILE", f"{path} is no plain file")
                if found.st_size > MOST_FILE:
                    raise FileFault("TOO_LARGE", f"{path} has {found.st_size} bytes, {MOST_FILE} can be read")
                with open(descriptor, "rb", closefd=False) as file:
                    return file.read(MOST_FILE)
            finally:
                os.close(descriptor)

    def write(self, path: str, content: bytes) -> None:
        """Put a file in place of what has its name, with the folders that it needs. Raises FileFault.

        It is written beside, and takes the name when it is whole. It belongs to whom the checkout belongs.
        """
        folders, name = _split(path)
        if any(part.lower() == _GIT for part in (*folders, name)):
            raise FileFault("BAD_PATH", "what is in .git is not written by this tool")
        with self._folder(folders, make=True) as folder, _told(path):
            mode = _mode(folder, name, path)
            beside = f".{name[:100]}.{secrets.token_hex(6)}"
            try:
                self._write(folder, beside, content, mode)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=folder)
                raise

    def _write(self, folder: int, name: str, content: bytes, mode: int) -> None:
        descriptor = os.open(name, _WRITE, 0o600, dir_fd=folder)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(content)
            self._give(descriptor)
            os.fchmod(descriptor, mode)

    def entries(self, path: str, depth: int) -> Iterator[Entry]:
        """What is in a folder and, down to `depth`, in those in it, in order; .git is left out. Raises FileFault.

        Of folders with more than MOST_SEEN names in all, those are seen that the system tells of first."""
        folders = _parts(path)
        with self._folder(folders) as folder:
            yield from _entries(folder, "/".join(folders), depth, _Seen())

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """A folder, opened; with `make` it is made where it is missing."""
        opened = os.open(self._checkout, _FOLDER)
        try:
            for place, part in enumerate(parts, start=1):
                with _told("/".join(parts[:place]), folder=True):
                    if make:
                        self._make(opened, part)
                    inner = os.open(part, _FOLDER, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened
        finally:
            os.close(opened)

    def _make(self, folder: int, name: str) -> None:
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            return
        made = os.open(name, _FOLDER, dir_fd=folder)
        try:
            self._give(made)
        finally:
            os.close(made)

    def _give(self, descriptor: int) -> None:
        owner = self._checkout.stat()
        if owner.st_uid != os.geteuid():
            os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _parts(path: str) -> tuple[str, ...]:
    """The names on the way. A path from the top of the sandbox is taken where it begins with the checkout's place."""
    inside = path.removeprefix(HOME) if path == HOME or path.startswith(f"{HOME}/") else path
    if "\0" in inside or (inside == path and path.startswith("/")):
        raise FileFault("BAD_PATH", f"{path!r} is no path in the checkout")
    parts = tuple(part for part in inside.split("/") if part not in ("", "."))
    if ".." in parts:
        raise FileFault("BAD_PATH", f"{path!r} leads upwards")
    if len(parts) > _DEEPEST or len(inside) > _LONGEST:
        raise FileFault("BAD_PATH", f"the path has {len(parts)} parts and {len(inside)} characters, which is too much")
    return parts


def _split(path: str) -> tuple[tuple[str, ...], str]:
    parts = _parts(path)
    if not parts:
        raise FileFault("NOT_A_FILE", "the checkout itself is no file")
    return parts[:-1], parts[-1]


def _mode(folder: int, name: str, path: str) -> int:
    """The permissions that a file keeps; those of a new one. Raises FileFault where something else has its name."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    if stat.S_ISLNK(found.st_mode):
        raise FileFault("IS_LINK", f"{path} is a symbolic link")
    if not stat.S_ISREG(found.st_mode):
        raise FileFault("NOT_A_FILE", f"{path} is no plain file")
    return stat.S_IMODE(found.st_mode) & 0o777


def _entries(folder: int, path: str, depth: int, seen: "_Seen") -> Iterator[Entry]:
    with os.scandir(folder) as found:
        inside = sorted(islice(found, MOST_SEEN - seen.names), key=lambda one: one.name)
    seen.names += len(inside)
    for one in inside:
        if one.name == _GIT:
            continue
        place = f"{path}/{one.name}" if path else one.name
        kind = _kind(one)
        yield Entry(place, kind, one.stat(follow_symlinks=False).st_size if kind == "file" else None)
        if kind == "folder" and depth > 1:
            with suppress(OSError):  # taken away, or made a link, in this moment
                inner = os.open(one.name, _FOLDER, dir_fd=folder)
                try:
                    yield from _entries(inner, place, depth - 1, seen)
                finally:
                    os.close(inner)


def _kind(entry: "os.DirEntry[str]") -> EntryKind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


@contextmanager
def _told(path: str, *, folder: bool = False) -> Iterator[None]:
    """What the system says of a path, as a FileFault."""
    try:
        yield
    except FileNotFoundError:
        raise FileFault("NOT_FOUND", f"{path}: there is nothing of this name") from None
    except OSError as error:
        if folder and error.errno in {errno.ELOOP, errno.ENOTDIR}:  # a link gives the one or the other
            raise FileFault("NOT_A_FOLDER", f"{path} is no folder, or a symbolic link") from None
        if error.errno == errno.ELOOP:
            raise FileFault("IS_LINK", f"{path} is a symbolic link") from None
        raise FileFault("CANNOT", f"{path}: {error.strerror}") from None
