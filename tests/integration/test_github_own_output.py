"""What a run of ours wrote, and what answers itself for ever, on SQLite and on Postgres."""

import copy
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from loops.own_output import PURPOSE, Marks, OwnMark, Place
from loops.store import connections, retention
from loops.store.github import keep_head, pushed_by
from server.app import Wiring
from tests.doubles.site import SetClock
from tests.integration.github_loops import REPOSITORY_ID, comment, connect, listening, push, sent, verdict_of
from tests.integration.running import PROJECT, Running, running
from triggers.replay import Replayed
from triggers.testing import Ask

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARK = OwnMark("1a22eb04-f6e4-5b76-8879-a2d01a22eb04", 1)
OURS = "loops-bot"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def clock() -> SetClock:
    return SetClock()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, clock: SetClock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    folder, wiring = tmp_path_factory.mktemp("d"), Wiring(clock=clock)
    async with running(folder, module_database_url, role="web", wiring=wiring, subject_hourly_runs="10") as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def live(service: Running, clock: SetClock) -> AsyncIterator[Running]:
    """By way of a connection with a personal token; its loops are switched off in the end."""
    clock.forward(timedelta(hours=2))
    yield await connect(service, token="ghp_1", api_base_url="http://127.0.0.1:1")
    for listener in service.services.definitions.listeners():
        await service.services.workflows.disable(PROJECT, listener.key, running="drain")


def marked(live: Running, place: Place, mark: OwnMark = MARK) -> str:
    """A text of ours, as it is written in that place."""
    return f"Done.\n\n{Marks(live.services.box.derive_all(PURPOSE)).make(mark, place)}"


def opened(author: str, body: str, **more: Any) -> dict[str, Any]:
    """An issue, or with `pull_request` in its place a pull request, that somebody opened."""
    user = {"login": author, "type": "User"}
    issue = {
        "number": 43,
        "node_id": uuid.uuid4().hex,
        "updated_at": "2026-11-30T12:00:00Z",
        "body": body,
        "user": user,
    }
    return {
        "action": "opened",
        "issue": issue,
        "repository": {"id": REPOSITORY_ID, "full_name": "acme/widgets"},
        "sender": user,
        **more,
    }


def proposed(branch: str, home: int = REPOSITORY_ID, **more: Any) -> dict[str, Any]:
    made = opened(OURS, "a change", **more)
    head = {"ref": branch, "sha": "3" * 40, "repo": {"id": home}}
    return {**made, "pull_request": {**made.pop("issue"), "head": head}}


def made(ref: str, kind: str = "branch") -> dict[str, Any]:
    """The webhook besides the first push to a branch, or of a tag."""
    return {**push(), "ref": ref, "ref_type": kind}


UNDER_42 = Place(REPOSITORY_ID, 42, OURS)
NEW = Place(REPOSITORY_ID, None, OURS)


async def test_a_comment_with_our_mark_starts_nothing_and_names_its_run(live):
    flow = (await live.create(listening())).id
    delivery = await sent(live, comment(OURS, comment__body=marked(live, UNDER_42)))
    verdict = await verdict_of(live, delivery, flow)
    assert (verdict["stage"], verdict["passed"]) == ("own_output", False)
    assert verdict["reason"] == (
        f"it carries the mark of this installation (run {MARK.run_id}, hop 1 of 5 at most): "
        "own output never starts a loop"
    )


async def test_the_fifth_hop_is_told_by_its_own_words(live):
    flow = (await live.create(listening())).id
    body = marked(live, UNDER_42, OwnMark("r5", 5))
    verdict = await verdict_of(live, await sent(live, comment(OURS, comment__body=body)), flow)
    assert verdict["reason"].startswith("hop limit: 5 runs in a row led to it, 5 at most")


async def test_an_issue_and_a_pull_request_of_ours_are_known_by_their_marks(live):
    flow = (await live.create(listening())).id
    body = marked(live, NEW)
    pull = proposed("topic")
    pull["pull_request"]["body"] = body
    for payload, event in ((opened(OURS, body), "issues"), (pull, "pull_request")):
        assert (await verdict_of(live, await sent(live, payload, event), flow))["stage"] == "own_output"


