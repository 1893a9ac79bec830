"""What a command in a sandbox can see, reach and use up."""

import asyncio
import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from loops.errors import SandboxError
from loops.tasks.workspace.account import Account
from loops.tasks.workspace.bwrap import Bwrap
from tests.integration.boxes import SMALL, box


async def test_a_command_works_in_its_checkout_and_what_it_writes_stays(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh("cat hello.txt; cat; mkdir sub; echo new > sub/made; pwd; exit 3", stdin=b"given\n")
        assert (ran.code, ran.stopped, ran.stdout, ran.stderr) == (3, "", b"hello\ngiven\n/workspace\n", b"")
        assert await inside.says("pwd; cat made", folder="sub") == "/workspace/sub\nnew\n"
    assert (checkout / "sub/made").read_text() == "new\n"


async def test_a_signal_a_missing_program_and_a_missing_folder_are_told_apart(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        assert (await inside.sh("kill -SEGV $$")).code == -11
        assert (await inside.sh("exec no-such-program")).code == 127
        assert (await inside.sh("true", folder="nowhere")).code == 126
        assert (await inside.sh("exit 129")).code == 129, "git says so of a wrong option"


async def test_nothing_of_this_machine_but_its_programs_is_seen(bwrap: Bwrap, checkout: Path, work_dir: Path) -> None:
    (work_dir / "secret").write_text("of the service")
    async with box(bwrap, checkout) as inside:
        places = ["/root", "/etc/shadow", "/etc/resolv.conf", "/etc/ssl/private", str(work_dir), str(Path.cwd())]
        said = await inside.says(f"for one in {' '.join(places)} /sys /boot /var/log /srv; do ls -d $one; done")
        assert said.count("No such file or directory") == len(places) + 4
        assert (await inside.says("echo /*; echo /home/* /run/*; cat /etc/passwd")).splitlines() == [
            " ".join(sorted(f"/{name}" for name in await _top(inside))),
            "/home/* /run/*",
            "root:x:0:0::/nowhere:/bin/false",
            "loops:x:1000:1000::/workspace:/bin/sh",
        ]


async def _top(inside) -> set[str]:
    top = set((await inside.says("ls /")).split())
    expected = {"bin", "dev", "etc", "home", "lib", "proc", "run", "tmp", "usr", "var", "workspace"}
    assert expected <= top <= expected | {"lib32", "lib64", "libx32", "sbin"}
    return top


async def test_only_the_checkout_and_memory_can_be_written(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        for place in ("/x", "/usr/x", "/etc/x", "/etc/passwd", "/dev/x", "/var/x", "/usr/bin/sh"):
            assert "Read-only file system" in await inside.says(f"echo x > {place}"), place
        assert await inside.says("for one in /tmp /home /run /dev/shm .; do echo x > $one/x && cat $one/x; done") == (
            "x\n" * 5
        )
        assert "No such file" in await inside.says("cat /tmp/x"), "each command has a /tmp of its own"


async def test_the_environment_is_clean_and_that_of_the_service_out_of_reach(
    bwrap: Bwrap, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-service")
    async with box(bwrap, checkout) as inside:
        said = await inside.says(
            f"env; cat /proc/*/environ /proc/{os.getpid()}/environ /proc/{os.getppid()}/environ",
            environment={"GIVEN": "to the command"},
        )
        names = {line.partition("=")[0] for line in (await inside.says("env")).splitlines()}
        seen = await inside.says("cat /proc/*/cmdline | tr '\\0' ' '", environment={"GIVEN": "to the command"})
    assert "GIVEN=to the command" in said
    assert "sk-of-the-service" not in said
    assert names <= {"HOME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER", "_"}
    assert "to the command" not in seen, "everybody on this machine may read a command line"


async def test_it_sees_no_process_but_its_own(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        numbers = [int(one) for one in (await inside.says("ls /proc")).split() if one.isdigit()]
    assert len(numbers) <= 3
    assert max(numbers) < 10


async def test_it_has_no_privileges_and_can_get_none(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        status = dict(line.split(":\t", 1) for line in (await inside.says("cat /proc/self/status")).splitlines())
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1"
        assert (await inside.sh("unshare -Ur true")).code != 0
        assert (await inside.sh("unshare -m true")).code != 0
        assert (await inside.sh("chroot / true")).code != 0


_CALLS = """\
import ctypes, errno, socket
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 40, 17, 38, 31):
    try:
        socket.socket(family, socket.SOCK_RAW if family in (16, 17) else socket.SOCK_STREAM).close()
        print(family, "ok")
    except OSError as error:
        print(family, errno.errorcode[error.errno])
libc = ctypes.CDLL(None, use_errno=True)
for number in (250, 321, 425, 298, 0x40000000 + 39, 39):
    print(number, "ok" if libc.syscall(number, 0, 0, 0, 0, 0) >= 0 else errno.errorcode[ctypes.get_errno()])
"""


async def test_the_kernel_is_not_asked_for_what_namespaces_do_not_hold(bwrap: Bwrap, checkout: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of this test are those of x86_64")
    async with box(bwrap, checkout) as inside:
        said = await inside.says("exec python3 -", stdin=_CALLS.encode())
    if "not found" in said:
        pytest.skip("this machine has no Python in /usr")
    refused = ["40 EAFNOSUPPORT", "17 EAFNOSUPPORT", "38 EAFNOSUPPORT", "31 EAFNOSUPPORT"]
    assert said.splitlines() == [
        *("1 ok", "2 ok", "10 ok", "16 ok", *refused),
        *("250 EPERM", "321 EPERM", "425 EPERM", "298 EPERM", f"{0x40000000 + 39} EPERM", "39 ok"),
    ]


async def test_commands_run_as_another_user_where_the_service_is_root(bwrap: Bwrap, checkout: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("this process is not root, so it has no other user")
    async with box(bwrap, checkout) as inside:
        await inside.sh("touch mine")
    assert (checkout / "mine").stat().st_uid == bwrap.account.uid != 0


async def test_there_is_no_network_at_all(bwrap: Bwrap, checkout: Path) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, box(bwrap, checkout) as inside:
        assert (await inside.says("cat /proc/net/dev")).count(":") == 1, "only the loopback of its own"
        asked = f"127.0.0.1:{port} 192.0.2.1:80 [::1]:{port}"
        said = await inside.says(f"for one in {asked}; do git ls-remote http://$one/x; done")
    assert said.count("fatal: unable to access") == 3


async def test_processes_are_limited(either: Bwrap, checkout: Path) -> None:
    async with box(either, checkout) as inside:
        ran = await inside.sh("f() { f | f & }; f; sleep 0.3; echo over")
        assert b"fork" in ran.stderr
        assert await inside.says("echo works again") == "works again\n"


async def test_memory_is_limited(either: Bwrap, checkout: Path) -> None:
    async with box(either, checkout) as inside:
        ran = await inside.sh('exec perl -e \'$x = "x" x (1 << 30); print "has it"\'')
        assert ran.code != 0
        assert b"has it" not in ran.stdout
        assert ran.stopped == ("memory" if either.cgroups else "")


async def test_folders_in_memory_are_limited(either: Bwrap, checkout: Path) -> None:
    async with box(either, checkout, replace(SMALL, file=1 << 30)) as inside:
        for place in ("/tmp", "/dev/shm", "/run", "/home"):
            assert "No space left" in await inside.says(f"exec head -c 90M /dev/zero > {place}/x"), place


async def test_files_are_limited(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh("exec head -c 3M /dev/zero > big")
    assert ran.code == -25  # SIGXFSZ
    assert (checkout / "big").stat().st_size == SMALL.file


async def test_cpu_is_limited(bwrap: Bwrap, checkout: Path) -> None:
    if bwrap.cgroups is None or "cpu" not in bwrap.cgroups.parents:
        pytest.skip("CPU time cannot be limited on this machine")
    async with box(bwrap, checkout, replace(SMALL, cpus=0.2)) as inside:
        await inside.sh("sleep 0")
        ran = await inside.sh("timeout 1 sh -c 'while :; do :; done'; cat /proc/self/stat | cut -d' ' -f16,17; times")
    spent = ran.stdout.decode().splitlines()[-1].split()[0]
    assert float(spent.partition("m")[2].rstrip("s")) < 0.8


async def test_an_endless_output_is_cut_and_its_command_ended(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh("exec yes")
        assert ran.stopped == "output"
        long = await inside.sh("echo head; seq 20000; echo tail")
    assert len(ran.stdout) < SMALL.output + 100
    assert (long.stopped, long.stdout[:5], long.stdout[-5:]) == ("", b"head\n", b"tail\n")
    assert long.lost > 90_000
    assert b"bytes left out ..." in long.stdout


async def test_lines_are_told_as_they_come(bwrap: Bwrap, checkout: Path) -> None:
    heard: list[bytes] = []
    first = asyncio.Event()

    async def on_line(line: bytes) -> None:
        heard.append(line)
        first.set()

    async with box(bwrap, checkout) as inside:
        script = "echo one; while [ ! -e go ]; do sleep 0.02; done; printf 'two\\nthree'"
        running = asyncio.create_task(inside.sh(script, on_line))
        await asyncio.wait_for(first.wait(), 20)
        assert heard == [b"one"]
        (checkout / "go").touch()
        ran = await running
    assert heard == [b"one", b"two", b"three"]
    assert ran.stdout == b"one\ntwo\nthree"


async def test_links_in_a_checkout_lead_nowhere_outside(bwrap: Bwrap, checkout: Path, work_dir: Path) -> None:
    secret = work_dir / "open-to-all"
    secret.write_text("of this machine")
    secret.chmod(0o666)
    (checkout / "link").symlink_to(secret)
    async with box(bwrap, checkout) as inside:
        assert "No such file" in await inside.says("cat link")
        await inside.sh("echo written > link")
    assert secret.read_text() == "of this machine"


async def test_a_link_that_stands_where_the_folder_should_is_not_left_by(bwrap: Bwrap, checkout: Path) -> None:
    (checkout / "out").symlink_to("/usr")
    async with box(bwrap, checkout) as inside:
        assert "Read-only" in await inside.says("touch here", folder="out")


async def test_more_of_this_machine_is_shown_where_the_room_says(bwrap: Bwrap, checkout: Path, work_dir: Path) -> None:
    shown = work_dir / "shown"
    shown.mkdir(exist_ok=True)
    (shown / "file").write_text("to be read\n")
    async with box(bwrap, checkout, readable={"/opt/shown": shown}) as inside:
        assert await inside.says("cat /opt/shown/file") == "to be read\n"
        assert "Read-only" in await inside.says("echo > /opt/shown/file")


async def test_what_lies_below_a_shown_folder_can_be_hidden(bwrap: Bwrap, checkout: Path) -> None:
    hiding = replace(bwrap, machine=replace(bwrap.machine, hidden=[Path("/usr/share/perl5"), Path("/usr")]))
    async with box(hiding, checkout) as inside:
        assert await inside.says("ls -A /usr/share/perl5; ls -d /usr/bin") == "/usr/bin\n"


async def test_a_checkout_that_is_gone_is_told_with_what_mends_it(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout / "gone") as inside:
        with pytest.raises(SandboxError, match="Can't find source path") as fault:
            await inside.sh("true")
    assert "LOOPS_WORK_DIR" in fault.value.hint


async def test_a_command_cannot_feign_that_there_is_no_sandbox(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh('echo "bwrap: Can\'t find source path" >&2; exit 1')
    assert ran.code == 1


async def test_a_broken_pipe_ends_a_program_as_everywhere(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        ran = await inside.sh("yes | head -1")
    assert (ran.stdout, ran.stderr) == (b"y\n", b"")


def test_a_checkout_is_given_away_without_following_links(checkout: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    outside = tmp_path / "outside"
    outside.mkdir()
    (checkout / "to-folder").symlink_to(outside)
    (checkout / "to-file").symlink_to("/etc/passwd")
    Account(4711, 4712).own(checkout)
    assert {one.lstat().st_uid for one in (checkout, *checkout.iterdir())} == {4711}
    assert outside.stat().st_uid == Path("/etc/passwd").stat().st_uid == 0
