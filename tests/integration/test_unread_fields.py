"""Whatever becomes of the fields that a trigger does not read, its run starts."""

import asyncio
import gzip
import json
import random
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.integration import senders
from tests.integration.mutating import MUTATIONS, READABLE, Path, at, encoded, mutated
from tests.integration.receiving import Receiving, receiving
from tests.integration.senders import FIXTURES, FORM, JSON, Hooks, Sent
from tests.integration.serving import workflow

AT_ONCE = 40

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120 + MUTATIONS // 20)]


def exact(key: str, value: Any, operator: str = "exact") -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "event"}


def hogql(expression: str) -> dict[str, Any]:
    return {"key": expression, "type": "hogql"}


@dataclass(frozen=True, slots=True)
class Case:
    """A fixture with the filters of a loop that it starts. `read` are the fields that these look at or that say what it
    is; `own` tells one fact from another."""

    fixture: str
    filters: tuple[dict[str, Any], ...]
    read: tuple[Path, ...]
    own: tuple[Path, ...]

    @property
    def sender(self) -> str:
        return self.fixture.partition("/")[0]

    @property
    def event(self) -> str:
        return self.fixture.partition("/")[2].partition("__")[0]

    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((FIXTURES / f"{self.fixture}.json").read_bytes())
        return found

    def document(self) -> dict[str, Any]:
        """Its loop."""
        return workflow(f"on {self.fixture}", self._trigger())

    def _trigger(self) -> dict[str, Any]:
        if self.sender == "webhook":
            inputs = {
                "event": {"value": "{request.body.event}"},
                "distinct_id": {"value": "{request.body.distinct_id}"},
            }
            return {"type": "webhook", "inputs": inputs}
        filters: dict[str, Any] = {"properties": [*self.filters]}
        if self.sender == "posthog":
            return {"type": "event", "filters": {**filters, "events": [{"id": "$pageview", "type": "events"}]}}
        name = {"github": "$github_event_received", "slack": "$slack_message_received"}[self.sender]
        filters |= {"source": "internal-events", "events": [{"id": name, "type": "events"}]}
        if self.sender == "github":
            filters["properties"] += [exact("repository", ["acme/widgets"]), exact("event_type", [self.event])]
        return {"type": "internal-event", "filters": filters}


REPOSITORY: Path = ("repository", "full_name")
CASES = (
    Case(
        "github/issues__opened",
        (
            exact("action", "opened"),
            exact("sender", "ada"),
            exact("title", "FIRE", "icontains"),
            exact("number", 100, "lt"),
            hogql("properties.github_event.issue.labels[1].name = 'bug'"),
        ),
        (
            REPOSITORY,
            ("action",),
            ("sender", "login"),
            ("issue", "title"),
            ("issue", "number"),
            ("issue", "labels", 0, "name"),
        ),
        (("issue", "node_id"),),
    ),
    Case(
        "github/pull_request__opened",
        (exact("action", "opened"), exact("branch", "", "is_not")),
        (REPOSITORY, ("action",), ("pull_request", "head", "ref")),
        (("pull_request", "node_id"),),
    ),
    Case(
        "github/issue_comment__created",
        (exact("action", "created"), exact("body", ".", "regex")),
        (REPOSITORY, ("action",), ("comment", "body")),
        (("comment", "node_id"),),
    ),
    Case("github/push__branch", (exact("ref", "refs/heads/", "icontains"),), (REPOSITORY, ("ref",)), (("after",),)),
    Case(
        "slack/message__plain",
        (exact("channel", ["C0ALERTS"]), exact("text", "FIRE", "icontains")),
        (("type",), ("event", "type"), ("event", "channel"), ("event", "text")),
        (("event", "ts"), ("event_id",)),
    ),
    Case(
        "posthog/webhook__pageview",
        (exact("$browser", "Firefox"),),
        (("event", "event"), ("event", "distinct_id"), ("event", "properties", "$browser")),
        (("event", "uuid"),),
    ),
    Case(
        "posthog/capture__browser_event",
        (exact("$lib", "web"),),
        (("api_key",), ("event",), ("properties", "distinct_id"), ("properties", "$lib")),
        (("uuid",),),
    ),
    Case("webhook/order__paid", (), (("event",), ("distinct_id",)), ()),
)


