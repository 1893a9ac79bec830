import pytest

from loops.connections.slack_answer import CHANNEL_WORDS, Answer
from notify.message import Refused, Retry, Uncertain
from notify.slack_errors import MENDS, RETRIED, UNCERTAIN, outcome_of


def answer(code: str = "", status: int = 200, headers: dict[str, str] | None = None, **body: object) -> Answer:
    return Answer(status, headers or {}, {"ok": False, **({"error": code} if code else {}), **body})


@pytest.mark.parametrize("code", sorted(MENDS))
def test_every_refusal_names_itself_the_channel_and_its_mend(code: str):
    outcome = outcome_of(answer(code), "C1")
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert "C1" in outcome.reason
    assert code in outcome.reason or code in CHANNEL_WORDS
    assert outcome.mend
    assert "{" not in outcome.mend


def test_sl_31_a_missing_scope_is_told_with_what_is_needed_and_what_is_there():
    outcome = outcome_of(answer("missing_scope", needed="im:write", provided="chat:write"), "U1")
    assert isinstance(outcome, Refused)
    assert "needed im:write, provided chat:write" in outcome.reason
    assert "im:write" in outcome.mend
    assert "install the app anew" in outcome.mend


def test_slacks_own_details_are_passed_on():
    outcome = outcome_of(answer("invalid_blocks", response_metadata={"messages": ["[ERROR] no text"]}), "C1")
    assert "[ERROR] no text" in outcome.reason


def test_a_refusal_that_nobody_knows_is_a_refusal():
    assert isinstance(outcome_of(answer("brand_new_reason"), "C1"), Refused)


def test_a_restriction_of_whatever_kind_is_the_workspaces_policy():
    outcome = outcome_of(answer("restricted_action_of_another_kind"), "C1")
    assert isinstance(outcome, Refused)
    assert "admin" in outcome.mend


@pytest.mark.parametrize("code", sorted(RETRIED))
def test_what_is_for_now_is_tried_again(code: str):
    assert isinstance(outcome_of(answer(code), "C1"), Retry)


@pytest.mark.parametrize("code", sorted(UNCERTAIN))
def test_a_failure_half_way_leaves_it_uncertain(code: str):
    assert isinstance(outcome_of(answer(code), "C1"), Uncertain)


@pytest.mark.parametrize(("told", "wait"), [("30", 30.0), ("", 1.0), ("soon", 1.0), ("999999", 3600.0)])
def test_a_rate_limit_says_how_long_to_wait(told: str, wait: float):
    outcome = outcome_of(answer("ratelimited", 429, {"retry-after": told}), "C1")
    assert isinstance(outcome, Retry)
    assert (outcome.after, outcome.whole) == (wait, True)


@pytest.mark.parametrize(("status", "kind"), [(502, Uncertain), (504, Uncertain), (200, Uncertain), (404, Refused)])
def test_an_answer_that_is_not_slacks_is_uncertain_unless_it_surely_took_nothing(status: int, kind: type):
    assert isinstance(outcome_of(Answer(status, {}, {}), "C1"), kind)
