"""What the pages tell of AI tasks: what happened, why, and what it cost."""

import itertools
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from loops.agent.transcript import Usage
from loops.store import projects, spendings, threads
from loops.store import tasks as task_store
from loops.store import workflows as store
from loops.store.thread_tables import threads as thread_table
from loops.store.threads import NewThread, Place
from loops.store.workflows import WorkflowRow
from server.cost_words import NO_PRICE
from tests.doubles.seen import Seen, read
from tests.doubles.site import NOW, Site, open_site, step_row
from tests.doubles.tasks import REPORT, TaskRows, a_round, request

HOSTILE = (
    "<img src=x onerror=window.owned=1></script><script>window.owned=1</script>"
    "<a href=javascript:window.owned=1>[x](javascript:alert(1))'\" \x1b[31m \u202egnp {{ 7*7 }} {% raw %}"
)
ALLOWED = re.compile(
    "html|head|meta|title|link|script|body|noscript|header|main|nav|section|article|h[1-5]|p|a|div|span|strong|bdi|code"
    "|pre|time|img|form|label|input|button|dl|dt|dd|ul|ol|li|table|thead|tbody|tr|th|td|details|summary"
)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        await site.sign_in()
        yield site


async def a_task(site: Site, workflow: WorkflowRow | None = None, asked: Any = None, **columns: Any) -> TaskRows:
    """A run that waits for its task, which a worker has taken."""
    workflow = workflow or await site.workflow()
    run = await site.run(workflow, **columns.pop("run", {}))
    task = TaskRows(site.services.writer, workflow.project_id, workflow.id, run, **{"began": NOW, **columns})
    await (await task.create(asked)).begin()
    await task.park_run()
    return task


async def page_of(site: Site, task: TaskRows) -> Seen:
    return await read(site, f"/runs/{task.run_id}")


# A task


async def test_a_finished_task_tells_what_it_came_to_and_what_it_cost(site: Site) -> None:
    task = await a_task(site, title="Find out why the export stops")
    await task.keep(a_round(1), a_round(2, usage=Usage(2_000, 320)))
    await task.finish(reason="the agent finalized", output={"severity": "high", "labels": ["bug"]})
    await task.end_run(result={"status": "completed", "ending": "done"})
    page = await page_of(site, task)
    assert "Find out why the export stops completed" in page.text
    assert "Finished by itself: the agent finalized" in page.text
    assert "Model anthropic:claude-sonnet-5 Rounds 2 Took 1 min 30 s" in page.text
    assert "Tokens 3,201 in, 400 out, 1,000 cached Cost $0.0250" in page.text
    assert REPORT in page.text
    assert "severity high" in page.text
    assert "Cost $0.0250 Run" in page.text


async def test_a_price_that_nobody_knows_is_told_and_never_guessed(site: Site) -> None:
    task = await a_task(site)
    await task.keep(a_round(1), a_round(2, cost=None))
    await task.finish()
    assert f"Cost $0.0125 and an unknown part: {NO_PRICE}" in (await page_of(site, task)).text
    assert "unknown" in (await read(site, "/runs")).text


async def test_a_scripted_model_is_called_what_it_is(site: Site) -> None:
    task = await a_task(site, model="scripted:demo")
    await task.keep(a_round(1))
    page = await page_of(site, task)
    assert "Model scripted:demo Rounds" in page.text
    assert page.text.count("$0.0125, at the price of LOOPS_PRICE: the model is a script, which costs nothing") == 2


async def test_the_price_of_a_real_model_is_told_without_where_it_comes_from(site: Site) -> None:
    task = await a_task(site)
    await task.keep(a_round(1))
    assert "LOOPS_PRICE" not in (await page_of(site, task)).text


