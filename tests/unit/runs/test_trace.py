import json
from datetime import UTC, datetime, timedelta

import pytest

from loops.runs.state import Cancelled, Ended, Failed, Parked, Succeeded, Wait
from loops.runs.trace import MOST_RESULT_BYTES, StepLog, bounded, storable_outcome

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Ticking:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def test_a_line_is_kept_with_the_instant_it_was_written():
    log = StepLog(Ticking())
    log.write("hello")
    log.write("again")
    assert log.lines == [
        {"at": "2026-11-30T12:00:01+00:00", "text": "hello"},
        {"at": "2026-11-30T12:00:02+00:00", "text": "again"},
    ]


def test_a_long_line_is_cut_and_says_so():
    log = StepLog(Ticking())
    log.write("x" * 16_000)
    log.write("x" * 16_001)
    assert [len(line["text"]) for line in log.lines] == [16_000, 16_000 + len(" [truncated]")]
    assert log.lines[1]["text"].endswith("x [truncated]")


def test_a_step_that_writes_without_end_leaves_two_hundred_lines_and_a_note():
    log = StepLog(Ticking())
    for number in range(1000):
        log.write(str(number))
    assert len(log.lines) == 201
    assert log.lines[199]["text"] == "199"
    assert log.lines[200]["text"] == "[more than 200 lines]"


@pytest.mark.parametrize("result", [None, 1, "text", {"a": [1, 2]}, "x" * (MOST_RESULT_BYTES - 2)])
def test_a_result_within_the_limit_is_kept_as_it_is(result):
    assert bounded(result) == result


@pytest.mark.parametrize("result", ["x" * (MOST_RESULT_BYTES - 1), {"deep": ["ü" * MOST_RESULT_BYTES]}])
def test_a_result_over_the_limit_becomes_its_size_and_its_beginning(result):
    told = bounded(result)
    assert isinstance(told, dict)
    whole = json.dumps(result, ensure_ascii=False)
    assert told == {"truncated": True, "size": len(whole.encode()), "start": whole[:1000]}


def test_the_limit_of_a_result_counts_bytes_and_not_characters():
    told = bounded("ü" * (MOST_RESULT_BYTES // 2))
    assert isinstance(told, dict)
    assert told["truncated"] is True


def test_a_line_that_no_database_can_store_is_mended():
    log = StepLog(Ticking())
    log.write("a\x00b\ud800c")
    assert log.lines[0]["text"] == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("came", "stored"),
    [
        (Succeeded({"a": "\x00"}), Succeeded({"a": "\ufffd"})),
        (Failed("step.x", "m\x00", "h\ud800", ["\x00"]), Failed("step.x", "m\ufffd", "h\ufffd", ["\ufffd"])),
        (Ended("\x00"), Ended("\ufffd")),
        (Parked(Wait("timer", NOON, {"a": "\x00"})), Parked(Wait("timer", NOON, {"a": "\ufffd"}))),
        (Cancelled(), Cancelled()),
    ],
)
def test_an_outcome_is_mended_in_every_part(came, stored):
    assert storable_outcome(came) == stored
