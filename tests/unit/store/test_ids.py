import subprocess
import sys
import threading
import time

from loops.store.ids import new_id


def test_ids_rise_and_never_repeat():
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert {len(one) for one in ids} == {24}


def test_ids_made_on_several_threads_never_repeat():
    made: list[list[str]] = [[] for _ in range(4)]

    def make(into: list[str]) -> None:
        into.extend(new_id() for _ in range(3000))

    threads = [threading.Thread(target=make, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set().union(*made)) == 12_000
    assert all(one == sorted(one) for one in made)


def test_an_id_made_later_sorts_behind_ids_of_another_process(monkeypatch):
    monkeypatch.setattr("loops.store.ids._last", 0)
    before = new_id()
    time.sleep(0.005)
    monkeypatch.setattr("loops.store.ids._last", 0)  # a process that knows nothing of the first id
    assert new_id() > before


def test_ids_go_on_rising_when_the_clock_is_set_back(monkeypatch):
    first = new_id()
    monkeypatch.setattr("loops.store.ids.time.time_ns", lambda: 1_000_000_000)
    assert first < new_id() < new_id()


def test_processes_forked_from_one_each_have_a_chance_of_their_own():
    code = "import os; from loops.store.ids import new_id; os.fork(); os.write(1, new_id()[-13:].encode())"
    over = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert over.stdout[:13] != over.stdout[13:26]