@pytest.mark.parametrize(
    ("status", "ending", "words"),
    [
        ("incomplete", "max_rounds", "The round limit was reached: 40 rounds"),
        ("incomplete", "timeout", "The time was over: 40 rounds"),
        ("failed", "provider_error", "The model did not answer: 40 rounds"),
        ("failed", "of_another_release", "Of another release: 40 rounds"),
        ("cancelled", "cancelled", "Cancelled: 40 rounds"),
    ],
)
async def test_why_a_task_did_not_come_to_its_end_is_told_in_words(
    site: Site, status: str, ending: str, words: str
) -> None:
    task = await a_task(site)
    await task.finish(status, ending, "40 rounds")
    page = await page_of(site, task)
    assert words in page.text
    assert f"status status-{status}" in {span.get("class") for span in page.all("span")}


async def test_a_task_that_a_quota_refused_says_why_nothing_ran(site: Site) -> None:
    run = await site.run(await site.workflow())
    reason = "This workflow reached its daily limit of 100 tasks (trailing 24 hours)."
    result = {"status": "skipped", "ending": "skipped", "reason": reason, "final_message": reason}
    await site.act(run, step_row(step_id="task", result=result, log=()))
    page = await read(site, f"/runs/{run}")
    assert page.text.count(reason) == 3  # once in words, and twice in the result below
    assert "skipped" in {one.get("class") for one in page.all("p")}


async def test_what_the_agent_was_told_is_there_folded_with_the_event_in_its_block(site: Site) -> None:
    asked = {**request("Report.", title="<b>Export</b> stops"), "fields": {"severity": "string"}}
    task = await a_task(site, asked=asked)
    page = await page_of(site, task)
    (told,) = [one for one in page.all("details") if one["id"] == f"told-{task.id}"]
    assert "open" not in told
    assert "Nobody is watching" in page.text
    assert "<user_custom_instructions> Report. </user_custom_instructions>" in page.text
    assert "<triggering_event>" in page.text
    assert "\\u003cb\\u003eExport" in page.text
    assert "severity (string)" in page.text


async def test_a_waiting_task_cannot_be_hurried(site: Site) -> None:
    task = await a_task(site)
    page = await page_of(site, task)
    assert [form["action"] for form in page.all("form") if "resume" in form["action"]] == []
    assert "Waits for its task, at the latest until" in page.text


# Rounds


async def test_each_round_has_its_thought_text_calls_results_and_price(site: Site) -> None:
    task = await a_task(site)
    await task.keep(
        a_round(1, ("event_read", '{"pointer": "/title"}', '{"ok": true}'), thought="First I look.", text="I look."),
        a_round(2, ("search", '{"a": 1}', "NOT_FOUND: there is no such file"), notice="Go another way.", requests=3),
        a_round(3, ("finalize", "{}", ""), guard="max_rounds", elided=True, finish="length"),
    )
    page = await page_of(site, task)
    assert "Round 1 1.5 s 1,201 in 80 out 1,000 cached $0.0125 Thought First I look. I look." in page.text
    assert 'event_read ok 250 ms Arguments {"pointer": "/title"} Result {"ok": true}' in page.text
    assert "search NOT_FOUND 250 ms there is no such file ask for less" in page.text
    assert "The service said: Go another way." in page.text
    assert "asked 3 times" in page.text
    assert "told to finish: the last round" in page.text
    assert "older results were left out" in page.text
    assert "the answer was cut at the output limit" in page.text
    assert "finalize being executed" in page.text


async def test_long_arguments_and_results_are_folded_laid_out_and_cut(site: Site) -> None:
    long = json.dumps({"lines": ["x" * 50] * 2_000})
    task = await a_task(site)
    await task.keep(a_round(1, ("search", '{"query": "%s"}' % ("y" * 120), long), ("look", "[1,", "{")))
    page = await page_of(site, task)
    folded = {one["id"].rpartition("-")[2]: "open" in one for one in page.all("details") if "call-1" in one["id"]}
    assert folded == {"arguments": True, "result": False}
    assert f"This is the beginning of {len(long):,} characters; the export has it whole." in page.text
    assert "Arguments [1," in page.text  # what is no JSON stands as the model wrote it


