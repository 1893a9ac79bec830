"""Nothing outlives a command: by its end, by a clock, by a cancel, or by the end of its sandbox or service."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loops.errors import SandboxError
from loops.tasks.workspace.bwrap import Bwrap
from loops.tasks.workspace.sandbox import Command, Room
from tests.integration.boxes import a_mark, box, living, until

STUBBORN = """\
trap '' TERM INT HUP
(setsid nohup sleep {mark} >/dev/null 2>&1 &)
nohup setsid setsid sh -c "trap '' TERM; sleep {mark}" &
sleep {mark} &
touch started
"""
"""Processes that leave their group and session, lose their parent, and ignore signals."""


@pytest.fixture
def mark() -> Iterator[str]:
    """A time to sleep by which a process is known."""
    one = a_mark()
    yield one
    assert not living(one)


async def test_what_a_command_leaves_in_the_background_ends_with_it(bwrap: Bwrap, checkout: Path, mark: str) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh(STUBBORN.format(mark=mark) + "echo over")
        assert not living(mark)
    assert (ran.code, ran.stopped, ran.stdout) == (0, "", b"over\n")


async def test_a_command_out_of_time_is_gone_with_all_that_it_started(bwrap: Bwrap, checkout: Path, mark: str) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh(STUBBORN.format(mark=mark) + "echo so far; wait", seconds=1)
        assert not living(mark)
    assert (ran.stopped, ran.code, ran.stdout) == ("timeout", -9, b"so far\n")


async def test_a_silent_command_is_ended_though_it_has_time(bwrap: Bwrap, checkout: Path, mark: str) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh(f"echo line; printf no-line; sleep {mark}", idle=0.3)
        assert (ran.stopped, ran.stdout) == ("idle", b"line\nno-line")
        talking = await inside.sh("for one in 1 2 3 4 5 6; do echo $one; sleep 0.1; done", idle=0.5)
        assert (talking.stopped, talking.code) == ("", 0)


async def test_a_cancelled_caller_is_told_once_everything_is_gone(bwrap: Bwrap, checkout: Path, mark: str) -> None:
    async with box(bwrap, checkout) as inside:
        running = asyncio.create_task(inside.sh(STUBBORN.format(mark=mark) + "wait"))
        await until(checkout / "started")
        assert living(mark)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not living(mark)
        assert await inside.says("echo still open") == "still open\n"


async def test_leaving_the_sandbox_ends_what_runs_in_it(bwrap: Bwrap, checkout: Path, mark: str) -> None:
    async with box(bwrap, checkout) as inside:
        running = asyncio.create_task(inside.sh(STUBBORN.format(mark=mark) + "wait"))
        await until(checkout / "started")
    assert not living(mark)
    assert (await running).stopped == "cancelled"


async def test_a_command_that_is_cancelled_while_it_starts_leaves_nothing(
    bwrap: Bwrap, checkout: Path, mark: str
) -> None:
    async with box(bwrap, checkout) as inside:
        for delay in (0, 0.005, 0.02, 0.05):
            running = asyncio.create_task(inside.sh(f"sleep {mark}"))
            await asyncio.sleep(delay)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert not living(mark)


async def test_a_listener_that_fails_ends_the_command(bwrap: Bwrap, checkout: Path, mark: str) -> None:
    async def on_line(line: bytes) -> None:
        raise ValueError(line.decode())

    async with box(bwrap, checkout) as inside:
        with pytest.raises(ValueError, match="first"):
            await inside.sh(f"echo first; sleep {mark}", on_line)
        assert not living(mark)


async def test_commands_of_one_sandbox_run_beside_each_other(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        meeting = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done; echo met"
        met = await asyncio.gather(inside.says(meeting.format("a", "b")), inside.says(meeting.format("b", "a")))
    assert list(met) == ["met\n"] * 2


_SERVICE = """\
import asyncio, sys
from pathlib import Path
from loops.tasks.workspace.probing import Wanted, find_bwrap
from loops.tasks.workspace.sandbox import Command, Room

async def main():
    made = await find_bwrap(Wanted(Path(sys.argv[1])))
    async with made.open(Room(Path(sys.argv[2]))) as sandbox:
        await sandbox.run(Command(["/bin/sh", "-c", sys.argv[3]], seconds=60))

asyncio.run(main())
"""


async def test_the_death_of_the_service_ends_what_it_runs(
    bwrap: Bwrap, checkout: Path, work_dir: Path, mark: str
) -> None:
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SERVICE, str(work_dir), str(checkout), STUBBORN.format(mark=mark) + "wait")
    )
    await until(checkout / "started")
    assert len(living(f"sleep {mark}")) > 1
    service.kill()
    await service.wait()
    deadline = time.monotonic() + 5
    while living(f"sleep {mark}"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_command_need_not_read_what_it_is_given(bwrap: Bwrap, checkout: Path) -> None:
    async with bwrap.open(Room(checkout)) as sandbox:
        ran = await sandbox.run(Command(["true"], stdin=b"x" * 300_000))
    assert ran.code == 0


async def test_a_sandbox_holds_no_descriptor_and_no_process_once_it_is_left(
    bwrap: Bwrap, checkout: Path, tmp_path: Path
) -> None:
    async def use() -> int:
        async with box(bwrap, checkout, ports={80: tmp_path / "none"}, hosts=["example.org:443"]) as inside:
            await inside.sh("true")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(inside.sh("sleep 60"), 0.3)
        with pytest.raises(SandboxError):
            async with box(bwrap, checkout / "gone") as inside:
                await inside.sh("true")
        for _ in range(500):  # the loop closes a transport in a turn of its own
            if len(asyncio.all_tasks()) == 1 and len(os.listdir("/proc/self/fd")) <= most:  # noqa: PTH208
                break
            await asyncio.sleep(0.01)
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    most = 1_000_000
    most = await use()
    assert [await use() <= most, await use() <= most] == [True, True]
    assert len(asyncio.all_tasks()) == 1
    if bwrap.cgroups is not None:
        left = [folder for parent in bwrap.cgroups.parents.values() for folder in parent.glob(f"loops-{os.getpid()}-*")]
        assert left == []
