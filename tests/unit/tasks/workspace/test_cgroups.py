"""Control groups as each kind of machine has them, in trees that stand for those of a kernel."""

import os
from pathlib import Path

import pytest

from loops.tasks.workspace.calls import call_filter
from loops.tasks.workspace.cgroups import find_cgroups
from loops.tasks.workspace.sandbox import SandboxLimits

LIMITS = SandboxLimits(memory=1000, processes=7, cpus=0.5)


class Machine:
    """A machine whose control groups are folders of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.mounts: list[str] = []

    def in_groups(self, *lines: str) -> None:
        (self.proc / "cgroup").write_text("".join(f"{line}\n" for line in lines))

    def mounted(self, kind: str, point: str, options: str, root: str = "/") -> Path:
        self.mounts.append(f"30 20 0:20 {root} {self.folder / point} rw - {kind} cgroup {options}\n")
        (self.proc / "mountinfo").write_text("1 1 0:1 / / rw - ext4 /dev/vda rw\n" + "".join(self.mounts))
        (self.folder / point).mkdir(parents=True, exist_ok=True)
        return self.folder / point

    def delegated(self, path: Path, *, members: str, handed: str = "") -> None:
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.controllers").write_text("cpu memory pids\n")
        (path / "cgroup.subtree_control").write_text(handed)
        (path / "cgroup.procs").write_text(members)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_version_2_is_used_where_it_is_handed_down(machine: Machine) -> None:
    top = machine.mounted("cgroup2", "cgroup", "rw")
    machine.in_groups("0::/system.slice/loops.service")
    own = top / "system.slice/loops.service"
    machine.delegated(own, members="", handed="cpu memory pids")
    found = find_cgroups(machine.proc)
    assert found is not None
    group = found.make(LIMITS)
    (folder,) = group.places
    assert folder.parent == own
    written = {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
    assert written == {"memory.max": "1000", "memory.swap.max": "0", "pids.max": "7", "cpu.max": "50000 100000"}
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.killed_for_memory == 2


def test_a_service_that_is_alone_steps_aside_to_hand_down_what_it_has(machine: Machine) -> None:
    top = machine.mounted("cgroup2", "cgroup", "rw", root="/outer")
    machine.in_groups("0::/outer/loops.service")
    own = top / "loops.service"
    machine.delegated(own, members=f"{os.getpid()}\n")
    found = find_cgroups(machine.proc)
    assert found is not None
    assert set(found.parents) == {"cpu", "memory", "pids"}
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (own / "loops-service/cgroup.procs").read_text() == str(os.getpid())


def test_a_process_among_others_leaves_them_where_they_are(machine: Machine) -> None:
    top = machine.mounted("cgroup2", "cgroup", "rw")
    machine.in_groups("0::/session")
    machine.delegated(top / "session", members=f"1\n{os.getpid()}\n")
    find_cgroups(machine.proc)
    assert not (top / "session/loops-service").exists()


def test_of_version_1_each_that_can_be_written_is_used(machine: Machine) -> None:
    memory = machine.mounted("cgroup", "memory", "rw,memory")
    machine.mounted("cgroup", "cpu", "rw,cpu,cpuacct")
    machine.in_groups("4:memory:/in/here", "3:pids:/", "2:cpu,cpuacct:/gone", "0::/")
    (memory / "in/here").mkdir(parents=True)
    found = find_cgroups(machine.proc)
    assert found is not None
    assert (found.version, dict(found.parents)) == (1, {"memory": memory / "in/here"})
    group = found.make(LIMITS)
    assert (group.folders["memory"] / "memory.limit_in_bytes").read_text() == "1000"


def test_a_machine_without_any_has_none(machine: Machine) -> None:
    assert find_cgroups(machine.proc) is None
    machine.mounted("tmpfs", "other", "rw")
    machine.in_groups("0::/")
    assert find_cgroups(machine.proc) is None


def test_folders_of_a_dead_service_are_swept_and_those_of_living_ones_stay(machine: Machine) -> None:
    top = machine.mounted("cgroup2", "cgroup", "rw")
    machine.in_groups("0::/")
    machine.delegated(top, members="", handed="cpu memory pids")
    found = find_cgroups(machine.proc)
    assert found is not None
    for name in ("loops-999999999-1", f"loops-{os.getpid()}-1", "loops-service", "others"):
        (top / name).mkdir()
    found.sweep()
    assert not (top / "loops-999999999-1").exists()
    assert all((top / name).exists() for name in (f"loops-{os.getpid()}-1", "loops-service", "others"))


@pytest.mark.parametrize("machine_name", ["x86_64", "aarch64"])
def test_a_filter_of_calls_ends_in_one_of_its_answers_whatever_the_call(machine_name: str) -> None:
    program = call_filter(machine_name)
    assert program is not None
    assert len(program) % 8 == 0
    steps = [program[place : place + 8] for place in range(0, len(program), 8)]
    for place, step in enumerate(steps[:-3]):
        assert max(step[2], step[3]) + place + 1 < len(steps)
    assert [step[0] for step in steps[-3:]] == [0x06] * 3


def test_an_unknown_kind_of_processor_has_no_filter() -> None:
    assert call_filter("pdp11") is None
