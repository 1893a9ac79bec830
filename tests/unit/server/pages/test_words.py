import pytest

from server.pages.words import compared, sentence, size_words, span_words, stage_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-0.2, "< 1 ms"),
        (0.0004, "< 1 ms"),
        (0.0006, "1 ms"),
        (0.0424, "42 ms"),
        (1, "1.0 s"),
        (0.9996, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (12.3, "12 s"),
        (59.4, "59 s"),
        (59.7, "1 min"),
        (60, "1 min"),
        (192, "3 min 12 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400 * 3 + 4 * 3600 + 59, "3 d 4 h"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert span_words(seconds) == words


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (3400, "3.4 KB"), (2_100_000, "2.1 MB")]
)
def test_a_size_is_told_in_one_unit(size: int, words: str) -> None:
    assert size_words(size) == words


def test_stages_are_told_in_words_and_an_unknown_one_by_its_name() -> None:
    assert stage_words("filters") == "stopped by its filters"
    assert stage_words("start") == "started a run"
    assert stage_words("start", recomputed=True) == "would start a run"
    assert stage_words("not_started") == "passes now, started nothing"
    assert stage_words("own_brake") == "own brake"


def test_a_comparison_is_told_as_wanted_and_found() -> None:
    told = compared({"key": "action", "operator": "exact", "expected": ["a", "b"], "actual": None, "passed": False})
    assert (told.key, told.wanted, told.found, told.passed) == ("action", 'one of "a", "b"', "not set", False)
    assert compared(
        {"key": "n", "operator": "of_a_newer_release", "expected": 1, "actual": 2, "passed": True}
    ).wanted == ("of_a_newer_release 1")


def test_only_the_head_of_a_sentence_is_made_a_capital() -> None:
    assert sentence("its Body was removed") == "Its Body was removed"
    assert sentence("") == ""


def test_a_comparison_that_could_not_be_made_says_so() -> None:
    stored = {"key": "body", "operator": "regex", "expected": "x", "actual": "a", "passed": False, "error": "too long"}
    assert compared(stored).found == "filter error: too long"