async def test_what_people_do_with_what_we_wrote_is_not_our_output(live):
    flow = (await live.create(listening())).id
    body = marked(live, NEW)
    for action, sender in (("labeled", "ada"), ("closed", OURS), ("edited", "ada")):
        payload = opened(OURS, body, action=action, sender={"login": sender, "type": "User"})
        assert (await verdict_of(live, await sent(live, payload, "issues"), flow))["passed"], action


async def test_a_mark_that_a_stranger_pastes_mutes_nothing(live):
    flow = (await live.create(listening())).id
    for payload, event in (
        (comment("stranger", comment__body=marked(live, UNDER_42)), "issue_comment"),
        (comment(OURS, comment__body=marked(live, UNDER_42), issue__number=44), "issue_comment"),
        (opened("stranger", marked(live, NEW)), "issues"),
        (opened(OURS, marked(live, UNDER_42)), "issues"),
        (comment("stranger", comment__body=f"<!-- loops run=x hop=9 mac={'0' * 32} -->"), "issue_comment"),
    ):
        assert (await verdict_of(live, await sent(live, payload, event), flow))["passed"]


async def test_our_branches_start_nothing(live):
    flow = (await live.create(listening())).id
    for payload, event in (
        (push(ref="refs/heads/loops/fix-7"), "push"),
        (made("loops/fix-7"), "create"),
        (proposed("loops/fix-7"), "pull_request"),
        (proposed("loops/fix-7", action="synchronize"), "pull_request"),
    ):
        verdict = await verdict_of(live, await sent(live, payload, event), flow)
        assert verdict["reason"] == "the branch loops/fix-7 is this installation's: own output never starts a loop"


def checks(branch: str | None, sha: str, home: int = REPOSITORY_ID) -> dict[str, dict[str, Any]]:
    """What GitHub tells of the checks that a commit on a branch is put to, by event."""
    told = {"head_branch": branch, "head_sha": sha}
    around = {**comment("github-actions[bot]"), "action": "completed"}
    around.pop("comment")
    around.pop("issue")
    return {
        "workflow_run": {**around, "workflow_run": {**told, "head_repository": {"id": home}}},
        "workflow_job": {**around, "workflow_job": told},
        "check_suite": {**around, "check_suite": told},
        "check_run": {**around, "check_run": {"head_sha": sha, "check_suite": told}},
        "status": {**around, "sha": sha},
    }


@pytest.mark.parametrize("app", [False, True])
async def test_checks_of_what_we_pushed_start_nothing_whoever_runs_them(service, live, app):
    by = await connect(service, app_slug="my-loops") if app else live
    flow = (await live.create(listening())).id
    sha = uuid.uuid4().hex + "0" * 8
    await live.write(lambda connection: keep_head(connection, REPOSITORY_ID, sha, MARK, live.services.clock.now()))
    for event, payload in checks("loops/fix-7", sha).items():
        assert (await verdict_of(live, await sent(by, payload, event), flow))["stage"] == "own_output", event
    branch_alone = checks("loops/fix-7", "7" * 40)
    for event in ("workflow_run", "check_suite", "check_run"):
        verdict = await verdict_of(live, await sent(by, branch_alone[event], event), flow)
        assert verdict["stage"] == "own_output", event


async def test_checks_of_what_others_pushed_start_loops_also_from_forks_with_our_names(live):
    flow = (await live.create(listening())).id
    for event, payload in checks("topic", "8" * 40).items():
        assert (await verdict_of(live, await sent(live, payload, event), flow))["passed"], event
    fork = checks("loops/fix-7", "9" * 40, home=3)["workflow_run"]
    assert (await verdict_of(live, await sent(live, fork, "workflow_run"), flow))["passed"]


async def test_branches_of_others_and_what_people_say_of_ours_are_not_muted(live):
    flow = (await live.create(listening())).id
    for payload, event in (
        (push(ref="refs/heads/loopsy"), "push"),
        (push(ref="refs/tags/loops/1"), "push"),
        (made("loopsy"), "create"),
        (made("loops/1", "tag"), "create"),
        (proposed("loops/fix-7", home=5), "pull_request"),  # of a fork, whose owner names branches as he likes
        (proposed("loops/fix-7", action="labeled"), "pull_request"),
        (
            {**comment("ada"), "action": "submitted", "pull_request": proposed("loops/fix-7")["pull_request"]},
            "issue_comment",
        ),
    ):
        assert (await verdict_of(live, await sent(live, payload, event), flow))["passed"]


