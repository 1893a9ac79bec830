"""Test runs in detail: what each action is told to have come to, what is refused, and deliveries that have come."""

import itertools
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from loops.errors import Conflict, DefinitionError, NotFound, RequestError
from loops.runs.steps import Outside, make_steps
from loops.runs.templates import make_templates
from loops.runs.testing import ActionTested
from loops.store import deliveries, people
from loops.store.tables import deliveries as deliveries_table
from tests.doubles.site import SECRET, Site, open_site
from tests.integration.running import issue
from tests.unit.definition.documents import EMAIL, changed, edge, loop, only
from triggers.testing import Ask

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROJECT = "default"
_numbers = itertools.count(1)
OPENED = {
    "event": "$github_event_received",
    "properties": {"repository": "acme/widgets", "event_type": "issues", "actor_access": "write", "sender": "ada"},
}
HAPPENED: dict[str, Any] = {"event": OPENED}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with open_site(tmp_path_factory.mktemp("site")) as opened:
        yield opened


async def outcome(
    site: Site, document: Any, action: str | None = None, happened: Any = HAPPENED, **more: Any
) -> ActionTested:
    return await site.services.tester.document(PROJECT, document, Ask(action, happened, **more))


def logging(*steps: tuple[str, str], trigger: str = "github", **more: Any) -> dict[str, Any]:
    """A workflow of lines; `more` goes into the first."""
    document = loop(trigger, "nobody")
    actions = [
        {
            "id": name,
            "name": name,
            "type": "function",
            "config": {"template_id": "template-log", "inputs": {"text": {"value": text}}},
        }
        for name, text in steps
    ]
    actions[0] |= more
    names = ["trigger", *(name for name, _ in steps), "exit"]
    document["actions"][1:2] = actions
    document["edges"] = [edge(one, two) for one, two in itertools.pairwise(names)]
    return document


def error_of(answer: ActionTested) -> tuple[str, str, str]:
    assert answer.status == "error"
    assert answer.error is not None
    return str(answer.error["path"]), str(answer.error["message"]), str(answer.error["hint"])


# What an action comes to


async def test_an_action_behind_others_knows_what_they_would_have_set(site: Site) -> None:
    first = ("first", "by {event.properties.sender}")
    document = logging(first, ("second", "{variables.said} / {steps.first.text} / {payload.text}"), output_variable=[
        {"key": "said", "result_path": "text"}, {"key": "all", "spread": True},
    ])  # fmt: skip
    document["variables"] = [{"key": "said", "type": "string", "default": "nothing"}]
    answer = await outcome(site, document, "first")
    assert (answer.following, answer.result) == ("second", {"text": "by ada"})
    assert answer.assigned == ("said", "all_text")
    assert dict(answer.variables) == {"said": "by ada", "all_text": "by ada"}
    assert (await outcome(site, document, "second")).result == {"text": "by ada / by ada / by ada"}


async def test_what_is_given_takes_the_place_of_what_steps_would_have_come_to(site: Site) -> None:
    document = logging(("first", "x"), ("second", "{variables.said} {steps.first.text}"), output_variable=[
        {"key": "said", "result_path": "text"},
    ])  # fmt: skip
    given = {**HAPPENED, "steps": {"first": {"text": "given"}}}
    assert (await outcome(site, document, "second", given)).result == {"text": "given given"}
    given["variables"] = {"said": "said"}
    assert (await outcome(site, document, "second", given)).result == {"text": "said given"}


async def test_the_report_of_a_task_may_be_as_long_as_it_would_be(site: Site) -> None:
    report = "so it is " * 900
    answer = await outcome(site, loop(), "notify", {**HAPPENED, "steps": {"create_task": {"final_message": report}}})
    (call,) = answer.calls
    assert call["text"] == f"Triage finished: {report}"
    assert len(call["parts"]) == 1  # type: ignore[arg-type]
    assert len(call["parts"][0]["blocks"]) == 3  # type: ignore[index,call-overload,arg-type]


async def test_a_wait_says_until_when_and_is_not_waited_for(site: Site) -> None:
    document = logging(("first", "x"))
    document["actions"][1] = {"id": "first", "type": "delay", "config": {"delay_duration": "90m"}}
    answer = await outcome(site, document, "first")
    assert (answer.status, answer.following) == ("success", "exit")
    until = site.clock.now() + timedelta(minutes=90)
    assert answer.result == {"until": until.isoformat(), "resumed_early": False}
    assert answer.log[0]["text"] == "would wait 90m"