async def test_a_result_that_was_lost_is_not_said_to_be_coming(site: Site) -> None:
    task = await a_task(site)
    await task.keep(a_round(1, ("shell", "{}", "")))
    assert "shell being executed" in (await page_of(site, task)).text
    await task.finish("failed", "interrupted", "its worker died again and again")
    assert "shell no result was kept" in (await page_of(site, task)).text


# Text from outside


async def hostile_task(site: Site) -> TaskRows:
    """A task in which every text is foreign."""
    workflow = await site.workflow(name=HOSTILE)
    task = await a_task(site, workflow, request(HOSTILE, title=HOSTILE), title=HOSTILE, model=HOSTILE)
    quoted = json.dumps({HOSTILE: HOSTILE})
    rounds = [
        a_round(number, (HOSTILE, quoted, quoted), (HOSTILE, HOSTILE, HOSTILE), text=HOSTILE, thought=HOSTILE)
        for number in range(1, 40)
    ]
    last = a_round(40, (HOSTILE, quoted, f"NOT_FOUND: {HOSTILE}"), (HOSTILE, HOSTILE, ""), notice=HOSTILE)
    await task.keep(*rounds, last)
    return task


async def test_whatever_an_agent_reads_or_says_is_inert_text(site: Site) -> None:
    task = await hostile_task(site)
    await task.tell("calling", 41, HOSTILE, text=HOSTILE)
    live = await site.get(f"/runs/{task.run_id}/live")
    assert_inert(Seen(live.text), live.text)
    open_page = await site.get(f"/runs/{task.run_id}")
    assert_inert(Seen(open_page.text), open_page.text)
    await task.finish("failed", HOSTILE, HOSTILE, final_message=HOSTILE, output={HOSTILE: HOSTILE}, pr_urls=[HOSTILE])
    for path in (f"/runs/{task.run_id}", f"/workflows/{task.workflow_id}", "/runs", "/workflows"):
        answer = await site.get(path)
        assert_inert(Seen(answer.text), answer.text)


def assert_inert(page: Seen, text: str) -> None:
    assert "<img src=x onerror=window.owned=1>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    for tag, attributes in page.elements:
        assert ALLOWED.fullmatch(tag), tag
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert all(not attributes.get(name, "").strip().startswith("javascript:") for name in ("href", "src", "action"))
    assert all(script.get("src", "").startswith("/static/") for script in page.all("script"))


async def test_the_parts_of_a_page_with_forty_rounds_stand_in_their_order(site: Site) -> None:
    task = await hostile_task(site)
    page = await page_of(site, task)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len([one for one in page.all("li") if one.get("class") == "round"]) == 40


# Following


async def test_what_follows_a_run_leaves_out_the_rounds_that_the_page_has(site: Site) -> None:
    task = await a_task(site)
    await task.keep(a_round(1, text="first words"), a_round(2, ("shell", "{}", ""), text="second words"))
    page = await page_of(site, task)
    (region,) = [one for one in page.all("div") if one.get("id") == "live"]
    assert region["data-live"] == f"/runs/{task.run_id}/live?after={task.id}.1"  # the second is not settled
    await task.keep(a_round(2, ("shell", "{}", '{"ok": true}'), text="second words"), a_round(3, text="third words"))
    await task.tell("asking", 4, text="I think that")
    live = await site.get(region["data-live"])
    follows = Seen(live.text)
    assert "first words" not in follows.text
    assert "Nobody is watching" not in follows.text
    assert "second words" in follows.text
    assert "third words" in follows.text
    assert "Round 4: the model answers" in follows.text
    assert "I think that" in follows.text
    assert "Rounds 3" in follows.text
    assert "Tokens 3,606 in" in follows.text  # of all rounds, also of those that are left out
    kept = [attributes["id"] for _, attributes in follows.elements if "data-kept" in attributes]
    assert kept == [f"told-{task.id}", f"round-{task.id}-1"]
    (fresh,) = [one for one in follows.all("div") if one.get("id") == "live"]
    assert fresh["data-live"].endswith(f"after={task.id}.3")
    assert live.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("phase", "calls", "text", "words"),
    [
        ("asking", (), "", "round 3: asking the model"),
        ("asking", (), "Well,", "round 3: the model answers"),
        ("calling", ("event_read", "shell"), "", "round 3: calling event_read, shell"),
        ("retrying", (), "", "round 3: asking the model again"),
    ],
)
async def test_what_a_task_does_now_is_announced_without_its_seconds(
    site: Site, phase: str, calls: tuple[str, ...], text: str, words: str
) -> None:
    task = await a_task(site)
    await task.tell(phase, 3, *calls, text=text, since=NOW - timedelta(seconds=12))
    page = await page_of(site, task)
    (region,) = [one for one in page.all("div") if one.get("id") == "live"]
    assert region["data-news"] == words
    assert f"{words.capitalize()}, for 12 s" in page.text
    (status,) = [one for one in page.all("p") if one.get("role") == "status"]
    assert status["id"] == "news"


