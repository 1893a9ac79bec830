import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.storable import MOST_KEY_BYTES, key_text, storable, storable_text

any_text = st.text(st.characters(exclude_categories=()))
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)


@given(any_text)
def test_each_character_that_cannot_be_stored_is_replaced_and_no_other(text: str) -> None:
    expected = "".join("\ufffd" if one == "\0" or 0xD800 <= ord(one) <= 0xDFFF else one for one in text)
    assert storable_text(text) == expected
    assert storable_text(expected) is expected


@given(any_json)
def test_whatever_is_stored_is_valid_json_in_utf_8_without_nul(value: object) -> None:
    made = storable(value)
    text = json.dumps(made, ensure_ascii=False, allow_nan=False)
    text.encode()
    assert "\\u0000" not in text.replace("\\\\", "")
    assert storable(made) == made


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"k\x00": ["\ud83d", {"x": "ok \U0001f600"}]}, {"k\ufffd": ["\ufffd", {"x": "ok \U0001f600"}]}),
        ([float("nan"), float("inf"), float("-inf"), 1.5, True], [None, None, None, 1.5, True]),
        ({"at": date(2026, 11, 30), "of\0": ("a", 1)}, {"at": "2026-11-30", "of\ufffd": ["a", 1]}),
        ({"literal": "\\u0000 as text"}, {"literal": "\\u0000 as text"}),
        (None, None),
    ],
)
def test_a_value_is_made_of_what_every_database_stores(value: Any, stored: Any) -> None:
    assert storable(value) == stored


def test_what_is_storable_already_is_not_copied() -> None:
    value = {"a": ["é 🎉", 1, None, True, {"b": 1.5}]}
    assert storable(value) is value


@given(any_text | st.text("aé🎉", min_size=200, max_size=400), st.integers(0, 30))
def test_a_text_that_is_looked_up_by_fits_into_every_index_and_stays_apart_from_others(text: str, times: int) -> None:
    long = text * times
    made = key_text(long)
    assert len(made.encode()) <= MOST_KEY_BYTES
    if len(storable_text(long).encode()) <= MOST_KEY_BYTES:
        assert made == storable_text(long)
    else:
        assert made != key_text(f"{long}x")
        assert made[:200] == storable_text(long)[:200]
