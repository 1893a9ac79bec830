"""Control groups: what all processes of one sandbox may use together. Where none can be written there are none."""

import contextlib
import itertools
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from loops.tasks.workspace.sandbox import SandboxLimits

log = logging.getLogger("loops.tasks.sandbox")

Kind = Literal["memory", "pids", "cpu"]
KINDS: tuple[Kind, ...] = ("memory", "pids", "cpu")
_PERIOD = 100_000
_PREFIX = "loops-"
_OURS = "loops-service"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Group:
    """The control groups of one sandbox, by what each of them limits; in version 2 it is one and the same folder."""

    folders: Mapping[Kind, Path]

    @property
    def places(self) -> list[Path]:
        """The folders, each once."""
        return list(dict.fromkeys(self.folders.values()))

    @property
    def killed_for_memory(self) -> int:
        """How many processes the kernel ended since they used more memory than they may."""
        folder = self.folders.get("memory")
        if folder is None:
            return 0
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                words = dict(line.split() for line in (folder / name).read_text("ascii").splitlines())
                return int(words.get("oom_kill", 0))
        return 0

    def members(self) -> set[int]:
        """The processes that are in one of the folders."""
        found: set[int] = set()
        for folder in self.places:
            with contextlib.suppress(OSError):
                found |= {int(one) for one in (folder / "cgroup.procs").read_text("ascii").split()}
        return found

    def remove(self) -> None:
        """Take the folders away, which takes that nobody is left in them."""
        for folder in self.places:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("a control group stays behind: %s: %s", folder, error.strerror)


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where groups can be made. `parents` says in which folder, by what is limited there."""

    parents: Mapping[Kind, Path]
    version: int

    def make(self, limits: SandboxLimits) -> Group:
        """A group with these limits. Raises OSError."""
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        group = Group({kind: parent / name for kind, parent in self.parents.items()})
        try:
            for folder in group.places:
                folder.mkdir()
            for kind, folder in group.folders.items():
                self._limit(kind, folder, limits)
        except OSError:
            group.remove()
            raise
        return group

    def _limit(self, kind: Kind, folder: Path, limits: SandboxLimits) -> None:
        quota = int(limits.cpus * _PERIOD)
        match kind, self.version:
            case "pids", _:
                _write(folder / "pids.max", limits.processes)
            case "memory", 1:
                _write(folder / "memory.limit_in_bytes", limits.memory)
                with contextlib.suppress(OSError):  # a kernel without accounting of swap has no such file
                    _write(folder / "memory.memsw.limit_in_bytes", limits.memory)
            case "memory", _:
                _write(folder / "memory.max", limits.memory)
                with contextlib.suppress(OSError):
                    _write(folder / "memory.swap.max", 0)
            case "cpu", 1:
                _write(folder / "cpu.cfs_period_us", _PERIOD)
                _write(folder / "cpu.cfs_quota_us", quota)
            case _:
                _write(folder / "cpu.max", f"{quota} {_PERIOD}")

    def sweep(self) -> None:
        """Take away what services left behind that are no more."""
        for parent in set(self.parents.values()):
            for folder in parent.glob(f"{_PREFIX}*-*"):
                pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
                if pid.isdigit() and not Path("/proc", pid).exists():
                    with contextlib.suppress(OSError):
                        folder.rmdir()


def find_cgroups(proc: Path = Path("/proc/self")) -> Cgroups | None:
    """Where this process may make control groups; None where it may not."""
    try:
        paths = dict(_paths((proc / "cgroup").read_text("ascii")))
        mounts = list(_mounts((proc / "mountinfo").read_text("utf-8")))
    except OSError:
        return None
    first = {kind: place for kind in KINDS if (place := _folder(kind, paths, mounts)) is not None and _writable(place)}
    if first:
        return Cgroups(first, 1)
    place = _folder("", paths, mounts)
    kinds = [] if place is None else _delegated(place)
    return Cgroups(dict.fromkeys(kinds, place), 2) if place is not None and kinds else None


@dataclass(frozen=True, slots=True)
class _Mount:
    """One mounted hierarchy: `kind` is cgroup or cgroup2, `root` what of it is seen at `point`."""

    kind: str
    root: str
    point: Path
    controllers: frozenset[str]


def _paths(text: str) -> Iterator[tuple[str, str]]:
    """The path of the process in each hierarchy, by controller; that of version 2 by an empty name."""
    for line in text.splitlines():
        _number, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _source, options = after.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            fields = before.split()
            yield _Mount(kind, fields[3], Path(fields[4]), frozenset(options.split(",")))


def _folder(kind: str, paths: Mapping[str, str], mounts: list[_Mount]) -> Path | None:
    """The folder of this process in the hierarchy that has a controller, or in that of version 2 for an empty name."""
    path = paths.get(kind)
    if path is None:
        return None
    for mount in mounts:
        if mount.kind == ("cgroup" if kind else "cgroup2") and (not kind or kind in mount.controllers):
            inside = path.removeprefix(mount.root) if mount.root != "/" else path
            return mount.point / inside.lstrip("/")
    return None


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY


def _delegated(folder: Path) -> list[Kind]:
    """What may be limited below a folder of version 2. Where nothing is handed down yet, this process steps into a
    folder of its own first, since a group may not hold processes and hand down; but only where it is alone."""
    control = folder / "cgroup.subtree_control"
    try:
        usable = [kind for kind in KINDS if kind in (folder / "cgroup.controllers").read_text("ascii").split()]
        if not usable or not _writable(folder) or not os.access(control, os.W_OK):
            return []
        handed = control.read_text("ascii").split()
        if not set(usable) <= set(handed):
            _step_aside(folder)
            control.write_text(" ".join(f"+{kind}" for kind in usable))
    except OSError as error:
        log.info("control groups cannot be used: %s", error)
        return []
    return usable


def _step_aside(folder: Path) -> None:
    members = (folder / "cgroup.procs").read_text("ascii").split()
    if members in ([], [str(os.getpid())]):
        ours = folder / _OURS
        ours.mkdir(exist_ok=True)
        for member in members:
            _write(ours / "cgroup.procs", member)


def _write(file: Path, value: object) -> None:
    file.write_text(str(value), "ascii")
