"""What of this machine stands in a sandbox: the arguments of bubblewrap, as a function of the room."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loops.tasks.workspace.sandbox import HOME, Room

INSIDE = 1000
"""The number of the user inside, whoever it is outside."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {
    "PATH": PATH,
    "HOME": HOME,
    "USER": "loops",
    "LOGNAME": "loops",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "TMPDIR": "/tmp",  # noqa: S108 - of the sandbox, which nobody else sees
}
ETC = {
    "passwd": f"root:x:0:0::/nowhere:/bin/false\nloops:x:{INSIDE}:{INSIDE}::{HOME}:/bin/sh\n",
    "group": f"root:x:0:\nloops:x:{INSIDE}:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
"""Files of /etc that are written, since those of the machine tell of it."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC_OF_MACHINE = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_SMALL = 16 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """What of this machine every sandbox needs: `etc` is the folder of the written files. `hidden` are places that
    nobody may look into where they lie in something that is shown."""

    etc: Path
    hidden: Sequence[Path] = ()
    root: Path = Path("/")


def arguments(room: Room, machine: Machine, environment: Mapping[str, str]) -> list[str]:
    """The options of bubblewrap for a command in a room, without the command."""
    return [
        *_NAMESPACES,
        *_system(machine),
        *_etc(machine),
        *_own(room),
        *_readable(room),
        *_environment(environment),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", HOME),
    ]


_NAMESPACES = (
    # Each by name: what --unshare-all has for users is only a try.
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"),
    *("--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent"),
    *("--uid", str(INSIDE), "--gid", str(INSIDE), "--hostname", "sandbox"),
)


def _system(machine: Machine) -> Iterator[str]:
    """The programs and libraries of the machine, read-only."""
    yield from ("--ro-bind", "/usr", "/usr")
    shown = [Path("/usr")]
    for name in _SYSTEM:
        path = machine.root / name.lstrip("/")
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)
            shown.append(Path(name))
    yield from ("--proc", "/proc", "--dev", "/dev")
    for place in machine.hidden:
        if any(place.is_relative_to(one) and place != one for one in shown) and place.is_dir():
            yield from ("--size", str(4096), "--tmpfs", str(place), "--remount-ro", str(place))


def _etc(machine: Machine) -> Iterator[str]:
    for name in _ETC_OF_MACHINE:
        if (machine.root / name.lstrip("/")).exists():
            yield from ("--ro-bind", name, name)
    for name in ETC:
        yield from ("--ro-bind", str(machine.etc / name), f"/etc/{name}")


def _own(room: Room) -> Iterator[str]:
    """What a command may write: its checkout, and folders in memory that are gone with it."""
    half = max(room.limits.memory // 2, _SMALL)
    for place, size in (("/tmp", half), ("/dev/shm", half), ("/run", _SMALL), ("/home", _SMALL)):  # noqa: S108
        yield from ("--perms", "1777", "--size", str(size), "--tmpfs", place)
    yield from ("--symlink", "/tmp", "/var/tmp")  # noqa: S108
    yield from ("--bind", str(room.checkout), HOME)


def _readable(room: Room) -> Iterator[str]:
    for inside, outside in room.readable.items():
        yield from ("--ro-bind", str(outside), inside)


def _environment(given: Mapping[str, str]) -> Iterator[str]:
    yield "--clearenv"
    for name, value in {**ENVIRONMENT, **given}.items():
        yield from ("--setenv", name, value)