async def test_a_template_that_fails_names_its_place(site: Site) -> None:
    document = logging(("first", "{upper(event.properties.title)}"))
    path, message, hint = error_of(await outcome(site, document, "first"))
    assert path == "actions[1].config.inputs.text"
    assert "upper" in message
    assert hint


async def test_an_error_that_the_workflow_goes_on_after_says_where_it_goes(site: Site) -> None:
    document = logging(("first", "{upper(event.properties.title)}"), on_error="continue")
    answer = await outcome(site, document, "first")
    assert (answer.status, answer.following) == ("error", "exit")


async def test_variables_that_do_not_fit_are_the_fault_of_what_sets_them(site: Site) -> None:
    document = logging(("first", "x" * 6000), output_variable=["all"])
    answer = await outcome(site, document, "first")
    path, message, hint = error_of(answer)
    assert (path, answer.following) == ("actions[1].output_variable", None)
    assert "over the limit of 5120" in message
    assert "result_path" in hint
    assert answer.result == {"text": "x" * 6000}


async def test_a_message_that_would_be_empty_is_an_error(site: Site) -> None:
    document = changed(loop(), "actions.2.config.inputs.text.value", "{event.properties.none}")
    path, message, _ = error_of(await outcome(site, document, "notify"))
    assert (path, "would be empty" in message) == ("actions[2]", True)


async def test_a_message_is_shown_as_it_would_be_sent(site: Site) -> None:
    connection = await site.connection("mail", kind="smtp")
    mail = {
        **EMAIL["inputs"]["email"]["value"],
        "from": {"integrationId": connection, "name": "Loops"},
        "subject": "About {{ event.properties.sender }}",
        "html": "<b>{{ event.properties.title }}</b>",
    }
    document = changed(loop("github", "email"), "actions.2.config.inputs.email.value", mail)
    happened = changed(HAPPENED, "event.properties", {**OPENED["properties"], "title": "<i>&</i>"})  # type: ignore[dict-item]
    answer = await outcome(site, document, "notify", happened)
    (call,) = answer.calls
    assert call == {
        "kind": "email",
        "connection": connection,
        "from": {"email": "", "name": "Loops"},
        "to": [{"email": "ada@example.com", "name": ""}],
        "subject": "About ada",
        "text": "The final message of the task (mocked: a test run creates no task).",
        "html": "<b>&lt;i&gt;&amp;&lt;/i&gt;</b>",
    }
    assert answer.inputs is not None
    assert answer.inputs["email"]["subject"] == "About ada"  # type: ignore[index,call-overload]


async def test_a_message_without_a_way_out_says_what_would_become_of_it(site: Site) -> None:
    shown = await outcome(site, loop(), "notify")
    assert (shown.status, shown.result["status"]) == ("success", "shown")  # type: ignore[index,call-overload]
    assert "shown on the page alone" in shown.log[0]["text"]
    connection = await site.connection("chat", kind="slack")
    document = changed(loop(), "actions.2.config.inputs.slack_workspace.value", 99)
    path, message, hint = error_of(await outcome(site, document, "notify"))
    assert (path, message) == ("actions[2]", "this project has no connection 99")
    assert f"{connection} (chat)" in hint


async def test_a_task_gets_a_value_of_the_type_of_each_field(site: Site) -> None:
    answer = await outcome(site, loop(structured=True), "create_task")
    assert answer.result["output"] == {"severity": "…", "duplicates": 0}  # type: ignore[index,call-overload]
    assert answer.result["pr_urls"] == ["https://github.com/acme/widgets/pull/0"]  # type: ignore[index,call-overload]
    (call,) = answer.calls
    assert call["fields"] == {"severity": "string", "duplicates": "number"}
    assert answer.variables["duplicates"] == 0


async def test_secrets_are_blotted_out_of_all_that_is_told(site: Site) -> None:
    document = logging(("first", f"{SECRET} {{event.properties.sender}}"))
    answer = await outcome(site, document, "first", changed(HAPPENED, "event.properties.sender", SECRET))
    assert SECRET not in json.dumps(answer.as_json())
    assert answer.result == {"text": "*** ***"}


async def test_every_action_type_and_template_takes_part() -> None:
    outside = Outside(None, None)  # type: ignore[arg-type]  # nothing is asked of it
    assert all(callable(step.mock) for step in make_steps(outside).values())
    assert all(callable(template.mock) for template in make_templates(outside).values())