async def test_a_run_that_is_over_is_not_followed_any_more(site: Site) -> None:
    task = await a_task(site)
    await task.finish()
    await task.end_run()
    page = await page_of(site, task)
    (region,) = [one for one in page.all("div") if one.get("id") == "live"]
    assert "data-live" not in region
    assert region["data-news"] == "Run completed"


@pytest.mark.parametrize("after", ["x", "a.b", "a.1,", "../..", "a.1000", "<script>"])
async def test_a_wrong_place_in_a_run_is_refused(site: Site, after: str) -> None:
    task = await a_task(site)
    answer = await site.get(f"/runs/{task.run_id}/live?after={after}")
    assert answer.status == 400
    assert "this is no place in a run" in answer.text


async def test_a_run_of_another_project_is_not_followed(site: Site) -> None:
    await site.project("other")
    task = await a_task(site, await site.workflow("other"))
    assert (await site.get(f"/runs/{task.run_id}/live")).status == 404
    assert (await site.get(f"/workflows/{task.workflow_id}")).status == 404


# Lists and the page of a workflow


async def test_lists_show_what_runs_and_deliveries_cost(site: Site) -> None:
    delivery = await site.delivery(await site.connection(), settled=("dispatched", "started 2 runs", 2))
    workflow = await site.workflow()
    for _ in range(2):
        task = await a_task(site, workflow, run={"delivery_id": delivery})
        await task.keep(a_round(1))
        await task.finish()
    plain = await site.run(workflow)
    assert (await read(site, "/runs")).text.count("$0.0125") == 2
    assert "$0.0250" in (await read(site, "/deliveries")).text
    assert "$" not in (await read(site, f"/runs/{plain}")).text.replace("$github", "")


async def test_a_workflow_has_a_page_that_tells_what_it_is_and_does(site: Site) -> None:
    workflow = await site.workflow(name="Report on issues", description="Looks at every issue.")
    old = await a_task(site, workflow, began=NOW - timedelta(days=31))
    await old.keep(a_round(1))
    await old.finish()
    for _ in range(2):
        task = await a_task(site, workflow)
        await task.keep(a_round(1))
    await task.finish()
    page = await read(site, f"/workflows/{workflow.id}")
    assert "Report on issues draft" in page.text
    assert "Looks at every issue." in page.text
    assert "Starts on GitHub: issues" in page.text
    assert "Tasks in the last 24 hours 2 of 100, 1 under way" in page.text
    assert "Cost of 30 days $0.0250 in 2 tasks" in page.text
    assert "template_id: template-log" in page.text
    assert f"/runs/{task.run_id}" in page.links()
    assert f"/runs?workflow={workflow.id}" in page.links()
    for path in ("/workflows", f"/runs/{task.run_id}"):
        assert f"/workflows/{workflow.id}" in (await read(site, path)).links()


