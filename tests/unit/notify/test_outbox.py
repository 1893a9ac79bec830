from dataclasses import replace
from datetime import datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import Conflict
from notify.message import Absent, Outcome, Refused, Retry, Sent, Settlement, Uncertain, Unsettled
from notify.outbox import (
    LEASE,
    LONGEST_PAUSE,
    MOST_ATTEMPTS,
    OVER,
    SURELY_ABSENT,
    Standing,
    Status,
    as_columns,
    asked_again,
    came,
    claimed,
    interrupted,
    pause,
    pending,
    rests,
    settled,
    shown,
    withdrawn,
)
from tests.unit.notify.instants import NOW

SECOND = timedelta(seconds=1)


def sending(parts: int = 1, refs: tuple[str, ...] = ()) -> Standing:
    return replace(claimed(pending(NOW), NOW), parts=parts, refs=refs)


def uncertain(parts: int = 1) -> Standing:
    return came(sending(parts), Uncertain("lost"), NOW + SECOND)


def test_a_new_message_is_due_at_once():
    assert pending(NOW) == Standing("pending", NOW)


def test_a_claimed_message_is_looked_at_again_when_its_lease_is_over():
    assert claimed(pending(NOW), NOW) == Standing("sending", NOW + LEASE, attempts=1, began_at=NOW)


@pytest.mark.parametrize("status", ["sending", "sent", "refused", "uncertain", "shown"])
def test_only_what_waits_to_be_sent_is_claimed(status):
    with pytest.raises(Conflict, match=status):
        claimed(Standing(status, NOW), NOW)


def test_a_sent_message_is_over():
    after = came(sending(), Sent("1.2"), NOW)
    assert (after.status, after.refs, after.due_at) == ("sent", ("1.2",), None)


def test_recipients_that_were_refused_beside_others_are_named():
    after = came(sending(), Sent("id", ("bob@example.org: 550 no such user",)), NOW)
    assert after.status == "sent"
    assert after.reason == "not delivered to bob@example.org: 550 no such user"


def test_a_part_that_is_there_is_kept_while_others_are_left():
    after = came(sending(3), Sent("1"), NOW + SECOND)
    assert (after.status, after.refs, after.due_at) == ("sending", ("1",), NOW + SECOND + LEASE)
    last = came(came(after, Sent("2"), NOW), Sent("3"), NOW)
    assert (last.status, last.refs) == ("sent", ("1", "2", "3"))


def test_a_refusal_is_over_and_keeps_its_mend_and_its_part():
    after = came(sending(3, ("1",)), Refused("is_archived", "it is archived", "unarchive it"), NOW)
    assert (after.status, after.code, after.mend) == ("refused", "is_archived", "unarchive it")
    assert after.reason == "part 2 of 3: it is archived"
    assert after.refs == ("1",)


def test_retries_wait_longer_and_longer_up_to_a_cap_and_then_give_up():
    standing, waits = pending(NOW), []
    for _attempt in range(MOST_ATTEMPTS - 1):
        standing = came(claimed(standing, NOW), Retry("busy"), NOW)
        assert standing.due_at is not None
        waits.append(standing.due_at - NOW)
    assert waits == sorted(waits)
    assert waits[0] == pause(1) == timedelta(seconds=5)
    assert waits[-1] == LONGEST_PAUSE
    over = came(claimed(standing, NOW), Retry("busy"), NOW)
    assert (over.status, over.code) == ("refused", "given_up")
    assert "20 attempts: busy" in over.reason


def test_a_service_that_asks_for_more_patience_gets_it():
    after = came(sending(), Retry("limited", after=90), NOW)
    assert after.due_at == NOW + timedelta(seconds=90)


def test_a_lost_answer_leaves_the_message_uncertain_and_soon_to_be_looked_for():
    after = uncertain()
    assert after.status == "uncertain"
    assert after.due_at == NOW + 2 * SECOND
    assert after.began_at == NOW


def test_a_message_left_by_a_dead_process_is_uncertain_and_never_sent_again_blindly():
    after = interrupted(sending(), NOW + LEASE)
    assert (after.status, after.due_at) == ("uncertain", NOW + LEASE)
    with pytest.raises(Conflict):
        claimed(after, NOW)


def test_an_uncertain_message_that_was_found_is_sent():
    after = settled(uncertain(), Sent("1.2"), NOW + 3 * SECOND)
    assert (after.status, after.refs, after.code) == ("sent", ("1.2",), "")


def test_the_parts_after_a_found_one_are_sent():
    after = settled(uncertain(2), Sent("1.2"), NOW + 3 * SECOND)
    assert (after.status, after.refs, after.due_at) == ("retry", ("1.2",), NOW + 3 * SECOND)


def test_what_is_not_there_yet_is_looked_for_again_and_only_a_minute_later_sent_again():
    early = settled(uncertain(), Absent(), NOW + 3 * SECOND)
    assert (early.status, early.due_at) == ("uncertain", NOW + 15 * SECOND)
    later = settled(early, Absent(), NOW + 16 * SECOND)
    assert (later.status, later.due_at) == ("uncertain", NOW + SURELY_ABSENT)
    surely = settled(later, Absent(), NOW + SURELY_ABSENT)
    assert (surely.status, surely.due_at) == ("retry", NOW + SURELY_ABSENT)


