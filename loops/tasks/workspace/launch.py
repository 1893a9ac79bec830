"""Runs a program with less: in control groups, with limits, as another user. Executed as a file, by itself.

    python -I -S launch.py group=FOLDER … limit=NAME:NUMBER … user=UID:GID -- PROGRAM ARGUMENT …

It is a process of its own since nothing of this may be done between fork and exec of one with threads. It becomes the
program. A sandbox waits for it, so it imports what is quick to import.
"""

import os
import resource
import signal
import sys
from contextlib import suppress

CANNOT = 125


def main(words: list[str]) -> None:
    """Give up what is asked for, and become the program."""
    end = words.index("--")
    asked = [word.partition("=")[::2] for word in words[:end]]
    # In this order: a group and a score can be written by who we are now, and a limit only ever falls.
    for kind, value in asked:
        if kind == "group":
            write(f"{value}/cgroup.procs", str(os.getpid()))
    with suppress(OSError):  # a wish: whoever is short of memory ends this first
        write("/proc/self/oom_score_adj", "500")
    for kind, value in asked:
        if kind == "limit":
            limit(*value.split(":"))
        elif kind == "user":
            become(*map(int, value.split(":")))
    for one in (signal.SIGPIPE, signal.SIGXFSZ):  # which this interpreter ignores, and so would all that comes of it
        signal.signal(one, signal.SIG_DFL)
    os.umask(0o022)
    program = words[end + 1 :]
    os.execv(program[0], program)  # noqa: S606 - no shell is wanted


def write(file: str, text: str) -> None:
    """Write a file of the kernel."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def limit(name: str, most: str) -> None:
    """Set a limit for good, or leave a lower one as it is."""
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    value = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
    resource.setrlimit(kind, (value, value))


def become(uid: int, gid: int) -> None:
    """Be another user, and nobody's member, for good."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"cannot be launched: {error}\n")
        sys.exit(CANNOT)