async def test_a_branch_means_nothing_to_a_connection_that_writes_nothing(service, live):
    bare = await connect(service)
    flow = (await live.create(listening())).id
    assert (await verdict_of(live, await sent(bare, push(ref="refs/heads/loops/fix"), "push"), flow))["passed"]


async def test_a_commit_that_we_pushed_is_known_wherever_it_lands(live):
    flow = (await live.create(listening())).id
    sha, now = uuid.uuid4().hex + "0" * 8, live.services.clock.now()
    await live.write(lambda connection: keep_head(connection, REPOSITORY_ID, sha, MARK, now))
    verdict = await verdict_of(live, await sent(live, push(after=sha), "push"), flow)
    assert verdict["reason"].startswith(f"this installation pushed the commit {sha[:12]} (run {MARK.run_id}, hop 1")
    elsewhere = {"id": REPOSITORY_ID + 1, "full_name": "acme/widgets"}
    assert (await verdict_of(live, await sent(live, push(after=sha, repository=elsewhere), "push"), flow))["passed"]


async def test_commits_of_ours_are_forgotten_after_ninety_days(live):
    now, sha = live.services.clock.now(), "4" * 40
    await live.write(lambda connection: keep_head(connection, 3, sha, MARK, now))
    for days, left in ((89, MARK), (91, None)):
        then = now + timedelta(days=days)
        old = await live.read(lambda connection: retention.find(connection, then, 30))  # noqa: B023
        await live.write(lambda connection: retention.remove(connection, old))  # noqa: B023
        assert await live.read(lambda connection: pushed_by(connection, 3, sha)) == left


async def test_gh_21_what_our_app_writes_never_starts_a_loop(service, live):
    app = await connect(service, app_slug="my-loops")
    flow = (await live.create(listening())).id
    for _ in range(3):
        payload = comment("my-loops[bot]", sender={"login": "my-loops[bot]", "type": "Bot"})
        assert (await verdict_of(live, await sent(app, payload), flow))["stage"] == "own_output"
    assert await live.runs(flow) == []


async def test_gh_21_two_bots_that_answer_each_other_are_stopped_after_ten_and_it_is_said(live, clock):
    flow = (await live.create(listening())).id
    bot = {"login": "other[bot]", "type": "Bot"}
    deliveries = []
    for _ in range(30):
        deliveries.append(await sent(live, comment("other[bot]", sender=bot)))
        clock.forward(timedelta(minutes=1))
    assert len(await live.runs(flow)) == 10
    verdicts = [await verdict_of(live, delivery, flow) for delivery in deliveries]
    assert [one["stage"] for one in verdicts] == ["start"] * 10 + ["subject_limit"] * 20
    assert verdicts[10]["reason"] == (
        f"10 events of {REPOSITORY_ID}#42 have started runs within the last hour, 10 at most: something may be "
        "answering itself; LOOPS_SUBJECT_HOURLY_RUNS is the limit"
    )
    assert (await live.delivery(deliveries[-1]))["status"] == "ignored"
    clock.forward(timedelta(minutes=31))  # an hour after the first
    assert (await verdict_of(live, await sent(live, comment("other[bot]", sender=bot)), flow))["passed"]


async def test_two_loops_that_answer_each_other_share_the_limit_of_their_subject(live):
    flows = [(await live.create(listening(_by(login)))).id for login in ("a[bot]", "b[bot]")]
    for number in range(30):
        login = ("a[bot]", "b[bot]")[number % 2]
        await sent(live, comment(login, sender={"login": login, "type": "Bot"}))
    assert [len(await live.runs(flow)) for flow in flows] == [5, 5]


def _by(login: str) -> dict[str, Any]:
    return {"key": "sender", "value": [login], "operator": "exact", "type": "event"}


async def test_many_loops_of_one_event_all_start_and_other_subjects_have_a_limit_of_their_own(live):
    flows = [(await live.create(listening())).id for _ in range(12)]
    payload = comment()
    await sent(live, payload)
    assert [len(await live.runs(flow)) for flow in flows] == [1] * 12
    for _ in range(12):
        await sent(live, comment())
    for number in (1, 2):
        again = copy.deepcopy(comment(issue__number=number))
        assert (await verdict_of(live, await sent(live, again), flows[0]))["passed"]


