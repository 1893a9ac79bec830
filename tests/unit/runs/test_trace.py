import json
from datetime import UTC, datetime, timedelta

import pytest

from loops.runs.trace import MOST_RESULT_BYTES, StepLog, bounded


class Ticking:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 30, 12, tzinfo=UTC)

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


def test_text_that_no_database_can_store_becomes_the_replacement_character():
    log = StepLog(Ticking())
    log.write("a\x00b\ud800c")
    assert log.lines[0]["text"] == "a\ufffdb\ufffdc"
    assert bounded({"k\x00": ["\ud83d", {"x": "ok \U0001f600"}]}) == {"k\ufffd": ["\ufffd", {"x": "ok \U0001f600"}]}
    assert bounded("a literal \\u0000 in the text") == "a literal \\u0000 in the text"
