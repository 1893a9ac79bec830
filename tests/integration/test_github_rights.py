"""Whose access `actor_access` is, asked of a GitHub double by a running service, on SQLite and on Postgres."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from loops.store import deliveries
from server.app import Wiring
from server.explain import explained
from tests.doubles.github import GitHubDouble, github, says, sleeps
from tests.doubles.site import SetClock
from tests.integration.github_loops import (
    WRITERS,
    comment,
    connect,
    connected,
    exact,
    listening,
    push,
    review,
    sent,
    verdict_of,
)
from tests.integration.running import PROJECT, Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def clock() -> SetClock:
    return SetClock()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, clock: SetClock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    wiring = Wiring(clock=clock)
    async with running(tmp_path_factory.mktemp("d"), module_database_url, role="web", wiring=wiring) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def hub() -> AsyncIterator[GitHubDouble]:
    async with github() as double:
        yield double


@pytest_asyncio.fixture(loop_scope="module")
async def live(service: Running, hub: GitHubDouble) -> AsyncIterator[Running]:
    """By way of a connection of the test's own; its loops are switched off in the end."""
    yield await connected(service, hub)
    for listener in service.services.definitions.listeners():
        await service.services.workflows.disable(PROJECT, listener.key, running="drain")


async def test_gh_19_a_contributor_with_write_access_starts_a_loop_for_writers(live, hub):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    delivery = await sent(live, comment())
    assert [run["delivery_id"] for run in await live.runs(flow)] == [delivery]
    verdict = await verdict_of(live, delivery, flow)
    assert verdict["reason"] == "every filter and brake passed; GitHub says that ada has write access"
    (compared,) = (one for one in verdict["compared"] if one["key"] == "actor_access")
    assert (compared["actual"], compared["note"]) == ("write", "GitHub says that ada has write access")


@pytest.mark.parametrize(
    ("permission", "fault", "told"),
    [
        (None, None, "GitHub does not tell what ada may do: GitHub: GET permission is refused with status 404"),
        ("read", None, "GitHub says that ada has read access"),
        ("write", says(500, {"message": "oops"}), "GitHub does not tell what ada may do: GitHub: GET permission"),
        ("write", says(403, {"message": "no"}), "refused with status 403"),
        ("write", sleeps(30.0), "GitHub does not tell what ada may do: GitHub: cannot be reached"),
    ],
)
async def test_gh_19_unknown_people_readers_and_whom_github_does_not_tell_of_do_not(live, hub, permission, fault, told):
    flow = (await live.create(listening(WRITERS))).id
    if permission is not None:
        hub.may("ada", permission)
    hub.faults = [fault]
    delivery = await sent(live, comment())
    verdict = await verdict_of(live, delivery, flow)
    assert (verdict["stage"], verdict["passed"]) == ("filters", False)
    assert verdict["reason"].startswith('actor_access is "read", wanted exactly "write" (')
    assert told in verdict["reason"]


async def test_gh_19_a_collaborator_who_may_only_read_is_a_reader(live, hub):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "read", "triage")
    payload = comment(comment__author_association="COLLABORATOR")
    verdict = await verdict_of(live, await sent(live, payload), flow)
    assert (verdict["passed"], verdict["stage"]) == (False, "filters")
    assert "GitHub says that ada has triage access" in verdict["reason"]


async def test_it_is_the_sender_who_counts_and_not_the_author(live, hub):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("mia", "maintain")
    payload = comment("stranger", sender={"login": "mia", "type": "User"})
    assert (await verdict_of(live, await sent(live, payload), flow))["passed"]
    payload = comment("mia", comment__author_association="OWNER", sender={"login": "stranger", "type": "User"})
    assert not (await verdict_of(live, await sent(live, payload), flow))["passed"]


async def test_gh_22_the_guard_of_a_loop_with_two_triggers_holds_for_both(live, hub):
    both = [
        {"id": "$github_event_received", "type": "events", "properties": [exact("event_type", kind)]}
        for kind in ("issue_comment", "pull_request_review")
    ]
    guarded = [{**one, "properties": [*one["properties"], WRITERS]} for one in both]
    flows = [
        (await live.create(document)).id for document in (listening(WRITERS, events=both), listening(events=guarded))
    ]
    hub.may("ada", "write")
    by_ada = [await sent(live, comment()), await sent(live, review("ada"), "pull_request_review")]
    by_stranger = [
        await sent(live, comment("stranger")),
        await sent(live, review("stranger"), "pull_request_review"),
    ]
    for flow in flows:
        assert {run["delivery_id"] for run in await live.runs(flow)} == {*by_ada}
        for delivery in by_stranger:
            assert (await verdict_of(live, delivery, flow))["stage"] == "filters"


