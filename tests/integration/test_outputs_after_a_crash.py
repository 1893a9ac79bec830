"""An output of which a dead worker left only that writing began: looked for first, and never written twice."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loops.agent.interruption import Abort
from loops.clock import SystemClock
from loops.errors import ExternalError, RunFenced, Unreached
from loops.own_output import Marks
from loops.store import output_answers
from loops.store import outputs as store
from loops.store.database import Database, open_database
from loops.store.outputs import OutputRow
from loops.tasks.equipment import Job
from loops.tasks.outputs.writing import MASKED, Destination, OutputWriter, WritingRules
from loops.tasks.workspace.cache import Base, Remote
from loops.tasks.workspace.git import Access
from tests.conftest import new_sqlite
from tests.doubles.tasks import OWNER, TaskRows

DOWN = Unreached("GitHub", "a call", "ConnectTimeout", sent=False)
REFUSED = ExternalError("GitHub", "is refused with status 403", status=403)


@dataclass
class Desk:
    """A desk where something was left, or nobody answers."""

    found: Any = None
    answers: Any = "https://hub/1#new"
    writes: int = 0
    at: Any = field(default_factory=lambda: SimpleNamespace(login="loops-bot", home="github.com"))

    async def comment(self, _number: int, _body: str) -> Any:
        self.writes += 1
        return self._told(self.answers)

    async def found_comment(self, _number: int, _marker: str, _since: datetime) -> Any:
        return self._told(self.found)

    def _told(self, answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def database(sqlite_template: Path, tmp_path: Path) -> AsyncIterator[Database]:
    opened = open_database(new_sqlite(sqlite_template, tmp_path))
    yield opened
    await opened.aclose()


async def left(database: Database, attempts: int = 1, desk: Desk | None = None) -> tuple[OutputRow, Desk]:
    """What becomes of a comment whose writing began so often."""
    desk, now = desk or Desk(), datetime.now(UTC)
    task = await (await TaskRows(database.writer, "default", "w", "r").create()).begin()

    def begun(connection: Any) -> None:
        body = {"body": "Look.", "subject": 1}
        store.add(connection, task.id, OWNER, "k", "comment", "acme/widgets", body, 1, now)
        for _ in range(attempts):
            store.move(connection, (task.id, 1), OWNER, "uncertain", now, reason="begun", begins=True)

    await database.writer.run(begun)
    how = WritingRules(pauses=(0.0,), settle=timedelta())
    writer = OutputWriter(database.writer, database.reader, SystemClock(), Marks([b"k" * 32]), None, how)  # type: ignore[arg-type]
    claimed = SimpleNamespace(id=task.id, run_id="r", turn=1, request={})
    job = Job(claimed, OWNER, Abort())  # type: ignore[arg-type]
    remote = Remote(1, 17, "acme/widgets", Access("http://hub/acme/widgets.git"), "main")
    to = Destination(desk, remote, Base(Path("/nowhere"), "main", "0" * 40))  # type: ignore[arg-type]
    (row,) = await writer.write(job, to)
    return row, desk


async def test_what_is_there_is_not_written_again(database):
    row, desk = await left(database, desk=Desk(found="https://hub/1#c5"))
    assert (row.status, row.url, row.attempts, desk.writes) == ("written", "https://hub/1#c5", 1, 0)


async def test_what_is_not_there_is_written_once_more(database):
    row, desk = await left(database)
    assert (row.status, row.url, row.attempts, desk.writes) == ("written", "https://hub/1#new", 2, 1)


async def test_where_nobody_can_look_it_stays_uncertain_and_nothing_is_written(database):
    row, desk = await left(database, desk=Desk(found=DOWN))
    assert (row.status, row.attempts, desk.writes) == ("uncertain", 1, 0)
    assert "cannot be reached" in row.reason


async def test_what_is_known_not_to_be_there_and_is_refused_now_is_refused(database):
    row, _ = await left(database, desk=Desk(answers=REFUSED))
    assert (row.status, row.attempts) == ("refused", 2)


async def test_the_third_worker_leaves_it_to_a_person(database):
    row, desk = await left(database, attempts=2)
    assert (row.status, row.reason, desk.writes) == ("uncertain", "begun", 0)


async def test_a_worker_whose_task_was_taken_over_writes_nothing(database):
    now = datetime.now(UTC)
    task = await (await TaskRows(database.writer, "default", "w", "r").create()).begin()
    add = (task.id, "another", "k", "comment", "acme/widgets", {"body": "Look."}, 1, now)
    with pytest.raises(RunFenced):
        await database.writer.run(lambda connection: store.add(connection, *add))
    await task.finish()
    ended = (task.id, OWNER, *add[2:])
    with pytest.raises(RunFenced):
        await database.writer.run(lambda connection: store.add(connection, *ended))


async def test_a_change_of_which_secrets_were_blotted_out_is_written_by_none_but_the_worker_that_read_it(database):
    task, now = await (await TaskRows(database.writer, "default", "w", "r").create()).begin(), datetime.now(UTC)

    def kept(connection: Any) -> None:
        store.add(connection, task.id, OWNER, "k", "pull_request", "acme/widgets", {"title": "Mend it"}, 1, now)
        store.keep_patch(connection, (task.id, 1), OWNER, b"-KEY = '***'", {"sha": "0" * 40, MASKED: True}, now)

    await database.writer.run(kept)
    writer = OutputWriter(database.writer, database.reader, SystemClock(), Marks([b"k" * 32]), None, WritingRules())  # type: ignore[arg-type]
    job = Job(SimpleNamespace(id=task.id, run_id="r", turn=1, request={}), OWNER, Abort())  # type: ignore[arg-type]
    remote = Remote(1, 17, "acme/widgets", Access("http://hub/acme/widgets.git"), "main")
    (row,) = await writer.write(job, Destination(Desk(), remote, Base(Path("/nowhere"), "main", "0" * 40)))  # type: ignore[arg-type]
    assert row.status == "refused"
    assert "the worker that read it died (run the loop again)" in row.reason


@pytest.mark.postgres
async def test_who_waited_for_an_answer_that_took_its_output_away_writes_nothing(postgres_url):
    opened, now, settled = open_database(postgres_url), datetime.now(UTC), threading.Event()
    task = await (await TaskRows(opened.writer, "default", "w", "r").create()).begin()
    this = (task.id, 1)

    def lent(connection: Any) -> None:
        store.add(connection, task.id, OWNER, "k", "comment", "acme/widgets", {"body": "Look."}, 1, now)
        store.move(connection, this, OWNER, "uncertain", now, reason="begun", begins=True)
        connection.execute(store.this_output(this).values(sender="one", due_at=now + timedelta(seconds=20)))

    def settles(connection: Any) -> None:
        row = output_answers.held(connection, this)
        assert row is not None
        output_answers.answered(connection, row, {"did": "happened"}, {"status": "written", "due_at": None}, now)
        settled.set()
        time.sleep(0.2)  # the sender asks for its lease meanwhile

    await opened.writer.run(lent)
    await opened.writer.run(lambda connection: store.keep_lease(connection, this, "one"))
    answer = asyncio.create_task(opened.writer.run(settles))
    await asyncio.to_thread(settled.wait, 10)
    with pytest.raises(RunFenced):
        await opened.writer.run(lambda connection: store.writing_again(connection, this, "one", now))
    await answer
    await opened.aclose()
