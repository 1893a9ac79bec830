"""Folders with whatever an agent left in them, removed: as deep, as locked and as wide as they are.

1. Nothing recurses, and no path is ever put together: a folder's own folders are moved up to the top, which is emptied
   until nothing is left. Two descriptors are open at a time, however deep it goes.
2. No link is followed: everything is opened by its name in a folder that is open, and only where it is a folder.
"""

import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("loops.tasks.trees")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = 0o700


def removed(folder: Path) -> None:
    """Remove a folder, also where its owner took away the rights to it.

    What cannot be removed stays, and is logged: nobody is kept from going on. What is not there is removed. Blocks.
    """
    try:
        parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("a folder is not removed: %s", error.strerror, extra={"folder": str(folder)})
        return
    try:
        _Removal(parent, folder).run()
    finally:
        os.close(parent)


class _Removal:
    """Of one folder: how many things of it went, and what the first of those said that would not."""

    def __init__(self, parent: int, folder: Path) -> None:
        self._parent = parent
        self._folder = folder
        self._mark = secrets.token_hex(8)
        self._went = 0
        self._said = ""

    def run(self) -> None:
        name = self._folder.name
        with self._going_on():
            if stat.S_ISDIR(os.stat(name, dir_fd=self._parent, follow_symlinks=False).st_mode):
                self._emptied(name)
                os.rmdir(name, dir_fd=self._parent)
            else:
                os.unlink(name, dir_fd=self._parent)
        if self._said:
            log.warning("not all of a folder is removed: %s", self._said, extra={"folder": str(self._folder)})

    def _emptied(self, name: str) -> None:
        with _opened(name, self._parent) as top:
            before = -1
            while before != self._went:  # what comes into the top may not be seen by who goes through it just then
                before = self._went
                for one, is_folder in _inside(top):
                    with self._going_on():
                        self._raised(one, top) if is_folder else os.unlink(one, dir_fd=top)

    def _raised(self, name: str, top: int) -> None:
        """Remove a folder of the top, whose own folders come into the top."""
        with _opened(name, top) as inner:
            for one, is_folder in _inside(inner):
                with self._going_on():
                    self._moved(one, inner, top) if is_folder else os.unlink(one, dir_fd=inner)
        os.rmdir(name, dir_fd=top)

    def _moved(self, name: str, inner: int, top: int) -> None:
        new = f"{self._mark}-{self._went}"
        try:
            os.rename(name, new, src_dir_fd=inner, dst_dir_fd=top)
        except PermissionError:  # a folder that its owner may not write cannot be moved by them
            with _opened(name, inner):
                os.rename(name, new, src_dir_fd=inner, dst_dir_fd=top)

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            return
        except OSError as error:
            self._said = self._said or error.strerror or str(error)
        else:
            self._went += 1


def _inside(folder: int) -> Iterator[tuple[str, bool]]:
    """The names in a folder, and which of them are folders."""
    with os.scandir(folder) as found:
        for one in found:
            yield one.name, one.is_dir(follow_symlinks=False)


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    """A folder that may be read and written now. Raises OSError where it is none."""
    place = os.open(name, _PLACE, dir_fd=parent)
    try:
        if os.fstat(place).st_mode & _OURS != _OURS:
            # By the descriptor itself: by its name, a link could be what is changed.
            Path(f"/proc/self/fd/{place}").chmod(_OURS)
        opened = os.open(".", _FOLDER, dir_fd=place)
    finally:
        os.close(place)
    try:
        yield opened
    finally:
        os.close(opened)
