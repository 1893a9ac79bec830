import json
import re
import unicodedata
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.pages.inert import MOST_BODY, laid_out_json, shown_body, shown_value, visible

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\x00b", "a\\x00b"),
        ("user\u202egpj.exe", "user\\u202egpj.exe"),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\U000e0041\U000e0042", "\\U000e0041\\U000e0042"),
        ("hid\U000e0141\U000e0142den", "hid\\U000e0141\\U000e0142den"),
        ("葛\U000e0100城", "葛\U000e0100城"),
        ("葛\U000e0100\U000e0101城", "葛\U000e0100\\U000e0101城"),
        ("half \ud800", "half \\ud800"),
        ("return\rover", "return\\rover"),
        ("line\r\nnext", "line\nnext"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("naïve 漢字 עברית 👩‍💻 نمی‌خواهم", "naïve 漢字 עברית 👩‍💻 نمی‌خواهم"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
    ],
)
def test_what_acts_or_cannot_be_seen_is_written_out_and_the_rest_is_left(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(codec=None)))
def test_no_text_keeps_a_control_character_and_what_is_visible_stays_so(text: str) -> None:
    shown = visible(text)
    joiners = {"\u200c", "\u200d"}
    assert {char for char in shown if unicodedata.category(char) in {"Cc", "Cs"}} <= {"\t", "\n"}
    assert not any(
        unicodedata.bidirectional(char) in {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
        for char in shown
    )
    assert visible(shown) == shown
    assert {char for char in text if (char.isprintable() and char < "\U000e0000") or char in joiners} <= set(shown)


@given(JSON)
def test_laying_out_changes_white_space_alone(value: object) -> None:
    compact = json.dumps(value, separators=(",", ":"))
    laid_out, is_cut = laid_out_json(compact, 10**9)
    assert not is_cut
    assert json.loads(laid_out) == value
    outside = r'("(?:[^"\\]|\\.)*")|\s+'
    assert re.sub(outside, lambda found: found[1] or "", laid_out) == compact


def test_json_is_laid_out_as_people_write_it() -> None:
    laid_out, _ = laid_out_json('{"a":[1,{"b":null}],"c":{},"d":[ ],"e":"x, {y}: \\"z\\""}', 1000)
    assert laid_out == (
        '{\n  "a": [\n    1,\n    {\n      "b": null\n    }\n  ],\n  "c": {},\n  "d": [],\n  "e": "x, {y}: \\"z\\""\n}'
    )


def test_repeated_keys_and_numbers_are_shown_as_they_came() -> None:
    body = b'{"id":1,"id":2,"big":12345678901234567890123.10,"e":1E400,"escaped":"\\u003cb\\u003e"}'
    text = shown_body(body, "application/json").text
    assert '"id": 1,\n  "id": 2,' in text
    assert "12345678901234567890123.10" in text
    assert "1E400" in text
    assert "\\u003cb\\u003e" in text


def test_a_body_is_cut_at_200_kb_and_says_how_long_it_is() -> None:
    body = json.dumps(["x" * 100] * 5000).encode()
    shown = shown_body(body, "application/json")
    assert len(shown.text) == MOST_BODY == 200_000
    assert shown.is_cut
    assert shown.size == len(body)


def test_the_payload_of_a_form_is_shown_as_json() -> None:
    form = urlencode({"payload": '{"action":"opened"}'}).encode()
    shown = shown_body(form, "application/x-www-form-urlencoded; charset=utf-8")
    assert shown.is_json
    assert shown.text == '{\n  "action": "opened"\n}'


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "application/json"),
        (b"{not json", "application/json"),
        (b"payload=%7Bnot", "application/x-www-form-urlencoded"),
        (b"&".join(b"a=1" for _ in range(1000)), "application/x-www-form-urlencoded"),
        (b"[" * 100_000, "application/json"),
        (b"\xff\xfe\x00binary", "application/octet-stream"),
        (b"[" + b"1," * 1_500_000 + b"1]", "application/json"),
    ],
)
def test_what_is_no_json_or_too_long_to_be_looked_at_is_shown_as_it_came(body: bytes, content_type: str) -> None:
    shown = shown_body(body, content_type)
    assert not shown.is_json
    assert shown.text == body.decode("utf-8", "replace")[:MOST_BODY]


def test_a_result_that_is_text_is_shown_as_text_and_any_other_as_json() -> None:
    assert shown_value("plain\ntext", 100).text == "plain\ntext"
    assert shown_value({"a": [1]}, 100).text == '{\n  "a": [\n    1\n  ]\n}'
    cut = shown_value("x" * 50, 10)
    assert (cut.text, cut.size, cut.is_cut) == ("x" * 10, 50, True)
