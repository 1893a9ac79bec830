"""Requests as no sender should write them, over HTTP: none is a fault of ours, each that is taken is settled."""

import asyncio
import json
import logging
import random
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.integration import senders
from tests.integration.mutating import MUTATIONS, PICTURES, noise
from tests.integration.receiving import Receiving, receiving
from tests.integration.senders import FIXTURES, SENDERS, Hooks, Sent, changed
from tests.integration.serving import workflow

AT_ONCE = 50
ANSWERS = {200, 202, 400, 401, 413}
SETTLED = {"dispatched", "ignored"}
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120 + MUTATIONS // 5)]


def exact(key: str, *value: Any, operator: str = "exact", kind: str = "event", **more: Any) -> dict[str, Any]:
    return {"key": key, "value": [*value], "operator": operator, "type": kind, **more}


def some(*properties: dict[str, Any]) -> dict[str, Any]:
    """At least one of them holds; each is looked at, as the first one never does."""
    return {"type": "OR", "values": [exact("none", "such"), *properties]}


def internal(name: str, event: str, *properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    filters = {"source": "internal-events", "events": [{"id": event, "type": "events"}], "properties": [*properties]}
    return workflow(name, {"type": "internal-event", "filters": filters}, **more)


REPOSITORY = exact("repository", "acme/widgets", "codertocat/hello-world")
KINDS = exact("event_type", "issues", "issue_comment", "pull_request", "pull_request_review", "push", "workflow_run")
CHANNELS = exact("channel", "C0ALERTS", "C0GENERAL", "C111", "C123")
LISTENING = [
    internal(
        "on GitHub",
        "$github_event_received",
        REPOSITORY,
        KINDS,
        some(
            exact("title", "(?i)fire|data", operator="regex"),
            exact("body", "export", operator="not_icontains"),
            exact("number", 3, operator="gt"),
            exact("number", 1, 99, operator="not_between"),
            exact("ref", "2020-01-01", operator="is_date_after"),
            exact("title", "1.2.3", operator="semver_gte"),
            {"key": "length(toString(properties.github_event)) > 3", "type": "hogql"},
        ),
        trigger_masking={"hash": "{event.properties.number}-{event.properties.title}", "ttl": 60, "threshold": 3},
    ),
    internal("writers on GitHub", "$github_event_received", REPOSITORY, KINDS, exact("actor_access", "write")),
    internal(
        "in Slack",
        "$slack_message_received",
        CHANNELS,
        some(
            exact("message_text", "(?i)a|e|\\d+", operator="regex"),
            exact("thread_ts", operator="is_not_set") | {"value": None},
            {"key": "properties.slack_event.blocks[1].elements[1].type = 'rich_text_section'", "type": "hogql"},
        ),
        trigger_masking={"hash": "{event.properties.slack_event}", "ttl": 60},
    ),
    workflow(
        "on PostHog",
        {
            "type": "event",
            "allow_unverified": True,
            "filters": {
                "events": [{"id": None, "type": "events"}],
                "properties": [
                    some(
                        exact("email", "@", operator="icontains", kind="person"),
                        exact("plan", "pro", kind="group", group_type_index=0),
                        exact("timestamp", "-7d", operator="is_date_after", kind="event_metadata"),
                        exact("tag_name", "button", kind="element"),
                        exact("$current_url", "widgets", operator="icontains"),
                        {"key": "person.properties.email ilike '%a%'", "type": "hogql"},
                        exact("$lib", operator="is_set"),
                    )
                ],
            },
        },
        trigger_masking={"hash": "{person.id}{event.properties.plan}", "ttl": 60},
    ),
]


def hooked(name: str, **inputs: Any) -> dict[str, Any]:
    inputs = {"event": "{request.body.event}", "distinct_id": "{request.body.distinct_id}", **inputs}
    given = {key: {"value": value} for key, value in inputs.items()}
    return workflow(name, {"type": "webhook", "inputs": given, "allow_unverified": True})


HOOKED = [
    hooked("a webhook"),
    hooked("its order", properties="{request.body.order}"),
    hooked(
        "all of it",
        event="shop_{request.body.event}",
        distinct_id="{request.headers['x-who'] ?? request.body.order.id}",
        properties={"all": "{request}", "note": "{upper(request.body.note)}"},
    ),
]


class Faults(logging.Handler):
    """What the log tells of faults."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(f"{record.name}: {record.getMessage()} {record.exc_info}")


class Target:
    """The service that all of it is sent to."""

    def __init__(self, live: Receiving, hooks: Hooks, faults: Faults) -> None:
        self.live = live
        self.hooks = hooks
        self.faults = faults
        self.statuses: dict[tuple[str, int], int] = {}

    async def answer(self, sender: str, number: int) -> str | None:
        """Send that request and look at its answer; our id of what was taken."""
        sent = changed(self.hooks, sender, number)
        status, told = await self.live.post(sent)
        self.statuses[sender, status] = self.statuses.get((sender, status), 0) + 1
        assert status in ANSWERS, (sent, status, told)
        if status >= 400:
            self.refused(sent, status, told["error"])
            return None
        assert sender != "capture" or told == {"status": 1}
        return told.get("delivery") or None

    def refused(self, sent: Sent, status: int, error: dict[str, str]) -> None:
        assert error["message"], (sent, status)
        assert error["hint"], (sent, error)
        if status == 400:
            named = error.get("path", "").split("[")[0].rsplit(".", 1)[-1]
            assert named, (sent, error)
            assert named.casefold() in error["message"].casefold(), (sent, error)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    folder = tmp_path_factory.mktemp("mutations")
    async with receiving(folder, module_database_url, SUBJECT_HOURLY_RUNS="10") as live:
        hooks = await live.hooks(HOOKED)
        for document in LISTENING:
            await live.create(document)
        faults = Faults()
        logging.getLogger().addHandler(faults)
        yield Target(live, hooks, faults)
        logging.getLogger().removeHandler(faults)


@settings(
    max_examples=max(1, MUTATIONS // AT_ONCE),
    phases=[Phase.generate],  # what fails says which request it was; sent again it is a duplicate
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.binary(min_size=8, max_size=8))
async def test_a_mutated_request_is_refused_by_a_field_or_taken_and_settled(target: Target, seed: bytes) -> None:
    chance = random.Random(seed)
    requests = [(chance.choice(SENDERS), chance.getrandbits(64)) for _ in range(AT_ONCE)]
    taken = await asyncio.gather(*(target.answer(sender, number) for sender, number in requests))
    rows = await target.live.settled()
    unsettled = {key: (row["status"], row["reason"]) for key, row in rows.items() if row["status"] not in SETTLED}
    for sender, number in requests if unsettled else ():
        note(repr(changed(target.hooks, sender, number)))
    assert unsettled == {}
    assert {one for one in taken if one} <= rows.keys()
    assert target.faults.told == []


async def test_of_every_sender_some_are_taken_and_some_are_refused(target: Target) -> None:
    numbers = range(10**12, 10**12 + 40)  # of no other test
    for sender in SENDERS:
        await asyncio.gather(*(target.answer(sender, number) for number in numbers))
        assert target.statuses[sender, 400]
        assert target.statuses.get((sender, 202)) or target.statuses[sender, 200]
    await target.live.settled()


def fixture(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_bytes())
    return found


def long_requests(hooks: Hooks) -> list[tuple[Sent, str]]:
    """Requests with texts that no index entry holds, where rows are looked up by them; what becomes of each."""
    chance = random.Random(1)
    long, pictures = noise(chance, 9000), noise(chance, 400, PICTURES)
    issue, push = fixture("github/issues__opened"), fixture("github/push__branch")
    message, viewed = fixture("slack/message__plain"), fixture("posthog/webhook__pageview")
    viewed["event"] |= {"event": "$groupidentify", "uuid": str(uuid.uuid4())}
    groups = {"$groups": {pictures: pictures}, "$group_type": pictures, "$group_key": pictures, "$group_set": {"a": 1}}
    named = [
        ("issues", issue | {"repository": issue["repository"] | {"full_name": long}}, "ignored"),
        ("issues", issue | {"issue": issue["issue"] | {"node_id": long}}, "dispatched"),
        ("issues", issue | {"issue": issue["issue"] | {"updated_at": long}}, "dispatched"),
        ("push", push | {"ref": f"refs/heads/{long}"}, "dispatched"),
    ]
    requests = [
        (senders.github(hooks.github, event, json.dumps(payload).encode(), str(uuid.uuid4())), becomes)
        for event, payload, becomes in named
    ]
    for event in ({"ts": long}, {"thread_ts": long, "ts": "1.5"}):
        told = message | {"event_id": f"Ev{long}", "event": message["event"] | event}
        requests.append((senders.slack(hooks.slack, json.dumps(told).encode()), "dispatched"))
    viewed["event"]["properties"] |= groups
    requests.append((senders.posthog(hooks.posthog, json.dumps(viewed).encode()), "dispatched"))
    nameless = fixture("posthog/webhook__pageview") | {"person": {"id": long, "properties": {"email": "a@b.example"}}}
    del nameless["event"]["distinct_id"]
    requests.append((senders.posthog(hooks.posthog, json.dumps(nameless).encode()), "dispatched"))
    return requests


async def test_a_text_that_is_looked_up_by_may_be_of_any_length(target: Target) -> None:
    live = await target.live.elsewhere()
    requests = long_requests(await live.hooks(api_key=uuid.uuid4().hex))
    for document in LISTENING:
        await live.create(document)
    answers = await asyncio.gather(*(live.post(sent) for sent, _ in requests))
    assert [status for status, _ in answers] == [202] * len(requests), answers
    rows = await live.settled(*(told["delivery"] for _, told in answers))
    became = [(rows[told["delivery"]]["status"], rows[told["delivery"]]["reason"]) for _, told in answers]
    assert [status for status, _ in became] == [status for _, status in requests], became
    assert target.faults.told == []