# The trigger


async def test_a_trigger_that_would_not_fire_tells_what_was_compared(site: Site) -> None:
    answer = await outcome(site, loop(), happened=changed(HAPPENED, "event.properties.actor_access", "read"))
    assert (answer.status, answer.following) == ("skipped", None)
    assert answer.reason == 'actor_access is "read", wanted exactly "write"'
    assert answer.verdict is not None
    assert (answer.verdict["stage"], answer.verdict["passed"]) == ("filters", False)
    compared = answer.verdict["compared"]
    assert [(one["key"], one["passed"]) for one in compared] == [  # type: ignore[index,call-overload,union-attr]
        ("event", True),
        ("repository", True),
        ("event_type", True),
        ("actor_access", False),
    ]


@pytest.mark.parametrize(
    ("happened", "stage"),
    [
        ({"event": {"event": "$slack_message_received"}}, "trigger"),
        ({"event": {**OPENED, "source": "posthog"}}, "trigger"),
        ({"event": {**OPENED, "properties": {**OPENED["properties"], "own_app": True}}}, "own_output"),  # type: ignore[dict-item]
        ({"event": {**OPENED, "verified": False}}, "unverified"),
    ],
)
async def test_a_trigger_is_held_against_the_event_as_dispatch_would(site: Site, happened: Any, stage: str) -> None:
    answer = await outcome(site, loop(), happened=happened)
    assert answer.status == "skipped"
    assert answer.verdict is not None
    assert answer.verdict["stage"] == stage


async def test_a_filter_that_cannot_be_evaluated_is_an_error(site: Site) -> None:
    judged = {"key": "upper(properties.title) = 'CRASH'", "type": "hogql"}
    properties = [*loop()["actions"][0]["config"]["filters"]["properties"], judged]
    document = changed(loop(), "actions.0.config.filters.properties", properties)
    answer = await outcome(site, document)
    path, message, _ = error_of(answer)
    assert (path, "filter error" in message) == ("actions[0].config.filters", True)


async def test_the_hash_of_a_mask_is_told_and_nothing_is_counted(site: Site) -> None:
    document = {**loop(), "trigger_masking": {"hash": "{event.properties.sender}", "ttl": 60}}
    for _ in range(2):
        answer = await outcome(site, document)
        assert (answer.status, "its hash is 'ada'" in answer.log[0]["text"]) == ("success", True)


async def test_the_keys_of_brakes_are_told_and_nothing_is_counted(site: Site) -> None:
    brakes = {
        "trigger_rate_limit": {"count": 1, "period": 60},
        "trigger_debounce": {"quiet": 60, "longest": 60, "key": "{event.properties.sender}"},
        "trigger_overlap": {"policy": "skip", "key": "{event.properties.review_state}"},
    }
    for _ in range(2):
        answer = await outcome(site, {**loop(), **brakes})
        assert answer.status == "success"
        said = "; what was counted before is not looked at"
        assert [line["text"] for line in answer.log] == [
            f"trigger_rate_limit: all events count together{said}",
            f"trigger_debounce: its key is 'ada'{said}",
            f"trigger_overlap: all that have none count together, its key is null{said}",
        ]


async def test_a_schedule_and_a_start_by_hand_need_no_event(site: Site) -> None:
    scheduled = await outcome(site, loop("schedule"), happened=None)
    assert (scheduled.status, scheduled.event["event"]) == ("success", "$scheduled")  # type: ignore[index]
    given = {"event": {"event": "$scheduled", "properties": {}}}
    assert (await outcome(site, loop("schedule"), happened=given)).following == "create_task"
    manual = loop("manual")
    manual["variables"].append({"key": "count", "type": "number", "default": "1"})
    answer = await outcome(site, manual, happened={"variables": {"count": "3"}})
    assert (answer.event["event"], answer.event["distinct_id"]) == ("$workflow_triggered", "test run")  # type: ignore[index]
    assert answer.variables["count"] == 3


async def test_a_request_becomes_the_event_that_the_webhook_would_make_of_it(site: Site) -> None:
    request = {"body": {"event": "paid", "distinct_id": 7}, "query": {"page": "1"}}
    answer = await outcome(site, loop("webhook"), happened={"request": request})
    assert (answer.status, answer.event["event"], answer.event["distinct_id"]) == ("success", "paid", "7")  # type: ignore[index]
    path, message, hint = error_of(await outcome(site, loop("webhook"), happened={"request": {"body": {}}}))
    assert (path, message) == ("actions[0].config.inputs.event", "event is empty")
    assert "template of `event`" in hint
    with pytest.raises(RequestError, match="event is empty"):
        await outcome(site, loop("webhook"), "create_task", {"request": {"body": {}}})


