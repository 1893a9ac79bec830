import json

from hypothesis import given
from hypothesis import strategies as st

from triggers.storable import MOST_KEY_BYTES, key_text, storable, storable_text

any_text = st.text(st.characters(exclude_categories=()))
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
)


@given(any_text)
def test_each_character_that_cannot_be_stored_is_replaced_and_no_other(text: str) -> None:
    expected = "".join("\ufffd" if one == "\0" or 0xD800 <= ord(one) <= 0xDFFF else one for one in text)
    assert storable_text(text) == expected
    assert storable_text(expected) is expected


@given(any_json)
def test_every_text_in_a_value_is_storable_keys_too(value: object) -> None:
    made = storable(value)  # type: ignore[arg-type]
    text = json.dumps(made, ensure_ascii=False)
    text.encode()
    assert "\\u0000" not in text.replace("\\\\", "")
    assert storable(made) == made


def test_what_is_storable_already_stays_as_it_is() -> None:
    value = {"a": ["é 🎉", 1, None, True, {"b": 1.5}]}
    assert storable(value) == value  # type: ignore[arg-type]


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
