"""A loop that fails is told of where it tells its result: once, then at most once an hour, and once when it works
again. SL-29."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loops.runs.alerting import tell_what_is_due
from loops.runs.alerts import EVERY
from loops.runs.state import Failed
from loops.store import alerts as store
from loops.store.database import is_sqlite, open_database
from loops.store.outbox import OutboxRow
from loops.store.workflows import WorkflowRow
from tests.doubles.slack import TOKEN, SlackDouble, limited, says, slack
from tests.integration.office import PROJECT, Office, email_loop, slack_loop

BROKEN = Failed("task.failed", "the model is away")
PARTIAL = Failed("task.timeout", "out of time", partial={"final_message": "half of it"}, told=True)
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def office(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Office]:
    """On SQLite, and on both databases for tests that ask for `database_url`."""
    both = "database_url" in request.fixturenames
    database = open_database(request.getfixturevalue("database_url") if both else f"sqlite:///{tmp_path / 'loops.db'}")
    yield Office(database, alerts=True)
    await database.aclose()


@pytest.fixture
async def double() -> AsyncIterator[SlackDouble]:
    async with slack() as opened:
        yield opened


async def saved(office: Office, document: Mapping[str, Any], name: str = "Triage") -> WorkflowRow:
    return (await office.workflows.create(PROJECT, {**document, "name": name}, "test")).row


@pytest.fixture
async def triage(office: Office, double: SlackDouble) -> WorkflowRow:
    """A loop that posts its report to C1."""
    return await saved(office, slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN)))


async def fails(office: Office, row: WorkflowRow, failure: Failed = BROKEN) -> str:
    office.reports.failure = failure
    run_id = await office.begin(row)
    assert (await office.advance(run_id))["status"] == "failed"
    await office.sender.drain()
    return run_id


async def completes(office: Office, row: WorkflowRow) -> str:
    office.reports.failure = None
    run_id = await office.begin(row)
    await office.advance(run_id)
    await office.sender.drain()
    assert (await office.advance(run_id))["status"] == "completed"
    await office.sender.drain()
    return run_id


def alert_of(run_id: str, more: str = "") -> str:
    link = f"<https://loops.example.org/runs/{run_id}|The run>"
    return "\n".join(
        part for part in ("Triage failed.", "```\ncreate_task: the model is away\n```", more, link) if part
    )


async def test_failures_are_told_once_an_hour_with_a_count_and_the_recovery_once(database_url, office, double, triage):
    first = await fails(office, triage)
    assert double.texts() == [alert_of(first)]
    (row,) = await office.of(first)
    assert (row.status, row.step_id, row.key) == ("sent", None, f"{first}:alert")
    for _more in range(3):
        office.clock.time += 10 * MINUTE
        await fails(office, triage)
    assert len(double.texts()) == 1
    office.clock.time += 40 * MINUTE
    fifth = await fails(office, triage)
    assert double.texts()[1:] == [alert_of(fifth, "3 more runs failed since the last alert.")]
    sixth = await completes(office, triage)
    recovered = f"Triage works again.\nIt failed 5 times before.\n<https://loops.example.org/runs/{sixth}|The run>"
    assert sorted(double.texts()[2:]) == ["All is *well*", recovered]
    await completes(office, triage)
    assert double.texts()[4:] == ["All is *well*"]


async def test_a_run_that_a_full_quota_skipped_tells_of_no_recovery_and_forgets_no_failure(office, double, triage):
    await fails(office, triage)
    office.reports.skipped = "The quota is full."
    skipped = await completes(office, triage)
    assert [text for text in double.texts() if "works again" in text] == []
    assert (await office.run(skipped))["reason"] == "skipped: The quota is full."
    office.reports.skipped = ""
    await completes(office, triage)
    assert len([text for text in double.texts() if "works again" in text]) == 1


async def test_a_loop_that_fails_and_works_in_turn_makes_no_storm(office, double, triage):
    for _turn in range(5):
        office.clock.time += MINUTE
        await fails(office, triage)
        office.clock.time += MINUTE
        await completes(office, triage)
    told = [text.splitlines()[0] for text in double.texts() if text.startswith("Triage")]
    assert told == ["Triage failed.", "Triage works again."]


async def test_failures_that_nobody_was_told_of_are_told_when_the_hour_is_over(database_url, office, double, triage):
    database = office.database
    await fails(office, triage)
    await fails(office, triage)
    last = await fails(office, triage)
    office.clock.time += EVERY - MINUTE
    assert await tell_what_is_due(office.alerting, database.writer, database.reader, office.clock) == 0
    office.clock.time += MINUTE
    looks = (tell_what_is_due(office.alerting, database.writer, database.reader, office.clock) for _look in range(3))
    assert sum(await asyncio.gather(*looks)) == 1
    await office.sender.drain()
    assert double.texts()[1:] == [alert_of(last, "1 more run failed since the last alert.")]


async def test_a_notice_that_cannot_be_made_is_put_off_to_the_next_failure(office, triage, monkeypatch, caplog):
    database = office.database
    await fails(office, triage)
    await fails(office, triage)
    office.clock.time += EVERY

    def broken(*_arguments: object) -> None:
        raise RuntimeError("nothing is known")

    with monkeypatch.context() as patched:
        patched.setattr(store, "target", broken)
        assert await tell_what_is_due(office.alerting, database.writer, database.reader, office.clock) == 1
    assert "could not be" in caplog.text
    assert await tell_what_is_due(office.alerting, database.writer, database.reader, office.clock) == 0
    (message,) = await office.of(await fails(office, triage))
    assert "1 more run failed since the last alert." in message.message["text"]


async def test_a_task_that_told_its_partial_result_is_not_told_of_again(office, double, triage):
    run_id = await fails(office, triage, PARTIAL)
    assert [row.step_id for row in await office.of(run_id)] == ["notify"]
    assert len(double.texts()) == 1
    assert double.texts()[0].startswith("Incomplete: the task did not end by itself.")
    await completes(office, triage)
    assert [text.splitlines()[0] for text in double.texts() if text.startswith("Triage")] == ["Triage works again."]


async def test_of_runs_that_fail_together_one_is_the_first(database_url, office, double, triage):
    office.reports.failure = BROKEN
    run_ids = [await office.begin(triage) for _run in range(6)]
    others = [] if is_sqlite(office.database.url) else [open_database(office.database.url)]
    offices = [office, *(Office(database, alerts=True) for database in others)]
    for one in offices:
        one.reports.failure = BROKEN
    await asyncio.gather(*(offices[n % len(offices)].advance(run_id) for n, run_id in enumerate(run_ids)))
    for database in others:
        await database.aclose()
    messages = [row for run_id in run_ids for row in await office.of(run_id)]
    assert [row.key.partition(":")[2] for row in messages] == ["alert"]
    known = await office.write(lambda connection: store.known(connection, triage.id))
    assert known is not None
    assert (known.failures, known.untold) == (6, 5)


async def test_sl_29_what_could_not_be_told_over_a_channel_is_not_told_over_it_again(office, double, triage):
    double.faults = [says(error="restricted_action")]
    office.reports.failure = None
    run_id = await office.begin(triage)
    await office.advance(run_id)
    await office.sender.drain()
    assert (await office.advance(run_id))["reason"].startswith("notify: Slack refuses the message to C1")
    await office.sender.drain()
    messages: dict[str, OutboxRow] = {row.key: row for row in await office.of(run_id)}
    assert messages[f"{run_id}:alert"].kind == "page"
    assert messages[f"{run_id}:alert"].status == "shown"
    assert double.texts() == []
    again = await office.begin(triage)
    double.faults = [says(error="restricted_action")]
    await office.advance(again)
    await office.sender.drain()
    await office.advance(again)
    assert [row.step_id for row in await office.of(again)] == ["notify"]


async def test_sl_29_a_rate_limit_is_waited_for_and_told_to_nobody(office, double, triage):
    double.faults = [limited(30)]
    run_id = await office.to_its_message_of(triage)
    await office.sender.drain()
    assert [(row.step_id, row.status) for row in await office.of(run_id)] == [("notify", "retry")]
    office.clock.time += 2 * MINUTE
    await office.sender.drain()
    assert (await office.advance(run_id))["status"] == "completed"
    assert double.texts() == ["All is *well*"]


async def test_an_alert_that_is_refused_makes_no_other(office, double, triage):
    double.faults = [says(error="invalid_auth")]
    run_id = await fails(office, triage)
    (row,) = await office.of(run_id)
    assert (row.status, row.code) == ("refused", "invalid_auth")
    assert await office.sender.drain() == 0
    assert (await office.run(run_id))["status"] == "failed"


async def test_a_loop_that_names_nobody_is_told_of_on_the_page(office, double):
    connection = await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN)
    row = await saved(office, slack_loop(connection, channel="{event.properties.channel}"))
    (message,) = await office.of(await fails(office, row))
    assert (message.kind, message.status) == ("page", "shown")
    assert "the model is away" in message.message["text"]


async def test_a_loop_that_mails_its_result_mails_its_failures(office):
    config = {"host": "127.0.0.1", "port": "1", "from": "loops@example.org", "security": "none"}
    number = await office.connect("smtp", config)
    document = email_loop(number, to={"email": "ada@example.org"})
    (row,) = await office.of(await fails(office, await saved(office, document)))
    assert (row.kind, row.connection_id, row.message["subject"]) == ("email", number, "Triage failed")
    assert row.message["target"]["to"] == [{"email": "ada@example.org", "name": ""}]


async def test_a_project_may_hear_of_all_failures_in_one_place(office, double, triage):
    number = await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN)
    double.infos["C2"] = {"is_member": True}
    target: dict[str, Any] = {"kind": "slack", "connection": number, "to": "C2"}
    await office.write(lambda connection: store.set_target(connection, PROJECT, target))
    await fails(office, triage, PARTIAL)
    assert (len(double.texts("C1")), len(double.texts("C2"))) == (1, 1)
    assert double.texts("C2")[0].startswith("Triage failed.")
    await office.write(lambda connection: store.set_target(connection, PROJECT, {"kind": "page"}))
    other = await saved(office, slack_loop(number), "Other")
    (message,) = await office.of(await fails(office, other))
    assert message.kind == "page"


async def test_a_target_that_cannot_be_one_is_told_of_on_the_page(office, triage):
    target: dict[str, Any] = {"kind": "slack", "connection": 1, "to": "no channel"}
    await office.write(lambda connection: store.set_target(connection, PROJECT, target))
    (message,) = await office.of(await fails(office, triage))
    assert message.kind == "page"


async def test_runs_that_end_without_a_step_are_told_of_too(office, double, triage):
    damaged = await office.begin(triage)
    broken = {**triage.definition, "edges": []}
    await office.write(lambda connection: _set_revision(connection, triage, broken))
    office.programs._kept.clear()
    assert (await office.advance(damaged))["reason"].startswith("definition: ")
    assert [row.key for row in await office.of(damaged)] == [f"{damaged}:alert"]
    office.clock.time += EVERY
    dead = await office.begin(triage)
    await office.write(lambda connection: office.alerting.given_up(connection, dead, "its worker died"))
    assert [row.key for row in await office.of(dead)] == [f"{dead}:alert"]


def _set_revision(connection: Any, row: WorkflowRow, definition: Mapping[str, Any]) -> None:
    from loops.store.tables import revisions

    here = (revisions.c.workflow_id == row.id, revisions.c.version == row.version)
    connection.execute(revisions.update().where(*here).values(definition=definition))


async def test_a_run_that_was_cancelled_is_neither_a_failure_nor_a_success(office, triage):
    await fails(office, triage)
    run_id = await office.to_its_message_of(triage)
    await office.cancel(run_id)
    known = await office.write(lambda connection: store.known(connection, triage.id))
    assert known is not None
    assert (known.is_failing, known.failures) == (True, 1)
    assert [row.key for row in await office.of(run_id)] == [f"{run_id}:notify"]


async def test_telling_that_goes_wrong_leaves_the_run_over(office, triage, monkeypatch, caplog):
    def broken(*_arguments: object) -> None:
        raise RuntimeError("nothing is known")

    monkeypatch.setattr(store, "held", broken)
    run_id = await fails(office, triage)
    assert await office.of(run_id) == []
    assert "could not be decided" in caplog.text
