"""Real sandboxes for tests, where this machine has them."""

import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loops.errors import SandboxError
from loops.tasks.workspace.bwrap import Bwrap
from loops.tasks.workspace.probing import Wanted, find_bwrap
from loops.tasks.workspace.sandbox import Command, OnLine, Ran, Room, Sandbox, SandboxLimits

SMALL = SandboxLimits(memory=128 << 20, processes=24, file=1 << 20, output=4096)


@pytest.fixture(scope="session")
def work_dir() -> Iterator[Path]:
    """A folder that every user can walk to, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="loops-work-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def bwrap(work_dir: Path) -> Bwrap:
    """The sandboxes of this machine."""
    try:
        return asyncio.run(find_bwrap(Wanted(work_dir)))
    except SandboxError as fault:
        pytest.skip(f"this machine has no sandbox: {fault.message} ({fault.hint})")


@pytest.fixture(params=["grouped", "each"])
def either(request: pytest.FixtureRequest, bwrap: Bwrap) -> Bwrap:
    """Sandboxes with control groups, and those of a machine where none can be written."""
    if request.param == "each":
        return replace(bwrap, cgroups=None)
    if bwrap.cgroups is None:
        pytest.skip("no control groups can be made on this machine")
    return bwrap


@pytest.fixture
def checkout(bwrap: Bwrap, work_dir: Path) -> Iterator[Path]:
    """A checkout with one file, which belongs to who runs commands."""
    folder = Path(tempfile.mkdtemp(prefix="checkout-", dir=work_dir))
    (folder / "hello.txt").write_text("hello\n")
    bwrap.own(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Box:
    """An open sandbox in which a shell runs scripts."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def sh(self, script: str, on_line: OnLine | None = None, **given) -> Ran:
        given.setdefault("seconds", 20)
        return await self.sandbox.run(Command(["/bin/sh", "-c", script], **given), on_line)

    async def says(self, script: str, **given) -> str:
        """What a script writes, on both ways."""
        ran = await self.sh(script, **given)
        return (ran.stdout + ran.stderr).decode()


@asynccontextmanager
async def box(made_by: Bwrap, checkout: Path, limits: SandboxLimits = SMALL, **room) -> AsyncIterator[Box]:
    async with made_by.open(Room(checkout, limits=limits, **room)) as sandbox:
        yield Box(sandbox)


def a_mark() -> str:
    """A time to sleep, in seconds, that nothing else on this machine has in its arguments."""
    return f"9{secrets.randbelow(10**9):09d}"


def living(mark: str) -> list[str]:
    """The command lines on this machine that hold a mark; a zombie has none."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if mark in words:
                found.append(words)
    return found


async def until(path: Path) -> None:
    """Wait until a command has made a file."""
    deadline = time.monotonic() + 20
    while not await asyncio.to_thread(path.exists):
        assert time.monotonic() < deadline, f"{path} was never made"
        await asyncio.sleep(0.01)