# What is asked wrongly


@pytest.mark.parametrize(
    ("happened", "path", "hint"),
    [
        (None, "globals.event", '"repository": "acme/widgets"'),
        ({"evnt": {}}, "globals.evnt", 'did you mean "event"?'),
        ({"project": {}}, "globals.project", ""),
        ([], "globals", ""),
        ({"event": "opened"}, "globals.event", ""),
        ({"event": {"name": "x"}}, "globals.event.name", "known here"),
        ({"event": {"event": "x", "properties": []}}, "globals.event.properties", ""),
        ({"event": {"event": "x", "properties": {"a": "\0"}}}, "globals.event.properties.a", ""),
        ({"event": {"event": "x", "timestamp": "today"}}, "globals.event.timestamp", "2026"),
        ({"event": {"event": "x", "timestamp": "2026-01-01T00:00:00"}}, "globals.event.timestamp", "2026"),
        ({"event": OPENED, "variables": {"nobody": 1}}, "globals.variables.nobody", "task_final_message"),
        ({"request": {"body": {}}}, "globals.request", "globals.event"),
    ],
)
async def test_globals_that_do_not_fit_are_refused_at_their_place(
    site: Site, happened: Any, path: str, hint: str
) -> None:
    with pytest.raises(RequestError) as refused:
        await outcome(site, loop(), happened=happened)
    assert refused.value.path == path
    assert hint in refused.value.hint


async def test_variables_that_no_run_could_have_are_refused(site: Site) -> None:
    with pytest.raises(RequestError, match="5120 is the limit"):
        await outcome(site, loop(), "notify", {**HAPPENED, "variables": {"all": "x" * 6000}})


async def test_an_action_that_is_not_there_is_refused(site: Site) -> None:
    with pytest.raises(RequestError) as refused:
        await outcome(site, loop(), "creat_task")
    assert (refused.value.path, refused.value.hint) == ("current_action_id", 'did you mean "create_task"?')


async def test_real_calls_are_refused_with_the_reason(site: Site) -> None:
    with pytest.raises(RequestError, match="never reaches outside") as refused:
        await outcome(site, loop(), mock=False)
    assert refused.value.path == "mock_async_functions"


async def test_a_document_that_cannot_be_saved_cannot_be_tested(site: Site) -> None:
    with pytest.raises(DefinitionError) as refused:
        await outcome(site, changed(loop(), "actions.1.config.inputs.prompt.value", "Read {event.properties.title}"))
    assert refused.value.faults[0].path == "actions[1].config.inputs.prompt"


# Over the API


