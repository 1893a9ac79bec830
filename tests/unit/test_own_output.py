"""Marks: what proves that we wrote a text, and that nobody else can have."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.connections.secrets import SecretBox
from loops.own_output import MOST_HOPS, PURPOSE, Marks, OwnMark, Place, own_words

KEY = SecretBox(["the key of an installation"]).derive(PURPOSE)
MARKS = Marks([KEY])
MARK = OwnMark("1a22eb04-f6e4-5b76-8879-a2d01a22eb04", 2)
PLACE = Place(990017, 42, "loops-bot")


def test_a_mark_is_an_html_comment_that_is_known_again_wherever_it_stands_in_the_text():
    made = MARKS.make(MARK, PLACE)
    assert made.startswith("<!-- loops run=1a22eb04-f6e4-5b76-8879-a2d01a22eb04 hop=2 mac=")
    assert made.endswith(" -->")
    for text in (made, f"Done.\r\n\r\n{made}", f"{made}\nand more", f"<!-- loops run=x hop=1 mac={'0' * 32} -->{made}"):
        assert MARKS.find(text, PLACE) == MARK


@pytest.mark.parametrize(
    "elsewhere",
    [
        dataclasses.replace(PLACE, repository_id=990018),
        dataclasses.replace(PLACE, number=43),
        dataclasses.replace(PLACE, number=None),
        dataclasses.replace(PLACE, author="stranger"),
    ],
)
def test_a_mark_that_is_pasted_elsewhere_or_by_somebody_else_is_none(elsewhere):
    assert MARKS.find(MARKS.make(MARK, PLACE), elsewhere) is None


def test_a_login_is_the_same_in_either_case():
    assert MARKS.find(MARKS.make(MARK, PLACE), dataclasses.replace(PLACE, author="Loops-Bot")) == MARK


def test_a_mark_with_another_run_or_hop_or_of_another_key_is_none():
    made = MARKS.make(MARK, PLACE)
    for forged in (made.replace("hop=2", "hop=1"), made.replace("1a22", "2a22", 1), made.replace("-->", "--->")):
        assert MARKS.find(forged, PLACE) is None
    assert Marks([SecretBox(["another key"]).derive(PURPOSE)]).find(made, PLACE) is None


def test_marks_from_before_a_rotation_of_the_key_are_known():
    rotated = SecretBox(["a new key", "the key of an installation"])
    assert Marks(rotated.derive_all(PURPOSE)).find(MARKS.make(MARK, PLACE), PLACE) == MARK
    assert Marks(rotated.derive_all(PURPOSE)).make(MARK, PLACE) != MARKS.make(MARK, PLACE)


@given(st.text(), st.integers(1, 2**62), st.integers(1, 10**9) | st.none(), st.text(max_size=40))
def test_no_text_that_was_not_made_is_a_mark(text, repository, number, author):
    assert MARKS.find(text, Place(repository, number, author)) is None


@given(
    st.from_regex(r"[0-9A-Za-z-]{1,64}", fullmatch=True),
    st.integers(0, 999),
    st.text(max_size=50),
    st.text(max_size=50),
)
def test_what_was_made_is_found_with_what_it_says(run, hop, before, behind):
    mark = OwnMark(run, hop)
    assert MARKS.find(f"{before}{MARKS.make(mark, PLACE)}{behind}", PLACE) == mark


@pytest.mark.parametrize("run", ["", "a b", "x -->", "y" * 65])
def test_a_run_that_a_mark_cannot_hold_is_refused(run):
    with pytest.raises(ValueError, match="none that a mark can hold"):
        MARKS.make(OwnMark(run, 1), PLACE)


def test_a_text_full_of_false_marks_is_given_up():
    false = f"<!-- loops run=x hop=1 mac={'0' * 32} -->"
    assert MARKS.find(false * 50 + MARKS.make(MARK, PLACE), PLACE) is None


def test_the_words_tell_the_run_and_the_hop_and_name_the_limit_that_is_reached():
    assert own_words("it carries our mark", OwnMark("r", 1)) == (
        f"it carries our mark (run r, hop 1 of {MOST_HOPS} at most): own output never starts a loop"
    )
    assert own_words("it carries our mark", OwnMark("r", 5)) == (
        "hop limit: 5 runs in a row led to it, 5 at most (it carries our mark, run r)"
    )
    assert own_words("the branch loops/x is ours", None).endswith(": own output never starts a loop")
