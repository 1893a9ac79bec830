import json
import sys
from types import FrameType
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import PayloadMalformed
from triggers.json_body import NESTING_LIMIT, check_nesting, from_form, tolerant, tolerant_object, whole

texts = st.text(st.sampled_from('[]{}"\\/ab:,\n é'), max_size=8)
documents = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max((depth(item) for item in value), default=0) if isinstance(value, list) else 0


def wrapped(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"]": value, "x": "}"}
    return value


@given(value=documents, levels=st.integers(150, 215), indent=st.none() | st.just(1), escape=st.booleans())
def test_nesting_is_refused_exactly_above_the_limit(value: Any, levels: int, indent: int | None, escape: bool) -> None:
    nested = wrapped(value, levels)
    body = json.dumps(nested, indent=indent, ensure_ascii=escape).encode()
    if depth(nested) <= NESTING_LIMIT:
        check_nesting(body)
    else:
        with pytest.raises(PayloadMalformed):
            check_nesting(body)


@given(values=st.lists(texts, min_size=60, max_size=120))
def test_brackets_in_text_never_count(values: list[str]) -> None:
    check_nesting(json.dumps([{"[[": [value, {}]} for value in values] + ["[" * 300]).encode())


def calls_of(body: bytes) -> int:
    """How many calls of C the check takes."""
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        check_nesting(body)
    finally:
        sys.setprofile(before)
    return calls


def test_what_nests_deep_is_passed_over_as_often_as_what_is_flat() -> None:
    deep = b"[" + b",".join([b"[" * 199 + b"]" * 199] * 500) + b"]"
    flat = b"[" + b",".join([b"[]"] * (199 * 500)) + b"]"
    assert calls_of(deep) <= calls_of(flat) + 4
    assert calls_of(deep) * 2 >= calls_of(b"[" + deep[1:-1] + b"," + deep[1:-1] + b"]") - 20


@pytest.mark.parametrize("at", [0, 16 * 1024 - 150, 16 * 1024, 40_000], ids=str)
def test_it_counts_over_the_parts_that_a_large_body_is_counted_in(at: int) -> None:
    before = b"[]," * (at // 2)
    check_nesting(b"[" + before + b"[" * 199 + b"]" * 199 + b"]")
    with pytest.raises(PayloadMalformed, match=f"at character {len(before) + 200}"):
        check_nesting(b"[" + before + b"[" * 200 + b"]" * 200 + b"]")


def test_what_only_the_tolerant_decoder_reads_may_not_nest_deeper_either() -> None:
    with pytest.raises(PayloadMalformed, match="nests deeper"):
        tolerant(b'["\\ud800",' + b"[" * 250 + b"]" * 250 + b"]")


@given(before=st.binary(max_size=4), text=st.text(), after=st.booleans(), plus=st.booleans())
def test_a_forms_field_is_decoded_as_urllib_does(before: bytes, text: str, after: bool, plus: bool) -> None:
    value = (quote_plus(text) if plus else quote(text, safe="")).encode()
    form = b"a=" + quote(before).encode() + b"&payload=" + value + (b"&payload=2" if after else b"")
    assert from_form(form, "payload").decode() == unquote_plus(value.decode()) == text


@given(st.binary())
def test_any_form_has_the_field_or_is_refused(form: bytes) -> None:
    assert isinstance(from_form(b"payload=" + form, "payload"), bytes)
    with pytest.raises(PayloadMalformed):
        from_form(b"x=" + quote(form).encode(), "payload")


@given(documents)
def test_a_whole_body_is_what_json_says(value: Any) -> None:
    wanted = {"value": value}
    assert whole(json.dumps(wanted).encode()) == wanted
    assert whole(json.dumps(wanted, ensure_ascii=False).encode()) == wanted


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"a": 1,\n "b" 2}', "Expecting ':' delimiter at line 2 column 6, character 14"),
        (b'{"a": "\xc3\xa9', "Unterminated string starting at line 1 column 7, character 6"),
        (b"{} x", "Extra data at line 1 column 4, character 3"),
        (b'["NaN", "\\"NaN", NaN]', "NaN is no JSON value at line 1 column 18, character 17"),
        (b'{"-Infinity": -Infinity}', "-Infinity is no JSON value at line 1 column 15, character 14"),
    ],
    ids=repr,
)
def test_what_is_no_json_is_told_where(body: bytes, told: str) -> None:
    with pytest.raises(PayloadMalformed) as caught:
        tolerant(body)
    assert caught.value.message == f"the body is no JSON: {told}"
    assert (caught.value.path, bool(caught.value.hint)) == ("body", True)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"true", b"5"], ids=repr)
def test_what_is_no_object_is_told_what_it_is(body: bytes) -> None:
    assert tolerant(body) == json.loads(body)
    with pytest.raises(PayloadMalformed, match="must be a JSON object, got") as caught:
        tolerant_object(body)
    assert caught.value.path == "body"


@given(before=st.lists(texts, max_size=3), value=documents, ends=st.booleans())
def test_the_bracket_that_is_one_too_many_is_told(before: list[str], value: Any, ends: bool) -> None:
    head = json.dumps([*before, value], ensure_ascii=False)[:-1] + ', "é[[["'
    body = head + "," + "[" * (NESTING_LIMIT + 5) + ("]" * (NESTING_LIMIT + 6) if ends else "")
    if depth(value) >= NESTING_LIMIT:
        return
    with pytest.raises(PayloadMalformed) as caught:
        (check_nesting if ends else tolerant)(body.encode() if ends else body.replace("[" * 9, "[" * 900).encode())
    at = len(head) + 1 + NESTING_LIMIT - 1
    assert caught.value.message == f"the body nests deeper than {NESTING_LIMIT} levels, at character {at}"
