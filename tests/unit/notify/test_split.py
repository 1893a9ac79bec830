import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notify.split import FENCE, split, units

LIMIT = 60
WORDS = st.sampled_from(
    [
        "word",
        " ",
        "\n",
        "\n\n",
        "a" * 70,
        f"\n{FENCE}\n",
        "`x`",
        "<https://e.org/&|t u>",
        "&amp;",
        "&lt;",
        "🎉",
        "👩‍👩‍👧‍👦",
        "🇩🇪🇫🇷",
        "e\u0301",
        "👍🏽",
        "日本",
        "\r\n",
        ".",
    ]
)
TEXTS = st.lists(WORDS, max_size=60).map("".join)


@given(st.one_of(TEXTS, st.text(max_size=300)), st.integers(30, 90))
def test_the_pieces_joined_are_the_text(text: str, limit: int):
    assert "".join(piece.body for piece in split(text, limit)) == text


@given(st.one_of(TEXTS, st.text(max_size=300)), st.integers(30, 90))
def test_every_piece_fits(text: str, limit: int):
    assert all(units(piece.text) <= limit and piece.body for piece in split(text, limit))


@given(TEXTS)
def test_fences_are_closed_in_every_piece_and_open_where_they_were(text: str):
    before = ""
    for piece in split(text, LIMIT):
        assert piece.text.count(FENCE) % 2 == 0
        assert piece.opened == (before.count(FENCE) % 2 == 1)
        assert piece.text.startswith(f"{FENCE}\n") or not piece.opened
        before += piece.body


@given(TEXTS)
def test_nothing_that_belongs_together_is_torn(text: str):
    pieces = split(text, LIMIT)
    for one, other in pairwise(pieces):
        end, start = one.body[-1], other.body[0]
        assert end != "\u200d"
        assert start != "\u200d"
        assert not unicodedata.category(start).startswith("M")
        assert start != "🏽"
        assert (end, start) != ("\r", "\n")
        assert not re.search(r"&[a-z]*$|<[^>]*$", one.body)
        assert not (one.body.endswith("`") and other.body.startswith("`"))


@pytest.mark.parametrize("flags", ["🇩🇪🇫🇷🇮🇹" * 30, "x" + "🇩🇪" * 60])
def test_flags_stay_whole(flags: str):
    bodies = [piece.body for piece in split(flags, LIMIT)]
    assert all(len(body.removeprefix("x")) % 2 == 0 for body in bodies)


def test_emoji_count_as_the_strictest_services_count_them():
    assert [len(piece.body) for piece in split("🎉" * 60, 68)] == [30, 30]


def test_a_text_that_fits_is_one_piece():
    (piece,) = split(f"a\n{FENCE}\nb\n{FENCE}\n", LIMIT)
    assert (piece.opened, piece.closed) == (False, False)


def test_no_text_is_no_piece():
    assert split("", LIMIT) == ()


def test_a_cut_falls_between_paragraphs_before_lines_before_words():
    first = [split(text, LIMIT)[0].body for text in (
        "one two three four five six\nseven eight\n\nnine ten\neleven twelve " * 2,
        "one two three four five six seven\neight nine ten eleven twelve " * 2,
        "one two three four five six seven eight nine ten eleven twelve " * 2,
        "x" * 200,
    )]  # fmt: skip
    assert [body[-2:] for body in first] == ["\n\n", "n\n", "n ", "xx"]


def test_a_block_of_code_that_is_cut_goes_on_in_a_block():
    code = "\n".join(f"line {number:04}" for number in range(30))
    pieces = split(f"before\n{FENCE}\n{code}\n{FENCE}\nafter", LIMIT)
    assert pieces[0].text.endswith(f"\n{FENCE}")
    assert all(piece.text.startswith(f"{FENCE}\n") and piece.text.endswith(FENCE) for piece in pieces[1:-1])
    assert pieces[-1].text.endswith("after")


def test_no_piece_shows_an_empty_block():
    for before in range(20, 60):
        for text in (f"{'x' * before}\n{FENCE}\ncode code code\n{FENCE}\nafter" + " after" * 20,):
            shown = [piece.text for piece in split(text, LIMIT)]
            assert not any(re.search(r"```\n*```", part) for part in shown), shown


def test_what_is_longer_than_a_piece_is_torn_all_the_same():
    address = f"<https://e.org/{'a' * 200}>"
    assert "".join(piece.body for piece in split(address, LIMIT)) == address


def test_a_long_text_takes_linear_time():
    text = ("word " * 20 + "\n`code` &amp; 🎉 e\u0301\n") * 1000
    assert "".join(piece.body for piece in split(text, 3000)) == text
