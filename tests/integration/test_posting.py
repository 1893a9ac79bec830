"""A step puts its message, its run waits, and is woken once when the message has come to rest: on both databases."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from loops.errors import Conflict, NotFound
from loops.ports import Messages, Origin, Posted
from loops.store import connections, run_requests, runs
from loops.store import outbox as store
from loops.store.database import engine_for, open_database
from loops.store.outbox import OutboxRow
from loops.store.run_requests import CancelRequest
from loops.store.tables import outbox, projects
from loops.store.tables import runs as runs_table
from notify.enqueue import Outbox
from tests.doubles.slack import TOKEN, SlackDouble, limited, says, slack
from tests.integration.office import PROJECT, SLACK_INPUTS, Office, email_loop, slack_loop


@pytest.fixture
async def office(database_url: str) -> AsyncIterator[Office]:
    database = open_database(database_url)
    yield Office(database)
    await database.aclose()


@pytest.fixture
async def double() -> AsyncIterator[SlackDouble]:
    async with slack() as opened:
        yield opened


@pytest.fixture
async def to_slack(office: Office, double: SlackDouble) -> dict[str, Any]:
    """A loop that posts its report to a channel of the double."""
    return slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))


def test_the_outbox_is_what_steps_ask_for(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'loops.db'}")
    messages: Messages = Office(database).messages
    assert callable(messages.put)
    asyncio.run(database.aclose())


# A run and its message


async def test_a_step_posts_its_message_waits_for_it_and_goes_on_once(office, double, to_slack):
    run_id = await office.to_its_message(to_slack)
    assert double.texts() == []
    assert await office.sender.drain() == 1
    assert office.engine.woken == [(run_id, 1)]
    assert (await office.run(run_id))["status"] == "queued"
    assert (await office.advance(run_id))["status"] == "completed"
    (row,) = await office.of(run_id)
    (posted,) = double.posted["C1"]
    result = {"id": row.id, "status": "sent", "refs": [posted["ts"]], "missed": []}
    assert (await office.step(run_id))["result"] == result
    assert double.texts() == ["All is *well*"]
    assert await office.sender.drain() == 0
    assert office.engine.woken == [(run_id, 1)]


async def test_a_step_that_acts_again_after_a_crash_has_one_message(office, double, to_slack):
    run_id = await office.start(to_slack)
    origin = Origin(PROJECT, run_id, "notify", f"{run_id}:notify")
    inputs = {**SLACK_INPUTS, "text": "before the crash"}
    first = await office.write(lambda connection: office.messages.put(connection, "slack", inputs, origin))
    await office.advance(run_id)
    assert [row.id for row in await office.of(run_id)] == [first.id]
    await office.sender.drain()
    again = await office.write(lambda connection: office.messages.put(connection, "slack", inputs, origin))
    assert (again.id, again.status, again.rests) == (first.id, "sent", True)
    assert double.texts() == ["before the crash"]


async def test_a_step_that_acts_again_after_its_message_was_sent_does_not_wait(office, to_slack):
    run_id = await office.start(to_slack)
    origin = Origin(PROJECT, run_id, "notify", f"{run_id}:notify")
    await office.write(lambda connection: office.messages.put(connection, "slack", SLACK_INPUTS, origin))
    await office.sender.drain()
    assert office.engine.woken == []
    assert (await office.advance(run_id))["status"] == "completed"


async def test_a_message_that_cannot_be_made_fails_its_step_and_stores_nothing(office, to_slack):
    office.reports.report = " \n"
    run_id = await office.start(to_slack)
    run = await office.advance(run_id)
    assert run["status"] == "failed"
    error = (await office.step(run_id))["error"]
    assert error["code"] == "step.failed"
    assert "would be empty" in error["message"]
    assert error["hint"]
    assert await office.of(run_id) == []


async def test_a_crash_before_the_engine_is_told_leaves_the_run_woken_for_the_sweeper(office, to_slack, caplog):
    run_id = await office.to_its_message(to_slack)
    office.engine.away = True
    await office.sender.drain()
    assert office.engine.woken == []
    later = office.clock.now() + timedelta(minutes=1)
    assert await office.database.reader.read(lambda c: runs.woken(c, before=later)) == [(run_id, 1)]
    assert "waits for the sweeper" in caplog.text
    assert (await office.advance(run_id))["status"] == "completed"


async def test_the_run_is_woken_in_the_transaction_that_stores_the_messages_end(office, to_slack, monkeypatch):
    run_id = await office.to_its_message(to_slack)

    async def killed(_row: OutboxRow) -> None:
        raise KeyboardInterrupt

    listener = office.sender._listener
    monkeypatch.setattr(office.sender, "_listener", type(listener)(listener.within, killed))
    with pytest.raises(KeyboardInterrupt):
        await office.sender._see_to((await office.write(office_claim(office)))[0])
    (row,) = await office.of(run_id)
    assert row.status == "sent"
    run = await office.run(run_id)
    assert (run["status"], run["wake"]) == ("queued", {"message": row.id})


def office_claim(office: Office) -> Callable[[sa.Connection], list[OutboxRow]]:
    """What the sender does first, as a transaction."""
    return lambda connection: office.sender._claim(connection, office.clock.now(), 1, set())


async def test_a_rate_limited_message_is_sent_later_and_wakes_its_run_then(office, double, to_slack):
    double.faults = [limited(30)]
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    assert office.engine.woken == []
    office.clock.time += timedelta(seconds=31)
    await office.sender.drain()
    assert office.engine.woken == [(run_id, 1)]


async def test_a_message_that_was_refused_fails_its_step_with_what_mends_it_and_sends_no_other(
    office, double, to_slack
):
    double.faults = [says(error="missing_scope", needed="im:write", provided="chat:write")]
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    run = await office.advance(run_id)
    assert run["status"] == "failed"
    error = (await office.step(run_id))["error"]
    assert error["code"] == "message.refused"
    assert "needed im:write, provided chat:write" in error["message"]
    assert "install the app anew" in error["hint"]
    assert len(await office.of(run_id)) == 1
    office.clock.time += timedelta(hours=1)
    assert await office.sender.drain() == 0
    assert [name for name, _asked in double.calls] == ["conversations.info", "chat.postMessage"]


async def test_a_message_that_is_sent_again_after_its_run_was_over_wakes_nobody(office, double, to_slack):
    double.faults = [says(error="is_archived")]
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    await office.advance(run_id)
    (row,) = await office.of(run_id)
    await office.write(lambda connection: Outbox(office.clock).send_again(connection, PROJECT, row.id))
    await office.sender.drain()
    assert double.texts() == ["All is *well*"]
    assert office.engine.woken == [(run_id, 1)]
    assert (await office.run(run_id))["status"] == "failed"


async def test_a_secret_that_a_report_holds_is_blotted_out_before_it_is_stored(office):
    messages, _sender = office.outbox(mask=lambda text: text.replace("hunter22", "***"))
    inputs = {**SLACK_INPUTS, "text": "the password is hunter22"}
    posted = await office.write(lambda c: messages.put(c, "slack", inputs, Origin(PROJECT, "r", "notify", "k")))
    row = await office.database.reader.read(lambda connection: store.get(connection, posted.id))
    assert row.message["text"] == "the password is ***"


@pytest.mark.parametrize("text", ["a\0b", "half \ud83d of it"])
async def test_text_that_no_database_takes_is_stored_all_the_same(office, text: str):
    inputs = {**SLACK_INPUTS, "text": text}
    origin = Origin(PROJECT, "r", "notify", "k")
    posted = await office.write(lambda connection: office.messages.put(connection, "slack", inputs, origin))
    row = await office.database.reader.read(lambda connection: store.get(connection, posted.id))
    assert row.message["text"] == re.sub("[\0\ud800-\udfff]", "\ufffd", text)


# Without a connection

NONE_AT_ALL = "this project has no Slack connection"


async def test_without_a_connection_the_message_is_shown_and_its_run_goes_on(office):
    run_id = await office.start(slack_loop(7))
    assert (await office.advance(run_id))["status"] == "completed"
    (row,) = await office.of(run_id)
    assert (row.status, row.reason, row.due_at) == ("shown", NONE_AT_ALL, None)
    assert "slack_workspace" in row.mend
    assert row.message["text"] == "All is **well**"
    result = {"id": row.id, "status": "shown", "refs": [], "missed": []}
    assert (await office.step(run_id))["result"] == result
    assert await office.sender.drain() == 0


@pytest.mark.parametrize("given", [2**31, 2**63 - 1])
async def test_an_id_that_no_connection_can_have_is_that_of_none(office, given: int):
    there = await office.connect("slack", {}, bot_token=TOKEN)
    run_id = await office.start(slack_loop(str(given)))
    assert (await office.advance(run_id))["status"] == "failed"
    (row,) = await office.of(run_id)
    assert (row.status, row.code, row.reason) == ("refused", "no_connection", f"this project has no connection {given}")
    error = (await office.step(run_id))["error"]
    assert (error["code"], error["message"]) == ("message.refused", row.reason)
    assert f"Slack connections of this project: {there} (" in error["hint"]
    assert await office.sender.drain() == 0


async def test_case_98_a_connection_of_another_project_is_none_and_is_not_named(office, double):
    project = {"id": "other", "name": "other", "time_zone": "UTC", "created_at": office.clock.now()}
    await office.write(lambda connection: connection.execute(projects.insert().values(**project)))
    other = await office.connect("slack", {"api_base_url": double.url}, project="other", bot_token=TOKEN)
    run_id = await office.start(slack_loop(other))
    await office.advance(run_id)
    (row,) = await office.of(run_id)
    assert (row.status, row.reason) == ("shown", NONE_AT_ALL)
    ours = await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN)
    run_id = await office.start(slack_loop(other))
    assert (await office.advance(run_id))["status"] == "failed"
    (row,) = await office.of(run_id)
    assert (row.status, row.reason) == ("refused", f"this project has no connection {other}")
    assert f"{ours} (" in row.mend
    assert f"{other} (" not in row.mend
    assert await office.sender.drain() == 0
    assert double.texts() == []


async def test_case_99_a_template_sees_the_id_of_a_connection_and_never_its_token(office, double):
    number = await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN)
    whole = "{inputs.slack_workspace} {inputs.slack_workspace.access_token}{inputs.slack_workspace.bot_token} {inputs}"
    run_id = await office.to_its_message(slack_loop(number, text=whole))
    (row,) = await office.of(run_id)
    assert row.message["text"].startswith(f"{number}  {{'slack_workspace': {number}, ")
    assert TOKEN not in str(row)


async def test_a_connection_of_another_kind_sends_nothing_and_the_message_says_so(office):
    mail = await office.connect("smtp", {"host": "mail.example.org", "from": "loops@example.org"})
    await office.connect("slack", {}, bot_token=TOKEN)
    run_id = await office.start(slack_loop(mail))
    assert (await office.advance(run_id))["status"] == "failed"
    (row,) = await office.of(run_id)
    assert row.status == "refused"
    assert "is of kind smtp, not slack" in row.reason


async def test_a_step_that_names_no_connection_is_as_one_that_names_a_wrong_one(office):
    inputs = {**SLACK_INPUTS, "slack_workspace": None}
    origin = Origin(PROJECT, "r", "notify", "k")
    shown = await office.write(lambda connection: office.messages.put(connection, "slack", inputs, origin))
    assert (shown.status, shown.rests, shown.reason) == ("shown", True, NONE_AT_ALL)
    await office.connect("slack", {}, bot_token=TOKEN)
    origin = Origin(PROJECT, "r", "notify", "k2")
    refused = await office.write(lambda connection: office.messages.put(connection, "slack", inputs, origin))
    assert (refused.status, refused.rests, refused.reason) == ("refused", True, "no Slack connection is named")


async def test_a_slack_connection_that_cannot_post_fails_the_step_when_its_message_is_to_be_sent(office):
    receives_only = await office.connect("slack", {}, signing_secret="s" * 32)
    run_id = await office.to_its_message(slack_loop(receives_only))
    await office.sender.drain()
    assert office.engine.woken == [(run_id, 1)]
    assert (await office.advance(run_id))["status"] == "failed"
    (row,) = await office.of(run_id)
    assert (row.status, row.code) == ("refused", "no_connection")
    assert "bot_token" in row.reason
    assert "--set bot_token" in (await office.step(run_id))["error"]["hint"]


@pytest.mark.parametrize(("others", "status", "run"), [(0, "shown", "completed"), (1, "refused", "failed")])
async def test_a_connection_that_is_deleted_before_its_message_leaves_is_none(office, others: int, status, run):
    gone = await office.connect("slack", {}, bot_token=TOKEN)
    run_id = await office.to_its_message(slack_loop(gone))
    await office.write(lambda connection: connections.delete(connection, PROJECT, gone))
    for _number in range(others):
        await office.connect("slack", {}, bot_token=TOKEN)
    await office.sender.drain()
    assert (await office.advance(run_id))["status"] == run
    (row,) = await office.of(run_id)
    assert row.status == status
    assert ("Slack connections of this project" in row.mend) == bool(others)


async def test_an_email_over_a_connection_that_is_none_fails_its_step_where_there_is_one(office):
    there = await office.connect("smtp", {"host": "mail.example.org", "from": "loops@example.org"})
    slack_one = await office.connect("slack", {}, bot_token=TOKEN)
    mail = {"from": {"integrationId": slack_one}, "to": {"email": "ada@example.org"}, "subject": "s", "text": "t"}
    origin = Origin(PROJECT, "r", "notify", "k")
    refused = await office.write(lambda c: office.messages.put(c, "email", {"email": mail}, origin))
    assert (refused.status, refused.code) == ("refused", "no_connection")
    assert "is of kind slack, not smtp" in refused.reason
    assert f"from.integrationId. SMTP connections of this project: {there} (" in refused.mend


# What is said of it where a workflow is saved


async def test_saving_and_enabling_warn_of_connections_that_would_not_do(office):
    ours = await office.connect("slack", {}, bot_token=TOKEN)
    path = "actions[2].config.inputs.slack_workspace"

    async def warned(document: dict[str, Any]) -> list[tuple[str, str]]:
        saved = await office.workflows.apply(PROJECT, {**document, "name": "w"}, "test", enable=True)
        enabled = await office.workflows.enable(PROJECT, saved.row.id, "test")
        checked = await office.workflows.check(PROJECT, {**document, "name": "w"})
        assert saved.warnings == enabled.warnings == checked
        return [(one.path, one.message) for one in checked if one.path.startswith("actions[2].config.inputs")]

    assert await warned(slack_loop(ours)) == []
    assert await warned(slack_loop(str(ours))) == []
    assert await warned(slack_loop(77)) == [(path, "this project has no connection 77: its step will fail")]
    mail = await office.connect("smtp", {"host": "mail.example.org", "from": "loops@example.org"})
    ((_path, words),) = await warned(slack_loop(mail))
    assert words.endswith("is of kind smtp, not slack: its step will fail")
    await office.write(lambda connection: connections.delete(connection, PROJECT, ours))
    none = "this project has no Slack connection: its message is shown on the page alone"
    assert await warned(slack_loop(ours)) == [(path, none)]
    inside = "actions[2].config.inputs.email.value.from.integrationId"
    assert await warned(email_loop(mail)) == []
    assert await warned(email_loop(77)) == [(inside, "this project has no connection 77: its step will fail")]


# Cancelling


async def test_cancelling_a_run_takes_its_message_back(office, double, to_slack):
    run_id = await office.to_its_message(to_slack)
    assert (await office.cancel(run_id)).status == "cancelled"
    (row,) = await office.of(run_id)
    assert (row.status, row.reason, row.due_at) == ("withdrawn", "its run was cancelled", None)
    assert await office.sender.drain() == 0
    assert double.texts() == []
    assert office.engine.woken == []


async def test_a_message_that_waits_for_another_attempt_is_taken_back(office, double, to_slack):
    double.faults = [limited(30)]
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    assert (await office.cancel(run_id)).status == "cancelled"
    office.clock.time += timedelta(minutes=1)
    assert await office.sender.drain() == 0
    assert double.texts() == []


async def test_a_run_whose_message_is_being_sent_ends_as_cancelled_once_that_is_over(office, double, to_slack):
    answers: list[CancelRequest] = []

    async def cancel_meanwhile(_request: Any) -> None:
        answers.append(await office.cancel(run_id))

    double.faults = [cancel_meanwhile]
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    assert [answer.status for answer in answers] == ["running"]
    assert office.engine.woken == [(run_id, 1)]
    assert (await office.advance(run_id))["status"] == "cancelled"
    (row,) = await office.of(run_id)
    assert row.status == "sent"


async def test_what_was_withdrawn_refused_or_shown_need_not_be_stopped_and_what_was_sent_cannot_be(office, to_slack):
    run_id = await office.to_its_message(to_slack)
    (row,) = await office.of(run_id)

    async def stands(status: str) -> bool:
        values = {"status": status, "due_at": None, "version": outbox.c.version + 1}
        await office.write(lambda connection: connection.execute(outbox.update().values(**values)))
        return bool(await office.write(lambda connection: office.messages.withdraw(connection, row.id)))

    assert [await stands(status) for status in ("withdrawn", "refused", "shown")] == [True, True, True]
    assert [await stands(status) for status in ("sending", "sent", "uncertain")] == [False, False, False]
    with pytest.raises(NotFound):
        await office.write(lambda connection: office.messages.withdraw(connection, "nothing"))
    with pytest.raises(NotFound):
        await office.write(lambda connection: office.messages.state(connection, "nothing"))


async def test_cancelling_while_messages_are_sent_comes_to_one_end_for_each_run(office, double, to_slack, caplog):
    ids = [await office.to_its_message(to_slack) for _number in range(12)]

    async def cancel_soon(run_id: str, pause: float) -> str:
        await asyncio.sleep(pause)
        try:
            return str((await office.cancel(run_id)).status)
        except Conflict:  # it was woken, acted and is over
            return "over"

    cancels = [cancel_soon(run_id, number * 0.01) for number, run_id in enumerate(reversed(ids))]
    _drained, *came = await asyncio.gather(office.sender.drain(), *cancels)
    await office.sender.drain()
    assert "not stored yet" not in caplog.text
    assert set(came) <= {"cancelled", "running", "over"}
    ends = []
    for run_id in ids:
        (row,) = await office.of(run_id)
        run = await office.run(run_id)
        ends.append((row.status, run["status"]))
    woken = [run_id for run_id, _seq in office.engine.woken]
    assert len(woken) == len(set(woken))
    # A run that was woken may still be cancelled before it acts; a message that was taken back is never posted.
    assert {run_id for run_id, end in zip(ids, ends, strict=True) if end == ("sent", "queued")} <= set(woken)
    assert not set(woken) & {run_id for run_id, end in zip(ids, ends, strict=True) if end == ("withdrawn", "cancelled")}
    # What the sender took back, since it met the cancel, wakes its run to end.
    assert {run_id for run_id, end in zip(ids, ends, strict=True) if end == ("withdrawn", "queued")} <= set(woken)
    sent = {("sent", "queued"), ("sent", "cancelled")}
    assert set(ends) <= {("withdrawn", "cancelled"), ("withdrawn", "queued")} | sent
    assert len(double.texts()) == sum(message == "sent" for message, _run in ends)


@pytest.mark.postgres
async def test_a_step_that_looks_at_its_message_waits_for_whoever_stores_its_end(postgres_url: str, double):
    database = open_database(postgres_url)
    office = Office(database)
    document = slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))
    run_id = await office.to_its_message(document)
    (row,) = await office.of(run_id)
    engine = engine_for(postgres_url)

    def look() -> Posted:
        with engine.begin() as connection:
            return office.messages.state(connection, row.id)

    with engine.begin() as connection:
        run_requests.hold(connection, run_id)
        looking = asyncio.ensure_future(asyncio.to_thread(look))
        await asyncio.sleep(0.3)
        assert not looking.done()
        assert store.change(connection, row, {"status": "sent", "due_at": None}, office.clock.now())
    assert (await looking).status == "sent"
    engine.dispose()
    await database.aclose()


@pytest.mark.postgres
async def test_a_messages_end_waits_for_a_step_that_looks_at_it_and_parks(postgres_url: str, double):
    database = open_database(postgres_url)
    office = Office(database)
    run_id = await office.start(
        slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))
    )
    origin = Origin(PROJECT, run_id, "notify", "k")
    put = await office.write(lambda connection: office.messages.put(connection, "slack", SLACK_INPUTS, origin))
    parked, looked = asyncio.Event(), asyncio.Event()

    async def until_looked(_request: Any) -> None:
        parked.set()
        await looked.wait()

    double.faults = [until_looked]
    engine = engine_for(postgres_url)
    draining = asyncio.ensure_future(office.sender.drain())
    await parked.wait()
    with engine.begin() as connection:
        assert office.messages.state(connection, put.id).status == "sending"
        looked.set()
        await asyncio.sleep(0.5)
        assert (await office.of(run_id))[0].status == "sending"
        waits = {"status": "waiting", "position": "notify", "seq": 1}
        connection.execute(runs_table.update().where(runs_table.c.id == run_id).values(**waits))
    await draining
    assert office.engine.woken == [(run_id, 1)]
    engine.dispose()
    await database.aclose()


@pytest.mark.postgres
async def test_a_message_that_another_process_holds_is_not_taken_back_and_nobody_waits(postgres_url: str, double):
    database = open_database(postgres_url)
    office = Office(database)
    document = slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))
    run_id = await office.to_its_message(document)
    (row,) = await office.of(run_id)
    engine = engine_for(postgres_url)
    with engine.begin() as connection:
        store.held(connection, row.id)
        async with asyncio.timeout(5):
            assert not await office.write(lambda other: office.messages.withdraw(other, row.id))
    assert (await office.of(run_id))[0].status == "pending"
    engine.dispose()
    await database.aclose()


async def test_a_message_whose_cancel_came_while_it_was_looked_at_is_taken_back_and_its_run_woken(
    office, double, to_slack
):
    kept, run_id = await office.to_its_message(to_slack), await office.to_its_message(to_slack)
    now = office.clock.now()
    # As a withdrawal does that meets the look of a sender at the message.
    asked = await office.write(lambda c: run_requests.request_cancel(c, run_id, now, lambda *_wait: False))
    assert asked.status == "running"
    await office.sender.drain()
    (row,) = await office.of(run_id)
    assert (row.status, row.reason, row.due_at) == ("withdrawn", "its run was cancelled", None)
    assert len(double.texts()) == 1
    assert sorted(office.engine.woken) == sorted([(kept, 1), (run_id, 1)])
    assert (await office.advance(run_id))["status"] == "cancelled"
    assert (await office.of(kept))[0].status == "sent"


async def test_a_cancelled_runs_message_is_taken_back_also_while_its_connection_asks_for_patience(
    office, double, to_slack
):
    double.faults = [limited(3000)]
    first, run_id = await office.to_its_message(to_slack), await office.to_its_message(to_slack)
    await office.sender.drain()
    now = office.clock.now()
    await office.write(lambda c: run_requests.request_cancel(c, run_id, now, lambda *_wait: False))
    await office.sender.drain()
    assert (await office.of(run_id))[0].status == "withdrawn"
    assert (await office.of(first))[0].status == "retry"
    assert office.engine.woken == [(run_id, 1)]


async def test_what_a_person_asks_for_after_its_run_was_cancelled_is_sent(office, double, to_slack):
    double.faults = [says(error="is_archived")]
    run_id = await office.to_its_message(to_slack)
    now = office.clock.now()
    (row,) = await office.of(run_id)
    await office.sender.drain()
    await office.write(lambda c: run_requests.request_cancel(c, run_id, now, lambda *_wait: True))
    assert (await office.advance(run_id))["status"] == "cancelled"
    await office.write(lambda connection: Outbox(office.clock).send_again(connection, PROJECT, row.id))
    await office.sender.drain()
    assert double.texts() == ["All is *well*"]


# A message that takes too long


def going_on(document: dict[str, Any]) -> dict[str, Any]:
    """The same loop, but it goes on when its message fails, and waits before it ends."""
    notify = next(action for action in document["actions"] if action["id"] == "notify")
    pause = {"id": "pause", "name": "Pause", "type": "delay", "config": {"delay_duration": "2d"}}
    actions = [one for one in document["actions"] if one["id"] != "exit"]
    made = [{**one, "on_error": "continue"} if one is notify else one for one in actions] + [
        pause,
        document["actions"][-1],
    ]
    ids = [action["id"] for action in made]
    edges = [{"from": one, "to": other, "type": "continue"} for one, other in itertools.pairwise(ids)]
    return {**document, "actions": made, "edges": edges}


async def test_a_step_that_waits_no_longer_leaves_no_message_that_a_cancelled_run_would_post(office, double, to_slack):
    double.faults = [limited(1), limited(600)]
    run_id = await office.to_its_message(going_on(to_slack))
    await office.sender.drain()
    office.clock.time += timedelta(hours=5, minutes=58)
    await office.sender.drain()
    office.clock.time += timedelta(minutes=3)
    run = await office.advance(run_id)
    assert (run["status"], run["position"]) == ("waiting", "pause")
    error = (await office.step(run_id))["error"]
    assert error["code"] == "message.late"
    assert error["message"] == "given up, as its step waits no longer: Slack asks for fewer messages"
    (row,) = await office.of(run_id)
    assert (row.status, row.code, row.due_at) == ("refused", "late", None)

    assert (await office.cancel(run_id)).status == "cancelled"
    office.clock.time += timedelta(hours=30)
    await office.sender.drain()
    assert double.texts() == []
    await office.write(lambda connection: Outbox(office.clock).send_again(connection, PROJECT, row.id))
    await office.sender.drain()
    assert double.texts() == ["All is *well*"]


async def test_a_message_whose_turn_has_come_is_waited_for_however_late_it_is(office, double, to_slack):
    run_id = await office.to_its_message(to_slack)
    office.clock.time += timedelta(days=2)  # nobody was there to send it
    run = await office.advance(run_id)
    assert (run["status"], run["wait"]["kind"]) == ("waiting", "message")
    assert run["deadline_at"] - office.clock.now() == timedelta(minutes=1)
    await office.sender.drain()
    assert (await office.advance(run_id))["status"] == "completed"
    assert double.texts() == ["All is *well*"]


async def test_a_message_that_is_being_sent_or_looked_for_is_waited_for_until_that_is_over(office, double, to_slack):
    looked: list[tuple[str, str]] = []

    async def look_meanwhile(_request: Any) -> None:
        office.clock.time += timedelta(hours=7)
        (row,) = await office.of(run_id)
        looked.append((row.status, (await office.advance(run_id))["status"]))
        office.clock.time -= timedelta(hours=7)

    double.faults = [look_meanwhile]
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    assert looked == [("sending", "waiting")]
    assert (await office.advance(run_id))["status"] == "completed"
    assert len(double.texts()) == 1


@pytest.mark.postgres
async def test_a_cancel_that_meets_the_look_of_another_process_sends_nothing(postgres_url: str, double):
    database = open_database(postgres_url)
    office = Office(database)
    document = slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))
    run_id = await office.to_its_message(document)
    engine = engine_for(postgres_url)
    with engine.connect() as other:
        assert len(store.due(other, office.clock.now() + timedelta(seconds=1), 8)) == 1
        assert (await office.cancel(run_id)).status == "running"
        assert (await office.run(run_id))["status"] == "waiting"
        other.rollback()
    await office.sender.drain()
    assert double.texts() == []
    assert [row.status for row in await office.of(run_id)] == ["withdrawn"]
    assert office.engine.woken == [(run_id, 1)]
    assert (await office.advance(run_id))["status"] == "cancelled"
    engine.dispose()
    await database.aclose()


@pytest.mark.postgres
async def test_a_message_is_not_claimed_while_its_run_is_being_cancelled(postgres_url: str, double):
    database = open_database(postgres_url)
    office = Office(database)
    document = slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))
    run_id = await office.to_its_message(document)
    engine, now = engine_for(postgres_url), office.clock.now()
    with engine.begin() as canceller:
        run_requests.request_cancel(canceller, run_id, now, lambda *_wait: False)
        async with asyncio.timeout(5):
            assert await office.sender.begin() == 0
        assert [row.status for row in await office.of(run_id)] == ["pending"]
    await office.sender.drain()
    assert [row.status for row in await office.of(run_id)] == ["withdrawn"]
    assert double.texts() == []
    engine.dispose()
    await database.aclose()


@pytest.mark.postgres
async def test_a_cancel_waits_for_a_claim_and_finds_the_message_claimed(postgres_url: str, double):
    database = open_database(postgres_url)
    office = Office(database)
    document = slack_loop(await office.connect("slack", {"api_base_url": double.url}, bot_token=TOKEN))
    run_id = await office.to_its_message(document)
    engine = engine_for(postgres_url)
    with engine.begin() as claiming:
        assert len(office_claim(office)(claiming)) == 1
        cancelling = asyncio.ensure_future(office.cancel(run_id))
        await asyncio.sleep(0.3)
        assert not cancelling.done()
    assert (await cancelling).status == "running"
    assert [row.status for row in await office.of(run_id)] == ["sending"]
    engine.dispose()
    await database.aclose()


# What cannot be rendered


async def test_a_report_that_trips_the_rendering_up_is_refused_and_wakes_its_run(
    office, double, to_slack, monkeypatch, caplog
):
    def trips_up(text: str, mentions: frozenset[str] = frozenset()) -> str:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("notify.slack_blocks.to_mrkdwn", trips_up)
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    (row,) = await office.of(run_id)
    assert (row.status, row.code, row.due_at) == ("refused", "message.unrenderable", None)
    assert "RecursionError" in row.reason
    assert row.mend
    assert "Traceback" in caplog.text
    assert office.engine.woken == [(run_id, 1)]
    assert (await office.advance(run_id))["status"] == "failed"
    assert double.calls == []


async def test_quotes_in_quotes_are_posted(office, double, to_slack):
    office.reports.report = ">" * 1200
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    assert [row.status for row in await office.of(run_id)] == ["sent"]
    assert double.texts()[0].count(">") == 1200


async def test_a_table_with_one_long_cell_is_a_few_posts(office, double, to_slack):
    office.reports.report = "x" * 12_000 + "|b\n-|-\n" + "a|b\n" * 3000
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    (row,) = await office.of(run_id)
    assert row.status == "sent"
    assert len(double.texts()) == row.parts <= 4
    assert sum(map(len, double.texts())) < 3 * len(office.reports.report)


async def test_a_message_that_is_too_long_to_be_posted_says_where_the_whole_is(office, double, to_slack):
    office.reports.report = "salt & pepper\n" * 16_000
    run_id = await office.to_its_message(to_slack)
    await office.sender.drain()
    (row,) = await office.of(run_id)
    assert (row.status, row.parts, len(double.texts())) == ("sent", 20, 20)
    cut = [text for text in double.texts() if "is cut here" in text]
    assert cut == [double.texts()[-1]]
    assert f"/outbox/{row.id}" in cut[0]
    assert row.message["text"] == office.reports.report