class Target:
    """The service, and how many runs each case has started so far."""

    def __init__(self, live: Receiving, hooks: Hooks, flows: dict[str, str]) -> None:
        self.live = live
        self.hooks = hooks
        self.flows = flows
        self.wanted = dict.fromkeys(flows.values(), 0)

    async def post(self, case: Case, number: int) -> tuple[Sent, str]:
        """Send the case with what it does not read changed; our id of the delivery, none of a capture's."""
        sent = self._request(case, random.Random(f"{case.fixture} {number}"))
        status, told = await self.live.post(sent)
        self.wanted[self.flows[case.fixture]] += 1
        if case.event == "capture":
            assert (status, told) == (200, {"status": 1}), (sent, told)
            return sent, ""
        assert (status, told.get("status")) == (202, "accepted"), (sent, told)
        return sent, str(told["delivery"])

    def _request(self, case: Case, chance: random.Random) -> Sent:
        payload = {**case.payload(), "nonce": uuid.uuid4().hex}
        if case.event == "capture":
            payload["api_key"] = self.hooks.api_key
        payload = mutated(payload, chance, kept=case.read, raw=READABLE)
        for path in case.own:
            _with_own(payload, path)
        body = encoded(payload, chance)
        if chance.random() < 0.1:
            body = b"\xef\xbb\xbf" + body
        key = uuid.uuid4().hex
        match case.sender, case.event:
            case "github", event:
                form = chance.random() < 0.2
                body = urlencode({"payload": body}).encode() if form else body
                return senders.github(self.hooks.github, event, body, key, form=form)
            case "slack", _:
                return senders.slack(self.hooks.slack, body)
            case "webhook", _:
                return senders.webhook(self.hooks.webhooks[0], body, key)
            case _, "webhook":
                return senders.posthog(self.hooks.posthog, body)
        packed = chance.choice([bytes, gzip.compress, lambda raw: urlencode({"data": raw}).encode()])(body)
        return Sent("capture", "/e/", {"Content-Type": chance.choice([JSON, FORM, "text/plain"])}, packed)


def _with_own(payload: Any, path: Path) -> None:
    """What tells one fact from another is every request's own, whatever it has become; what is gone stays so."""
    try:
        holder = at(payload, path[:-1])
        value = holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        return
    if isinstance(value, str) and value:
        holder[path[-1]] = str(uuid.uuid4())
    elif value not in (None, ""):
        holder[path[-1]] = [value, uuid.uuid4().hex]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    async with receiving(tmp_path_factory.mktemp("unread"), module_database_url) as live:
        hooked = [case for case in CASES if case.sender == "webhook"]
        flows = {case.fixture: await live.create(case.document()) for case in CASES if case not in hooked}
        hooks = await live.hooks()
        for case in hooked:
            flows[case.fixture] = await live.create(case.document())
        address = await live.address(flows[hooked[0].fixture])
        yield Target(live, replace(hooks, webhooks=(address,)), flows)


@settings(
    max_examples=max(1, MUTATIONS // AT_ONCE // 4),
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.binary(min_size=8, max_size=8))
async def test_a_change_of_what_a_trigger_does_not_read_starts_its_run(target: Target, seed: bytes) -> None:
    chance = random.Random(seed)
    cases = [CASES[place % len(CASES)] for place in range(AT_ONCE)]
    sent = await asyncio.gather(*(target.post(case, chance.getrandbits(64)) for case in cases))
    rows = await target.live.settled()
    started = await target.live.started(*rows)
    for case, (request, delivery) in zip(cases, sent, strict=True):
        if delivery:
            flows = started[delivery]
            assert flows == [target.flows[case.fixture]], (request, rows[delivery]["status"], rows[delivery]["reason"])
    counted = {flow: sum(flows.count(flow) for flows in started.values()) for flow in target.wanted}
    assert counted == target.wanted