async def test_a_guard_that_stands_beside_one_of_two_triggers_alone_is_asked_for_there_alone(live, hub):
    comments = {"id": "$github_event_received", "type": "events", "properties": [exact("event_type", "issue_comment")]}
    reviews = {**comments, "properties": [exact("event_type", "pull_request_review"), WRITERS]}
    flow = (await live.create(listening(events=[comments, reviews]))).id
    await sent(live, comment("stranger"))
    assert (len(await live.runs(flow)), hub.calls["permission"]) == (1, 0)
    await sent(live, review("stranger"), "pull_request_review")
    assert (len(await live.runs(flow)), hub.calls["permission"]) == (1, 1)


@pytest.mark.parametrize("asked", [exact("actor_access", "read", operator="is_not"),
                                   {"key": "properties.actor_access = 'write'", "type": "hogql"}])  # fmt: skip
async def test_a_loop_may_ask_in_any_way(live, hub, asked):
    flow = (await live.create(listening(asked))).id
    hub.may("ada", "write")
    verdict = await verdict_of(live, await sent(live, comment()), flow)
    assert verdict["passed"]
    assert "GitHub says that ada has write access" in verdict["reason"]
    assert not (await verdict_of(live, await sent(live, comment("stranger")), flow))["passed"]


async def test_nothing_is_asked_where_no_loop_turns_on_it(live, hub):
    await live.create(listening())
    await live.create(listening(WRITERS, exact("event_type", "issues")))
    await live.create(listening(WRITERS, exact("body", "urgent", operator="icontains")))
    await live.create(listening(exact("actor_access", "write", "read")))
    await live.create(listening(WRITERS, repository="acme/elsewhere"))
    await sent(live, comment())
    assert hub.calls["permission"] == 0


async def test_a_push_is_by_somebody_who_may_write_and_nobody_is_asked(live, hub):
    flow = (await live.create(listening(WRITERS, exact("event_type", "push")))).id
    verdict = await verdict_of(live, await sent(live, push(), "push"), flow)
    assert verdict["reason"] == "every filter and brake passed; only who may write can push"
    assert hub.calls["permission"] == 0


async def test_without_credentials_the_association_counts_where_the_sender_is_the_author(service, hub):
    live = await connect(service, api_base_url=hub.url)
    flow = (await live.create(listening(WRITERS))).id
    member = comment(comment__author_association="MEMBER")
    assert (await verdict_of(live, await sent(live, member), flow))["passed"]
    for payload in (
        comment("bob", comment__author_association="MEMBER", sender={"login": "ada", "type": "User"}),
        comment(comment__author_association="CONTRIBUTOR"),
    ):
        verdict = await verdict_of(live, await sent(live, payload), flow)
        assert not verdict["passed"]
        assert "by the delivery alone" in verdict["reason"]
    assert sum(hub.calls.values()) == 0
    await live.services.workflows.disable(PROJECT, flow, running="drain")


async def test_a_delivery_without_sender_or_repository_asks_nobody(live, hub):
    flow = (await live.create(listening(WRITERS))).id
    for gone in ("sender", "repository"):
        delivery = await sent(live, {**comment(), gone: None})
        assert all(not one["passed"] for one in await live.verdicts(delivery) if one["workflow"] == flow)
    assert hub.calls["permission"] == 0


async def test_many_deliveries_of_one_person_are_one_question(live, hub):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    hub.always = sleeps(0.3)
    payloads = [comment(issue__number=number) for number in range(20)]
    await asyncio.gather(*(sent(live, payload) for payload in payloads))
    assert (len(await live.runs(flow)), hub.calls["permission"]) == (20, 1)
    await sent(live, comment(issue__number=100))
    assert (len(await live.runs(flow)), hub.calls["permission"]) == (21, 1)


async def test_people_and_repositories_are_asked_for_apart(live, hub):
    await live.create(listening(WRITERS))
    await live.create(listening(WRITERS, repository="acme/other"))
    other = {"repository": {"id": 5, "full_name": "acme/other"}}
    for payload in (comment("ada"), comment("bob"), comment("ada", **other), comment("ADA"), comment("bob")):
        await sent(live, payload)
    assert hub.calls["permission"] == 3


async def test_an_answer_is_kept_for_five_minutes(live, hub, clock):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    await sent(live, comment())
    hub.may("ada", "read")
    clock.forward(timedelta(minutes=4, seconds=59))
    assert (await verdict_of(live, await sent(live, comment()), flow))["passed"]
    clock.forward(timedelta(seconds=2))
    assert not (await verdict_of(live, await sent(live, comment()), flow))["passed"]
    assert hub.calls["permission"] == 2


