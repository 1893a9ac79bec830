"""Whose user commands run as, and whom a checkout belongs to."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

OWN_UID = 58731
"""Who runs commands for a service that is root, unless the operator names somebody else. Nobody has this number in a
usual system, and no entry in /etc/passwd is needed."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user and a group of this machine, by number."""

    uid: int
    gid: int

    @property
    def is_own(self) -> bool:
        """Whether it is that of this process."""
        return self.uid == os.geteuid()

    def own(self, path: Path) -> None:
        """Give a file, or a folder with all that is in it, to this account; no symbolic link is followed."""
        if self.is_own:
            return
        os.chown(path, self.uid, self.gid, follow_symlinks=False)
        if not stat.S_ISDIR(path.lstat().st_mode):
            return
        for _folder, folders, files, descriptor in os.fwalk(path, follow_symlinks=False):
            for name in (*folders, *files):
                os.chown(name, self.uid, self.gid, dir_fd=descriptor, follow_symlinks=False)

    def reaches(self, path: Path) -> Path | None:
        """None where this account can walk to `path`, else the folder that keeps it out."""
        for folder in reversed((path, *path.parents)):
            if folder.is_dir() and not self._enters(folder):
                return folder
        return None

    def _enters(self, folder: Path) -> bool:
        found = folder.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        return bool(found.st_mode & (stat.S_IXGRP if found.st_gid == self.gid else stat.S_IXOTH))


def own_account() -> Account:
    """That of this process."""
    return Account(os.geteuid(), os.getegid())


def account(named: tuple[int, int] | None = None) -> Account:
    """Who runs the commands of tasks: `named` (a uid and a gid) or OWN_UID where this process is root, else whoever
    runs this process, since nobody else can be had then."""
    if os.geteuid() != 0:
        return own_account()
    return Account(*(named or (OWN_UID, OWN_UID)))
