"""Commands of the product as processes of their own that need not import anything: each is forked from one that has.

`python -m tests.forking` is that one process. It is asked through the socket that is its standard input.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PACKAGES = ("config", "loops", "triggers", "notify", "server")
_LARGEST = 1 << 20


class Forking:
    """The process from which commands are forked, from its start to its end."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__], stdin=theirs.fileno(), env=environ, cwd=ROOT
            )

    def run(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], stdin: str, seconds: float
    ) -> "subprocess.CompletedProcess[str]":
        """What `loops ARGUMENTS` comes to. Raises TimeoutExpired, with the command killed."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            asked = json.dumps([list(arguments), str(folder), dict(environ)]).encode()
            socket.send_fds(self._socket, [asked], [given.fileno(), out.fileno(), err.fileno()])
            pid = int(self._socket.recv(100))
            code = self._end_of(pid, seconds)
            texts = [os.pread(one.fileno(), _LARGEST * 64, 0).decode() for one in (out, err)]
        if code is None:
            raise subprocess.TimeoutExpired([*arguments], seconds, *texts)
        return subprocess.CompletedProcess([*arguments], code, *texts)

    def _end_of(self, pid: int, seconds: float) -> int | None:
        self._socket.settimeout(seconds)
        try:
            return int(self._socket.recv(100))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._socket.settimeout(None)
            self._socket.recv(100)
            return None
        finally:
            self._socket.settimeout(None)

    def close(self) -> None:
        """End it; no command runs now."""
        self._socket.close()
        self._process.wait(30)


def _import_all() -> None:
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and ".migrations." not in module.name:
                importlib.import_module(module.name)


def _serve(asked_through: socket.socket) -> None:
    while True:
        asked, files, _flags, _address = socket.recv_fds(asked_through, _LARGEST, 3)
        if not asked:
            return
        pid = os.fork()
        if pid == 0:
            asked_through.close()
            _be(json.loads(asked), files)
        for one in files:
            os.close(one)
        asked_through.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        asked_through.send(str(os.waitstatus_to_exitcode(status)).encode())


def _be(asked: tuple[list[str], str, dict[str, str]], files: Sequence[int]) -> None:
    """Become the command."""
    arguments, folder, environ = asked
    for standard, one in enumerate(files):
        os.dup2(one, standard)
        os.close(one)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    os.chdir(folder)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(one, mode) for one, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.argv = ["loops", *arguments]
    code: object = 1
    try:
        from server.cli import main

        code = main()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - whatever ends a process is told by it
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    _import_all()
    _serve(socket.socket(fileno=0))