def test_what_cannot_be_known_stays_uncertain_until_a_person_asks():
    after = settled(uncertain(), Unsettled("mail servers tell nobody"), NOW + 3 * SECOND)
    assert (after.status, after.due_at) == ("uncertain", None)
    assert "mail servers tell nobody" in after.mend
    again = asked_again(after, NOW + 60 * SECOND)
    assert (again.status, again.attempts, again.due_at) == ("pending", 0, NOW + 60 * SECOND)


def test_a_service_that_cannot_be_asked_now_is_asked_later_but_not_for_ever():
    after = settled(uncertain(), Unsettled("away", again=True), NOW + 3 * SECOND)
    assert after.due_at == NOW + timedelta(seconds=303)
    assert settled(after, Unsettled("away", again=True), NOW + timedelta(hours=7)).due_at is None


@pytest.mark.parametrize("status", ["pending", "sending", "retry", "sent"])
def test_nobody_asks_again_for_what_is_sent_or_on_its_way(status):
    with pytest.raises(Conflict, match=status):
        asked_again(Standing(status, NOW), NOW)


def test_parts_that_are_there_are_not_sent_again_when_a_person_asks():
    refused = came(sending(3, ("1",)), Refused("is_archived", "it is archived"), NOW)
    assert asked_again(refused, NOW).refs == ("1",)


def test_a_message_without_a_connection_is_shown_and_never_due():
    assert shown(None, "there is no Slack connection") == Standing("shown", None, reason="there is no Slack connection")


@pytest.mark.parametrize("status", ["pending", "retry", "sent", "refused", "shown"])
def test_an_outcome_belongs_to_an_attempt(status):
    with pytest.raises(Conflict):
        came(Standing(status, None), Sent("1"), NOW)
    with pytest.raises(Conflict):
        interrupted(Standing(status, None), NOW)
    with pytest.raises(Conflict):
        settled(Standing(status, None), Absent(), NOW)


OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    [Sent("1"), Refused("c", "r"), Retry("r"), Retry("r", 90), Uncertain("u")]
)
FOUND: st.SearchStrategy[Settlement] = st.sampled_from(
    [Sent("1"), Absent(), Unsettled("u"), Unsettled("u", again=True)]
)


@given(st.data(), st.integers(1, 4))
def test_a_part_is_never_sent_again_unless_it_is_known_not_to_be_there(data, parts: int):
    """Drives a message through whatever may come, and counts the parts that a service may hold."""
    now, standing = NOW, replace(pending(NOW), parts=parts)
    may_be_there: list[bool] = [False] * parts
    for _step in range(40):
        if standing.due_at is None:
            assert standing.status in OVER | {"uncertain"}
            break
        now = max(now, standing.due_at)
        standing = _one_step(data, standing, may_be_there, now)
        assert standing.refs.count("1") == len(standing.refs) <= parts
        assert (standing.status == "sent") == (len(standing.refs) == parts)


def _one_step(data, standing: Standing, may_be_there: list[bool], now: datetime) -> Standing:
    part = len(standing.refs)
    if standing.status in {"pending", "retry"}:
        assert not may_be_there[part]
        return claimed(standing, now)
    if standing.status == "sending":
        died = data.draw(st.booleans())
        outcome = None if died else data.draw(OUTCOMES)
        may_be_there[part] = outcome is None or isinstance(outcome, Sent | Uncertain)
        return interrupted(standing, now) if outcome is None else came(standing, outcome, now)
    found = data.draw(FOUND)
    if isinstance(found, Absent) and now - (standing.began_at or now) >= SURELY_ABSENT:
        may_be_there[part] = False
    return settled(standing, found, now)


def test_a_standing_is_stored_column_by_column():
    columns = as_columns(sending(2, ("1",)))
    assert columns["refs"] == ["1"]
    assert set(columns) == set(Standing.__dataclass_fields__)


@pytest.mark.parametrize("status", ["pending", "retry"])
def test_a_message_that_waits_to_be_sent_can_be_withdrawn_and_is_over(status):
    after = withdrawn(Standing(status, NOW, attempts=2, parts=3, refs=("1",), reason="busy"))
    assert (after.status, after.due_at, after.refs) == ("withdrawn", None, ("1",))
    assert after.reason == "its run was cancelled; 1 of 3 parts were sent before"
    with pytest.raises(Conflict):
        claimed(after, NOW)
    with pytest.raises(Conflict, match="withdrawn"):
        asked_again(after, NOW)


@pytest.mark.parametrize("status", ["sending", "uncertain", "sent", "refused", "shown", "withdrawn"])
def test_nobody_takes_back_what_is_being_sent_or_was(status):
    with pytest.raises(Conflict, match=status):
        withdrawn(Standing(status, NOW))


def test_a_message_rests_when_nothing_more_happens_to_it_by_itself():
    resting = {status for status in get_args(Status) if rests(status, None)}
    assert resting == OVER | {"uncertain"}
    assert not rests("uncertain", NOW)
    assert {status for status in get_args(Status) if rests(status, NOW)} == OVER


def test_what_a_server_answers_is_stored_as_text_whatever_bytes_it_was():
    told = b"554 caf\xe9 \x00".decode("utf-8", "surrogateescape")
    columns = as_columns(came(sending(), Refused("refused", told, told), NOW))
    assert columns["reason"] == columns["mend"] == "554 caf\ufffd \ufffd"
    assert as_columns(came(sending(), Sent("id", (told,)), NOW))["missed"] == ["554 caf\ufffd \ufffd"]