async def test_an_error_is_not_kept_for_long(live, hub, clock):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    hub.faults = [says(502)]
    assert not (await verdict_of(live, await sent(live, comment()), flow))["passed"]
    clock.forward(timedelta(seconds=11))
    assert (await verdict_of(live, await sent(live, comment()), flow))["passed"]


@pytest.mark.parametrize("event", ["member", "membership", "organization"])
async def test_answers_are_dropped_when_members_change(live, hub, event):
    flow = (await live.create(listening(WRITERS, exact("event_type", "issue_comment")))).id
    hub.may("ada", "write")
    await sent(live, comment())
    hub.may("ada", "read")
    await sent(live, {"action": "removed", "member": {"login": "ada"}, "organization": {"login": "acme"}}, event)
    assert not (await verdict_of(live, await sent(live, comment()), flow))["passed"]
    assert hub.calls["permission"] == 2


async def test_an_answer_that_was_on_its_way_when_members_changed_is_asked_for_again(live, hub):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")

    async def slow(_request):
        hub.always = None
        await sent(live, {"action": "removed", "member": {"login": "ada"}, "organization": {"login": "acme"}}, "member")

    hub.always = slow
    assert (await verdict_of(live, await sent(live, comment()), flow))["passed"]
    assert hub.calls["permission"] == 2


async def test_the_answers_of_another_token_do_not_count(service, hub):
    live = await connected(service, hub)
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    await sent(live, comment())
    again = await connected(service, hub)
    await sent(again, comment())
    assert hub.calls["permission"] == 2
    await live.services.workflows.disable(PROJECT, flow, running="drain")


async def test_with_few_calls_left_everybody_is_a_reader(live, hub):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    hub.remaining = 499
    verdict = await verdict_of(live, await sent(live, comment()), flow)
    assert "only 499 calls are left of the rate limit" in verdict["reason"]
    await sent(live, comment("bob"))
    assert hub.calls["permission"] == 1


async def test_the_installation_of_the_delivery_is_the_one_that_asks(service, hub):
    live = await connect(service, **hub.app_settings())
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    assert (await verdict_of(live, await sent(live, comment(installation={"id": 31337})), flow))["passed"]
    assert (hub.calls["token"], hub.calls["installation"]) == (1, 0)
    verdict = await verdict_of(live, await sent(live, comment("bob", installation={"id": 9})), flow)
    assert "getting the installation's token is refused with status 404" in verdict["reason"]
    await live.services.workflows.disable(PROJECT, flow, running="drain")


async def test_what_waits_for_github_holds_up_nobody_else_and_keeps_the_order_of_its_subject(live, hub, monkeypatch):
    monkeypatch.setattr("loops.connections.github.SECONDS", 60.0)  # a slow machine is not out of patience
    slow = (await live.create(listening(WRITERS))).id
    fast = (await live.create(listening(exact("body", "quick", operator="icontains")))).id
    hub.may("ada", "write")
    release = asyncio.Event()

    async def held(_request):
        await release.wait()

    hub.faults = [held]
    first = await live.post(comment(), event="issue_comment")
    behind = await live.post(comment("bob", comment__body="quick"), event="issue_comment")
    apart = await live.post(comment("bob", comment__body="quick", issue__number=43), event="issue_comment")
    await live.settled(apart["delivery"])
    row = await live.delivery(first["delivery"])
    assert (row["status"], row["attempts"], row["reason"]) == (
        "accepted",
        0,
        "asks GitHub what ada may do in acme/widgets",
    )
    assert (await live.delivery(behind["delivery"]))["status"] == "accepted"
    assert [run["delivery_id"] for run in await live.runs(fast)] == [apart["delivery"]]
    release.set()
    await live.settled(behind["delivery"])
    assert [run["delivery_id"] for run in await live.runs(slow)] == [first["delivery"]]
    assert {run["delivery_id"] for run in await live.runs(fast)} == {apart["delivery"], behind["delivery"]}


async def test_what_was_decided_is_explained_with_the_value_of_that_time(live, hub):
    decided = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    delivery = await sent(live, comment())
    hub.may("ada", "read")
    other = (await live.create({**listening(WRITERS), "status": "draft"})).id
    (stored,) = (await explained(live.services, PROJECT, delivery, decided)).verdicts
    assert (stored.recomputed, stored.verdict["passed"]) == (False, True)
    asked = listening(WRITERS, exact("event_type", "issues"))
    third = (await live.create(asked)).id
    again = {
        one.verdict["workflow"]: one.verdict for one in (await explained(live.services, PROJECT, delivery)).verdicts
    }
    assert other not in again
    if third in again:  # enabled later than the delivery, so nothing is compared
        assert again[third]["stage"] == "enabled"
    assert hub.calls["permission"] == 1
    (run,) = await live.runs(decided)
    body = await live.read(lambda connection: _event_of(connection, run["id"]))
    assert body["properties"]["actor_access"] == "write"
    assert body["properties"]["actor_access_reason"] == "GitHub says that ada has write access"


