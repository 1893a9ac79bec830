"""Folders with whatever an agent left in them, handed over and removed. No link in them is ever followed."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class User:
    """Whom the files of a checkout belong to, where that is not the service's own user."""

    uid: int
    gid: int


def give(folder: Path, user: User) -> None:
    """Every file of a folder to the user."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.lchown(Path(place) / name, user.uid, user.gid)
    os.lchown(folder, user.uid, user.gid)


def removed(folder: Path) -> None:
    """Remove a folder, also where its owner took away the rights to it."""
    shutil.rmtree(folder, onerror=_again)


def _again(function: Callable[..., object], name: str, _error: object) -> None:
    path = Path(name)
    with suppress(OSError):
        for place in (path.parent, path):
            if place.is_dir() and not place.is_symlink():
                place.chmod(0o700)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(name)
