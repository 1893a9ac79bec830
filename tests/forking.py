"""Commands of the product as processes of their own that need not import anything: each is forked from one that has.

`python -m tests.forking` is that one process. It is asked through the socket that is its standard input.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).parents[1]
_PACKAGES = ("config", "loops", "triggers", "notify", "server")
_LARGEST = 1 << 20
_NUMBER = 10  # so many bytes tell one


class Forked:
    """A command that goes on beside who started it."""

    def __init__(self, told: int) -> None:
        self._told = told
        self.pid = int(os.read(told, _NUMBER))
        self._code: int | None = None

    def send_signal(self, number: int) -> None:
        """Nothing once it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Its exit code, or None as long as it runs."""
        with contextlib.suppress(TimeoutError):
            return self.wait(0)
        return None

    def wait(self, seconds: float) -> int:
        """Its exit code. Raises TimeoutError."""
        if self._code is None:
            if not select.select([self._told], [], [], seconds)[0]:
                raise TimeoutError(f"process {self.pid} has not ended within {seconds} s")
            self._code = int(os.read(self._told, _NUMBER))
            os.close(self._told)
        return self._code


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

    def start(self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], output: IO[str]) -> Forked:
        """Begin `loops ARGUMENTS`; it writes both that it says and its errors into a file."""
        told, tells = os.pipe()
        asked = json.dumps([list(arguments), str(folder), dict(environ)]).encode()
        with open(os.devnull) as nothing:  # noqa: PTH123 - not a path
            files = [nothing.fileno(), output.fileno(), output.fileno(), tells]
            socket.send_fds(self._socket, [asked], files)
        os.close(tells)
        return Forked(told)

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
        asked, files, _flags, _address = socket.recv_fds(asked_through, _LARGEST, 4)
        if not asked:
            return
        if len(files) > 3:
            _start(asked_through, json.loads(asked), files)
            continue
        pid = os.fork()
        if pid == 0:
            asked_through.close()
            _be(json.loads(asked), files)
        for one in files:
            os.close(one)
        asked_through.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        asked_through.send(str(os.waitstatus_to_exitcode(status)).encode())


def _start(asked_through: socket.socket, asked: tuple[list[str], str, dict[str, str]], files: list[int]) -> None:
    """Begin a command. A process beside it tells what starts and how it ends, and nobody waits for that one."""
    tells = files.pop()
    between = os.fork()
    if between == 0:
        asked_through.close()
        if os.fork() == 0:
            _tell(asked, files, tells)
        os._exit(0)
    os.waitpid(between, 0)
    for one in (*files, tells):
        os.close(one)


def _tell(asked: tuple[list[str], str, dict[str, str]], files: Sequence[int], tells: int) -> NoReturn:
    pid = os.fork()
    if pid == 0:
        os.close(tells)
        _be(asked, files)
    for one in files:
        os.close(one)
    os.write(tells, f"{pid:{_NUMBER}}".encode())
    _, status = os.waitpid(pid, 0)
    os.write(tells, f"{os.waitstatus_to_exitcode(status):{_NUMBER}}".encode())
    os._exit(0)


def _be(asked: tuple[list[str], str, dict[str, str]], files: Sequence[int]) -> NoReturn:
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
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=0))
