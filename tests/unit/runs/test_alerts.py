"""When people are told of failures, and what they are told."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.runs.alert_words import AlertTarget, loop_target, step_target, words
from loops.runs.alerts import EVERY, Failing, Failures, Recovered, hour_over, run_completed, run_failed
from notify.compose import message_of
from notify.message import EmailTarget, PageTarget, SlackTarget
from notify.slack_blocks import parts
from tests.unit.definition.documents import loop

NOW = datetime(2026, 7, 6, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def fail(known: Failures, minute: float = 0, *, is_told: bool = False) -> tuple[Failures, Failing | None]:
    return run_failed(known, f"r{minute:g}", "why", NOW + minute * MINUTE, is_told=is_told)


def test_the_first_failure_is_told_and_then_one_an_hour_that_counts_what_came_between():
    known, first = fail(Failures())
    assert first == Failing("r0", "why")
    for minute in (1, 2, 59):
        known, told = fail(known, minute)
        assert told is None
    assert known.due_at == NOW + EVERY
    known, told = fail(known, 60)
    assert told == Failing("r60", "why", before=3)
    assert (known.untold, known.due_at) == (0, None)


def test_a_loop_that_works_again_is_told_once_with_how_often_it_failed():
    known, _ = fail(Failures())
    known, _ = fail(known, 1)
    known, told = run_completed(known)
    assert told == Recovered(2)
    assert run_completed(known) == (known, None)
    assert run_completed(Failures()) == (Failures(), None)


def test_a_failure_soon_after_a_recovery_waits_for_the_hour_and_is_told_then():
    known, _ = fail(Failures())
    known, _ = run_completed(known)
    known, told = fail(known, 5)
    assert told is None
    assert known.due_at == NOW + EVERY
    known, told = hour_over(known, NOW + EVERY)
    assert told == Failing("r5", "why")
    known, recovered = run_completed(known)
    assert recovered == Recovered(1)


def test_a_failure_that_was_over_before_its_hour_is_counted_by_the_next_one():
    known, _ = fail(Failures())
    known, _ = run_completed(known)
    known, _ = fail(known, 5)
    known, recovered = run_completed(known)
    assert recovered is None
    assert hour_over(known, NOW + EVERY)[1] is None
    _, told = fail(known, 61)
    assert told == Failing("r61", "why", before=1)


def test_a_run_that_told_its_failure_itself_is_not_told_again_and_its_recovery_is():
    known, told = fail(Failures(), is_told=True)
    assert told is None
    _, told = fail(known, 1)
    assert told is None
    _, recovered = run_completed(known)
    assert recovered == Recovered(1)


STEPS = st.lists(
    st.tuples(st.sampled_from(["fail", "fail and tell", "complete"]), st.integers(0, 90)), min_size=1, max_size=60
)


@given(STEPS)
def test_whatever_happens_alerts_are_an_hour_apart_each_has_one_recovery_and_every_failure_is_counted(steps):
    known, minute = Failures(), 0
    alerts: list[int] = []
    failed = counted = recoveries = 0
    for kind, after in steps:
        minute += after
        notice = None
        if known.due_at is not None and known.due_at <= NOW + minute * MINUTE:
            known, notice = hour_over(known, NOW + minute * MINUTE)
        if kind == "complete":
            untold = known.untold
            known, recovered = run_completed(known)
            counted += untold - known.untold
            recoveries += recovered is not None
        else:
            failed += 1
            known, soon = fail(known, minute, is_told=kind == "fail and tell")
            assert notice is None or soon is None
            assert soon is not None or kind == "fail and tell" or known.due_at is not None
            notice = notice or soon
            counted += kind == "fail and tell"
        if notice is not None:
            alerts.append(minute)
            counted += notice.before + 1
    assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(alerts))
    assert recoveries <= len(alerts) + sum(kind == "fail and tell" for kind, _after in steps)
    assert failed == counted + known.untold


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=60))
def test_a_loop_that_changes_its_mind_has_no_more_recoveries_than_alerts(steps):
    known, minute, alerts, recoveries = Failures(), 0, 0, 0
    for breaks, after in steps:
        minute += after
        if breaks:
            known, notice = fail(known, minute)
            alerts += notice is not None
        else:
            known, recovered = run_completed(known)
            recoveries += recovered is not None
    assert recoveries <= alerts <= minute // 60 + 1


@pytest.mark.parametrize(
    ("template", "values", "target"),
    [
        ("template-slack", {"slack_workspace": "7", "channel": "C1|#general"}, AlertTarget("slack", 7, "C1")),
        ("template-slack", {"slack_workspace": 7, "channel": "{event.properties.channel}"}, None),
        ("template-slack", {"slack_workspace": 7, "channel": 5}, None),
        (
            "template-email",
            {"email": {"from": {"integrationId": 2}, "to": {"email": "ada@example.org"}}},
            AlertTarget("email", 2, "ada@example.org"),
        ),
        ("template-email", {"email": {"from": {"integrationId": 2}, "to": {"email": "{{ person.email }}"}}}, None),
        ("template-email", {"email": "text"}, None),
        ("template-log", {"text": "seen"}, None),
        (None, {}, None),
    ],
)
def test_a_step_tells_whom_it_names(template, values, target):
    assert step_target(template, values) == target


@pytest.mark.parametrize("definition", [None, {}, {"actions": [None, {}, {"config": []}, {"config": {"inputs": 1}}]}])
def test_a_loop_without_a_message_names_nobody(definition):
    assert loop_target(definition) is None


def test_a_loop_tells_its_failures_where_it_tells_its_result():
    found = loop_target(loop("github", "slack"))
    assert found is not None
    assert found.kind == "slack"


HOSTILE = "```\n<!channel> [click](https://evil.example) *<@U1>*\n" + "x" * 2000


@pytest.mark.parametrize("notice", [Failing("r", HOSTILE, before=1), Failing("r", ""), Recovered(1), Recovered(3)])
@pytest.mark.parametrize("kind", ["slack", "email", "page"])
def test_a_notice_makes_a_message_of_each_kind_in_which_nothing_of_the_reason_acts(kind, notice):
    said = words("Triage *all* [of]", notice, "https://loops.example.org/runs/r")
    target = AlertTarget(kind, 1, "ada@example.org" if kind == "email" else "C1")
    message = message_of(kind, target.inputs(said), "k")
    kinds = {"slack": SlackTarget, "email": EmailTarget, "page": PageTarget}
    assert isinstance(message.target, kinds[kind])
    assert "https://loops.example.org/runs/r" in message.text
    assert len(message.text) < 1200
    if kind == "slack":
        (part,) = parts(message)
        shown = part.blocks[0]["text"]["text"]
        assert "<!channel>" not in shown
        assert "<@U1>" not in shown
        assert "<https://evil" not in shown
        assert shown.count("```") % 2 == 0
        assert "<https://loops.example.org/runs/r|The run>" in shown


def test_a_notice_says_what_happened():
    link = "https://loops.example.org/runs/r"
    said = words("Triage", Failing("r", "task: the model is away", before=2), link)
    assert said.subject == "Triage failed"
    assert (
        said.plain == f"Triage failed.\n\ntask: the model is away\n\n2 more runs failed since the last alert.\n\n{link}"
    )
    assert words("Triage", Recovered(1), link).plain == f"Triage works again.\n\nIt failed once before.\n\n{link}"