def _event_of(connection, run_id):
    from loops.packed import unpack
    from loops.store.tables import events, runs

    query = events.select().join(runs, runs.c.event_uuid == events.c.uuid).where(runs.c.id == run_id)
    return unpack(connection.execute(query).mappings().one()["body"])


async def test_a_loop_that_did_not_come_near_is_explained_with_the_value_that_was_asked_for(live, hub):
    far = (await live.create(listening(WRITERS, exact("event_type", "issues")))).id
    await live.create(listening(WRITERS))
    hub.may("ada", "write")
    delivery = await sent(live, comment())
    verdict = next(
        one
        for one in (await explained(live.services, PROJECT, delivery, far)).verdicts
        if one.verdict["workflow"] == far
    ).verdict
    (access,) = (one for one in verdict["compared"] if one["key"] == "actor_access")
    assert (access["actual"], access["note"]) == ("write", "GitHub says that ada has write access")


async def test_a_delivery_that_its_process_did_not_live_to_ask_about_is_asked_about_by_the_next(
    module_database_url, tmp_path, hub, live, clock
):
    flow = (await live.create(listening(WRITERS))).id
    hub.may("ada", "write")
    release = asyncio.Event()

    async def held(_request):
        await release.wait()

    hub.faults = [held]
    answer = await live.post(comment(), event="issue_comment", key=str(uuid.uuid4()))
    await asyncio.sleep(0.3)
    audience = live.service.dispatcher._audience
    await audience.rights.aclose()  # as if the process were gone
    release.set()
    clock.forward(timedelta(seconds=16))
    live.service.dispatcher.wake()
    await live.settled(answer["delivery"])
    assert [run["delivery_id"] for run in await live.runs(flow)] == [answer["delivery"]]


async def played(live, delivery: str, flow: str) -> tuple[str, bool]:
    (one,) = await live.services.replays.delivery(PROJECT, delivery, flow)
    return one.verdict.stage, one.run is not None


async def missed(live, flow: str) -> list[str]:
    now = live.services.clock.now()
    period = (now - timedelta(hours=1), now + timedelta(hours=1))
    return [one.delivery_id for one in (await live.services.replays.missed(PROJECT, flow, period)).items]


async def test_a_replay_counts_what_github_said_when_the_event_came(live, hub, clock):
    clock.forward(timedelta(hours=3))
    flow = (await live.create(listening(WRITERS))).id
    hub.may("reader", "read")
    refused = await sent(live, comment("reader", comment__author_association="COLLABORATOR"))
    hub.may("reader", "write")
    assert await played(live, refused, flow) == ("filters", False)
    assert await missed(live, flow) == []
    hub.may("ada", "write")
    near = (await live.create(listening(WRITERS, exact("sender", "bob")))).id
    allowed = await sent(live, comment())
    hub.may("ada", "read")
    await live.services.workflows.update(PROJECT, near, listening(WRITERS), "test")
    assert await played(live, allowed, near) == ("start", True)
    assert hub.calls["permission"] == 2


async def test_a_replay_asks_github_what_nobody_has_asked_yet_and_keeps_it(live, hub, clock):
    clock.forward(timedelta(hours=3))
    refused = await sent(live, comment("reader", comment__author_association="COLLABORATOR"))
    allowed = await sent(live, comment("writer"))
    assert hub.calls["permission"] == 0
    flow = (await live.create(listening(WRITERS))).id
    hub.may("reader", "read")
    hub.may("writer", "write")
    assert await missed(live, flow) == [allowed]
    assert await played(live, refused, flow) == ("filters", False)
    assert hub.calls["permission"] == 2
    (event,) = await live.read(lambda connection: deliveries.events_of(connection, refused))
    assert event["facts"]["actor_access"] == "read"
    (asked,) = await live.services.replays.delivery(PROJECT, refused, flow)
    assert "GitHub says that reader has read access" in asked.verdict.reason


async def test_a_replay_while_github_does_not_answer_counts_as_read(live, hub):
    delivery = await sent(live, comment("reader", comment__author_association="OWNER"))
    flow = (await live.create(listening(WRITERS))).id
    hub.faults = [says(500)] * 4
    assert await played(live, delivery, flow) == ("filters", False)