async def test_what_was_stopped_by_the_limit_has_not_taken_its_fact(live, clock):
    flow = (await live.create(listening())).id
    for _ in range(10):
        await sent(live, comment())
    payload = comment()
    assert (await verdict_of(live, await sent(live, payload), flow))["stage"] == "subject_limit"
    clock.forward(timedelta(hours=1, minutes=1))
    assert (await verdict_of(live, await sent(live, payload), flow))["passed"]


async def missed(live: Running, flow: str) -> list[Replayed]:
    now = live.services.clock.now()
    period = (now - timedelta(hours=1), now + timedelta(hours=1))
    return [*(await live.services.replays.missed(PROJECT, flow, period)).items]


async def test_no_replay_starts_a_loop_on_own_output_by_whatever_it_is_known(service, live):
    sha, now = uuid.uuid4().hex + "0" * 8, live.services.clock.now()
    await live.write(lambda connection: keep_head(connection, REPOSITORY_ID, sha, MARK, now))
    app = await connect(service, app_slug="my-loops")
    bot = {"login": "my-loops[bot]", "type": "Bot"}
    theirs = await sent(live, comment())
    own = [
        await sent(by, payload, event)
        for by, payload, event in (
            (live, comment(OURS, comment__body=marked(live, UNDER_42)), "issue_comment"),
            (live, push(ref="refs/heads/loops/fix-1"), "push"),
            (live, push(after=sha), "push"),
            (app, comment("my-loops[bot]", sender=bot), "issue_comment"),
        )
    ]
    flow = (await live.create(listening())).id
    assert [one.delivery_id for one in await missed(live, flow)] == [theirs]
    for delivery in own:
        (told,) = await live.services.replays.delivery(PROJECT, delivery, flow)
        assert (told.verdict.stage, told.run) == ("own_output", None)
        assert await live.services.replays.delivery(PROJECT, delivery) == []
        tested = await live.services.tester.stored(PROJECT, flow, Ask(delivery=delivery))
        assert (tested.verdict or {})["stage"] == "own_output"
    assert len(await live.runs(flow)) == 1


async def test_own_output_starts_nothing_by_a_replay_once_its_connection_is_gone(service, live):
    app = await connect(service, app_slug="my-loops")
    bot = {"login": "my-loops[bot]", "type": "Bot"}
    own = await sent(app, comment("my-loops[bot]", sender=bot))
    theirs = await sent(app, comment())
    branch = await sent(live, push(ref="refs/heads/loops/fix-1"), "push")
    for gone in (app, live):
        await live.write(lambda connection, number=gone.hook: connections.delete(connection, PROJECT, number))
    flow = (await live.create(listening())).id
    stages = [(await live.services.replays.delivery(PROJECT, one, flow))[0].verdict for one in (own, branch, theirs)]
    assert [one.stage for one in stages] == ["own_output", "own_output", "start"]
    assert "nobody can tell any more" in stages[0].reason


async def test_a_period_that_is_played_again_has_the_limit_of_its_subjects_and_counts(live, clock):
    flow = (await live.create(listening())).id
    limited = [await sent(live, comment()) for _ in range(12)][10:]
    assert await missed(live, flow) == []  # stopped on purpose
    (one,) = await live.services.replays.delivery(PROJECT, limited[0], flow)
    assert "not asked: the limit of its subject" in one.verdict.reason
    await live.services.workflows.disable(PROJECT, flow, running="drain")
    clock.forward(timedelta(hours=2))
    later = [await sent(live, comment(issue__number=44)) for _ in range(12)]
    await live.services.workflows.enable(PROJECT, flow, "test")
    assert [one.delivery_id for one in await missed(live, flow)] == later[:10]
    assert [(await verdict_of(live, one, flow))["stage"] for one in later[10:]] == ["subject_limit"] * 2
    assert await missed(live, flow) == []
    delivery = await sent(live, comment(issue__number=44))
    assert (await verdict_of(live, delivery, flow))["stage"] == "subject_limit"