async def test_the_answer_of_the_api_has_what_programs_read(site: Site) -> None:
    saved = await site.services.workflows.create(PROJECT, loop(), "ada")
    headers = {"Authorization": f"Bearer {await site.token('viewer')}"}
    path = f"/api/projects/{PROJECT}/workflows"

    async def call(target: str, body: Any) -> tuple[int, Any]:
        async with site.client.post(f"{path}/{target}", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    status, told = await call(f"{saved.row.id}/test-run", {"globals": HAPPENED, "use_draft": True})
    assert (status, told["status"], told["nextActionId"]) == (200, "success", "create_task")
    assert told.keys() == {
        "action", "status", "nextActionId", "reason", "inputs", "result", "variables", "variables_set", "calls",
        "logs", "error", "verdict", "event",
    }  # fmt: skip
    for body, key in (
        ({"mock_async_functions": False}, "mock_async_functions"),
        ({"mock_async_functions": "no"}, "mock_async_functions"),
        ({"use_draft": 1}, "use_draft"),
        ({"current_action_id": 1}, "current_action_id"),
        ({"glbals": {}}, "glbals"),
    ):
        status, refused = await call(f"{saved.row.id}/test-run", body)
        assert (status, refused["error"]["path"]) == (400, key)
    assert (await call("test-run", {"globals": HAPPENED}))[1]["error"]["path"] == "document"
    assert (await call("nobody/test-run", {"globals": HAPPENED}))[0] == 404


# Deliveries that have come


async def arrived(site: Site, payload: Any, kind: str = "github", **more: Any) -> str:
    connection = await site.connection(f"{kind} {next(_numbers)}", kind=kind)
    name = more.pop("name", "issues")
    return await site.delivery(connection, source=kind, name=name, body=json.dumps(payload).encode(), **more)


@pytest.mark.parametrize("wanted", ["ours", "the sender's"])
async def test_a_delivery_that_has_come_is_the_event(tmp_path: Path, database_url: str, wanted: str) -> None:
    async with open_site(tmp_path, database_url=database_url) as site:
        ours = await arrived(site, issue(author_association="MEMBER"), key="the sender's")
        delivery = ours if wanted == "ours" else wanted
        answer = await outcome(site, loop(), happened=None, delivery=delivery)
        assert (answer.status, answer.following) == ("success", "create_task")
        assert answer.event is not None
        assert (answer.event["source"], answer.event["distinct_id"]) == ("github", "ada")
        read = await outcome(site, logging(("first", "{event.properties.title}")), "first", None, delivery=delivery)
        assert read.result == {"text": "Issue 1"}
        elsewhere = changed(loop(), "actions.0.config.filters.properties.0", only("repository", "acme/gadgets"))
        assert (await outcome(site, elsewhere, happened=None, delivery=delivery)).status == "skipped"


async def test_what_was_asked_about_a_sender_counts_for_a_test_too(site: Site) -> None:
    delivery = await arrived(site, issue())
    answer = await outcome(site, loop(), happened=None, delivery=delivery)
    assert (answer.status, answer.verdict and answer.verdict["stage"]) == ("skipped", "filters")
    assert answer.event is not None
    uuid = str(answer.event["uuid"])
    facts = {"actor_access": "write", "actor_access_reason": "GitHub says so"}
    row = deliveries.EventRow(PROJECT, "github", uuid, delivery, 0, "$github_event_received", [], None, facts)
    await site.services.writer.run(lambda connection: deliveries.put_event(connection, row, site.clock.now()))
    answer = await outcome(site, loop(), happened=None, delivery=delivery)
    assert (answer.status, "GitHub says so" in answer.reason) == ("success", True)


async def test_of_a_batch_the_event_that_starts_the_workflow_is_taken(site: Site) -> None:
    batch: list[dict[str, Any]] = [
        {"event": name, "distinct_id": "ada", "properties": {}} for name in ("viewed", "signed_up")
    ]
    delivery = await arrived(site, {"api_key": "phc_x", "batch": batch}, "posthog", name="capture", verified=False)
    person = {"ada": {"plan": "team"}}
    await site.services.writer.run(lambda c: people.write_persons(c, PROJECT, person, site.clock.now()))
    document = logging(("first", "{event.event} {person.properties.plan}"), trigger="event")
    answer = await outcome(site, document, "first", None, delivery=delivery)
    assert answer.result == {"text": "signed_up team"}
    stopped = await outcome(site, loop("event"), happened=None, delivery=delivery)
    assert stopped.verdict is not None
    assert (stopped.status, stopped.verdict["stage"]) == ("skipped", "unverified")


@pytest.mark.parametrize(("trigger", "words"), [("manual", "by no delivery"), ("webhook", "its own address alone")])
async def test_a_delivery_does_not_start_what_hears_none(site: Site, trigger: str, words: str) -> None:
    delivery = await arrived(site, issue())
    answer = await outcome(site, loop(trigger), happened=None, delivery=delivery)
    assert (answer.status, words in answer.reason) == ("skipped", True)


async def test_a_delivery_that_cannot_be_read_again_says_why(site: Site) -> None:
    waiting = await arrived(site, issue(), settled=None)
    ping = await arrived(site, {"zen": "Keep it."}, name="ping", headers={"x-github-event": "ping"})
    gone = await arrived(site, issue(number=12345))
    emptied = deliveries_table.update().where(deliveries_table.c.id == gone).values(body=None)
    await site.services.writer.run(lambda connection: connection.execute(emptied))
    for delivery, words in ((waiting, "waits to be held"), (ping, "means no event"), (gone, "is gone")):
        with pytest.raises(Conflict, match=words):
            await outcome(site, loop(), happened=None, delivery=delivery)
    with pytest.raises(NotFound):
        await outcome(site, loop(), happened=None, delivery="nothing")
    with pytest.raises(RequestError, match="beside a delivery"):
        await outcome(site, loop(), happened=HAPPENED, delivery=await arrived(site, issue(number=123)))
