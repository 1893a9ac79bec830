"""How a command is launched with its limits, in whatever sandbox."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from loops.tasks.workspace.account import Account
from loops.tasks.workspace.cgroups import Group
from loops.tasks.workspace.sandbox import Command, SandboxLimits

ADDRESSES = 4
"""How much more addresses than memory a process may ask for: runtimes reserve what they never use."""
_DESCRIPTORS = 4096
_LAUNCH = Path(__file__).with_name("launch.py")
_SCRIPT = """\
cd -- "$1" || exit 126
if [ -n "$2" ]; then ulimit -u "$2" 2>/dev/null || ulimit -p "$2" || exit 126; fi
shift 2
exec "$@"
"""


def launcher(account: Account, limits: SandboxLimits, command: Command, group: Group | None) -> list[str]:
    """What stands before a program, so that it has its limits and its user."""
    groups = [] if group is None else [f"group={folder}" for folder in group.places]
    each = [f"limit={name}:{most}" for name, most in _each(limits, command, group).items()]
    user = [] if account.is_own else [f"user={account.uid}:{account.gid}"]
    return [sys.executable, "-I", "-S", str(_LAUNCH), *groups, *each, *user, "--"]


def _each(limits: SandboxLimits, command: Command, group: Group | None) -> dict[str, int]:
    """The limits of each process: always of its files, of the rest where no control group holds all together."""
    each = {"RLIMIT_FSIZE": limits.file, "RLIMIT_CORE": 0, "RLIMIT_NOFILE": _DESCRIPTORS}
    if group is None or "memory" not in group.folders:
        each["RLIMIT_AS"] = limits.memory * ADDRESSES
    if group is None or "cpu" not in group.folders:
        each["RLIMIT_CPU"] = math.ceil(command.seconds * max(limits.cpus, 1.0)) + 1
    return each


def script(command: Command, home: str, processes: int | None = None) -> Sequence[str]:
    """The command as a shell starts it in its folder: 126 where that is not there, 127 where the program is not.

    `processes` limits their number, inside a user namespace alone: the kernel counts them by user and such namespace,
    and outside those of everybody who has the same user would count.
    """
    most = "" if processes is None else str(processes)
    return ["/bin/sh", "-c", _SCRIPT, "sh", f"{home}/{command.folder}", most, *command.argv]