async def test_mq_09_a_full_quota_says_until_when(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await site.sign_in()
        workflow = await site.workflow()
        for hours in range(100):
            await a_task(site, workflow, began=NOW - timedelta(minutes=hours))
        page = await read(site, f"/workflows/{workflow.id}")
        assert "Tasks in the last 24 hours 100 of 100: full until 2026-07-07 10:21:00 UTC, 100 under way" in page.text


async def test_a_workflow_is_enabled_and_disabled_from_its_own_page(site: Site) -> None:
    workflow = await site.workflow()
    for change, status in (("enable", "active"), ("disable", "draft")):
        page = await read(site, f"/workflows/{workflow.id}")
        (action,) = [form["action"] for form in page.all("form") if f"/{change}" in form["action"]]
        answer = await site.post(action)
        assert (answer.status, answer.headers["Location"]) == (303, f"/workflows/{workflow.id}")
        assert f"{workflow.name} {status}" in (await read(site, f"/workflows/{workflow.id}")).text
    await site.sign_in("viewer", "eve")
    forms = (await read(site, f"/workflows/{workflow.id}")).all("form")
    assert [form["action"] for form in forms] == ["/sign-out", f"/workflows/{workflow.id}/forecast"]


async def test_a_loop_that_was_changed_says_by_what_on_its_page(site: Site) -> None:
    row = await site.workflow(name="More than a loop", origin_product="loops")
    page = await read(site, f"/workflows/{row.id}")
    assert "Changed: it has more than the form of a loop can show" in page.text
    assert "actions[2] a loop has no step of type delay" in page.text
    assert "changed: more than a loop" in (await read(site, "/workflows")).text
    other = await site.workflow(name="Of another origin")
    assert "Changed:" not in (await read(site, f"/workflows/{other.id}")).text


# Quotas, spaces and owners


async def test_the_page_of_quotas_tells_what_today_took_of_how_much(site: Site) -> None:
    task = await a_task(site)
    await site.services.writer.run(
        lambda connection: projects.set_quotas(
            connection, task.project_id, {"project_tokens": 9_000, "workflow_cost": "2"}
        )
    )
    await spend(site, task, 1_200, Decimal("0.5"))
    await spend(site, task, 300, None)
    page = await read(site, "/quotas")
    assert "Tasks of the project 1 of 500, 1 under way" in page.text
    assert "Tokens 1,500 of 9,000" in page.text
    assert "$0.5000 + unknown of $2.00 now" in page.text
    for path in ("/workflows", f"/workflows/{task.workflow_id}"):
        assert "/quotas" in (await read(site, path)).links()


async def spend(site: Site, task: TaskRows, tokens: int, cost: Decimal | None) -> None:
    await site.services.writer.run(
        lambda connection: spendings.put(
            connection,
            task_id=task.id,
            key=str(tokens),
            project_id=task.project_id,
            workflow_id=task.workflow_id,
            tokens=tokens,
            cost=cost,
            settled=True,
            now=NOW,
        )
    )


async def test_a_space_has_a_page_with_its_loops_and_runs(site: Site) -> None:
    workflow = await site.workflow(name="Sorts issues")
    await site.services.writer.run(lambda connection: store.update(connection, workflow.id, space=f"s 1/2|{HOSTILE}"))
    task = await a_task(site, workflow)
    for path in ("/spaces", f"/runs/{task.run_id}", f"/workflows/{workflow.id}"):
        assert "/spaces/s%201%2F2" in (await read(site, path)).links()
    page = await read(site, "/spaces/s%201%2F2")
    assert {f"/workflows/{workflow.id}", f"/runs/{task.run_id}", "/runs?space=s+1%2F2"} <= set(page.links())
    assert not page.all("script")
    listed = await read(site, "/runs?space=s+1%2F2")
    assert f"/runs/{task.run_id}" in listed.links()
    assert f"/runs/{task.run_id}" not in (await read(site, "/runs?space=other")).links()
    assert (await site.get("/spaces/other")).status == 404


async def test_a_loop_whose_owner_was_revoked_says_that_its_tasks_are_refused(site: Site) -> None:  # D46
    workflow = await site.workflow(status="active")
    writer = site.services.writer
    await writer.run(lambda connection: store.update(connection, workflow.id, enabled_by=None))
    words = "Its tasks are refused: the token of whoever enabled it last was revoked."
    assert words in (await read(site, f"/workflows/{workflow.id}")).text
    await writer.run(lambda connection: store.update(connection, workflow.id, enabled_by="somebody"))
    assert words not in (await read(site, f"/workflows/{workflow.id}")).text


# Its thread


async def a_thread(site: Site, task: TaskRows, reaction: str = "shown") -> None:
    """The task answers in a Slack thread, listens there after its first turn, and has taken another one."""

    def put(connection: sa.Connection) -> None:
        place = Place(task.project_id, "T0ACME", "C0ALERTS", "1793610000.000100")
        new = NewThread(
            task.id, task.workflow_id, task.run_id, 1, place, "1793610000.000100", "U0ADA", allows_external=False
        )
        assert threads.insert(connection, new, NOW)
        threads.listen(connection, task.id, NOW + timedelta(minutes=10), NOW)
        row = threads.of_task(connection, task.id)
        assert row is not None
        threads.keep_turn(connection, row, {"number": 1, "status": "completed"})
        connection.execute(thread_table.update().values(reaction=reaction))

    await site.services.writer.run(put)


async def a_task_in_a_thread(site: Site, **more: Any) -> TaskRows:
    task = await a_task(site)
    said = f'<message_from user="U0ADA">\\n{HOSTILE}\\n</message_from>'
    await task.keep(a_round(1), replace(a_round(2), turn=2, said=said, heard=("1793610060.000300",)))
    await task.finish(reason="the agent finalized")
    await task.end_run(result={"status": "completed", "ending": "done"})
    await a_thread(site, task, **more)
    return task


async def test_a_task_in_a_thread_shows_its_turns_and_what_people_said(site: Site) -> None:
    task = await a_task_in_a_thread(site)
    page = await page_of(site, task)
    assert "Slack thread in C0ALERTS: 1 answered, it listens for 10 min more" in page.text
    assert "Round 2, turn 2" in page.text
    assert "People said in the thread <message_from" in page.text
    assert not [tag for tag, _ in page.elements if not ALLOWED.fullmatch(tag)]
    # It is over, and still followed: somebody may speak.
    (live,) = [one for one in page.all("div") if one.get("id") == "live"]
    assert live["data-live"].startswith(f"/runs/{task.run_id}/live")


async def test_a_thread_without_eyes_says_why(site: Site) -> None:
    task = await a_task_in_a_thread(site, reaction="missing_scope, needed reactions:write, provided chat:write")
    assert "no eyes on its first message: missing_scope, needed reactions:write" in (await page_of(site, task)).text


async def test_the_page_of_a_run_that_is_over_lets_its_task_leave_the_thread(site: Site) -> None:
    task = await a_task_in_a_thread(site)
    page = await page_of(site, task)
    assert "Leave the thread" in page.text
    assert (await site.post(f"/runs/{task.run_id}/cancel")).status == 303
    page = await page_of(site, task)
    assert "1 answered, closed: cancelled on request" in page.text
    assert "Leave the thread" not in page.text
    assert (await site.post(f"/runs/{task.run_id}/cancel")).status == 409


async def test_the_api_tells_of_the_thread_and_closes_it_with_its_task(site: Site) -> None:
    task = await a_task_in_a_thread(site)
    headers = {"Authorization": f"Bearer {await site.token('editor', 'eve')}"}
    path = f"/api/projects/{task.project_id}/tasks/{task.id}"
    async with site.client.get(path, headers=headers) as answer:
        thread = (await answer.json())["thread"]
    assert (thread["status"], thread["turn"], thread["channel"]) == ("listening", 1, "C0ALERTS")
    statuses = []
    for _ in range(2):
        async with site.client.post(f"{path}/cancel", headers=headers) as answer:
            told = await answer.json()
            statuses.append((answer.status, told.get("thread", {}).get("status")))
    assert statuses == [(200, "closed"), (409, None)]
    assert (await site.services.reader.read(lambda c: task_store.get(c, task.id))).status == "completed"
