"""Text to workflows: JSON, YAML, several at once, and what is wrong with a text that is neither."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.definition import read_documents, to_yaml
from loops.errors import ShapeError
from loops.event import JsonValue


def refused(text: str, name: str = "") -> ShapeError:
    with pytest.raises(ShapeError) as error:
        read_documents(text, name)
    return error.value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"name": "a", "steps": [1, null]}', ""),
        ('\ufeff {"name": "a", "steps": [1, null]}', "a.json"),
        ('{"name": "a", "steps": [1, null]}', "a.yaml"),
        ("name: a\nsteps: [1, null]\n", ""),
        ("name: a\nsteps:\n  - 1\n  -\n", "a.yml"),
        ("{name: a, steps: [1, null]}", "a.yaml"),
        ("---\nname: a\nsteps: [1, ~]\n---\n", ""),
    ],
)
def test_json_and_yaml_are_told_apart(text, name):
    assert read_documents(text, name) == [{"name": "a", "steps": [1, None]}]


@pytest.mark.parametrize(
    "text",
    [
        "name: a\n---\nname: b\n",
        '{"workflows": [{"name": "a"}, {"name": "b"}]}',
        "workflows:\n  - name: a\n  - name: b\n",
        '[{"name": "a"}, {"name": "b"}]',
        "workflows: [{name: a}]\n---\nname: b\n",
    ],
)
def test_a_text_may_hold_several_workflows(text):
    assert read_documents(text) == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("09:30", "09:30"),
        ("2026-07-06", "2026-07-06"),
        ("010", 10),
        ("1_000", "1_000"),
        ("0x1f", "0x1f"),
        ("1e3", 1000.0),
        ("-1.5", -1.5),
        ("true", True),
        ("~", None),
        ("", None),
        ("'true'", "true"),
        (".inf", ".inf"),
    ],
)
def test_yaml_reads_a_value_as_people_mean_it(written, value):
    (document,) = read_documents(f"value: {written}\n", "a.yaml")

    assert document == {"value": value}
    assert type(document["value"]) is type(value)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ('{"a": 1,}', "a.json", "a.json: line 1, column 9: no JSON"),
        ('{"a": 1\n "b": 2}', "", "line 2, column 2: no JSON: expecting ',' delimiter"),
        ("a: [1", "a.yaml", "a.yaml: line 1, column 6: no YAML"),
        ("a: 1\nb:\n\tc: 1\n", "", "line 3, column 1: no YAML"),
        ("a: \x01", "", "line 1, column 4: no YAML: the character 0x1 is not allowed"),
        ('{"a": {"b": 1,\n "c": 2, "b": 3}}', "", 'line 2, column 10: the key "b" stands twice in one object'),
        ('[{"b": "}{\\""}, {"\\u0062": 1, "b": 3}]', "", 'column 31: the key "b" stands twice'),
        ("a:\n  b: 1\n  'b': 2\n", "", 'line 3, column 3: no YAML: the key "b" stands twice in one object'),
        ("5: x\n", "", "a key must be text; quote it"),
        ("[a]: x\n", "a.yaml", "a key must be text"),
        ("a: &x [1]\nb: *x\n", "", "line 2, column 4: no YAML: aliases are not read"),
        ("a: !!python/object:os.system x\n", "", "could not determine a constructor"),
        ("a: !!timestamp 2026-07-06\n", "", "could not determine a constructor"),
        ("a: !!bool maybe\n", "", "is no boolean"),
        ("a: !!int x\n", "", "no YAML"),
        ('{"a": NaN}', "", "NaN is no JSON number"),
        ('{"a": 1e999}', "", "a: inf is no JSON number"),
        ("a: !!float nan\n", "", "a: nan is no JSON number"),
        ('{"a": "\\ud800"}', "", "a: holds a NUL or half of a surrogate pair"),
        ('{"a": ' + "9" * 5000 + "}", "", "no JSON"),
        ("a: " + "9" * 5000, "", "no YAML"),
        ("", "a.yaml", "a.yaml: holds no workflow"),
        ("---\n---\n", "", "holds no workflow"),
        ('{"workflows": []}', "", "holds no workflow"),
        ("just words", "", "holds just words where a workflow"),
        ("[1]", "", "holds 1 where a workflow"),
        ('{"workflows": {}}', "", "workflows must be a list"),
        ('{"workflows": [], "name": "a"}', "", '"workflows" stands beside name'),
    ],
)
def test_a_text_that_holds_no_workflow_is_refused_where_it_goes_wrong(text, name, words):
    assert words in str(refused(text, name))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[" * 100_000, "a.json"),
        ("[" * 1000, "a.yaml"),
        ("a: " + "[" * 1000 + "]" * 1000, "a.yaml"),
        ('{"a":' * 101 + "1" + "}" * 101, "a.json"),
        ("- " * 5000 + "x", "a.yaml"),
    ],
)
def test_nesting_is_bounded(text, name):
    assert "nested too deep" in str(refused(text, name))


def test_a_text_that_is_too_long_is_not_read():
    assert "at most 1000000 are read" in str(refused("#" * 1_000_001))


AWKWARD = [
    "yes",
    "no",
    "~",
    "null",
    "1e3",
    "0o17",
    "010",
    "12:30",
    "2026-07-06",
    "<<",
    "- a",
    "a: b",
    " x",
    "x\n",
    "\n",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(AWKWARD)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXTS, children, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS.filter(lambda key: key != "workflows"), VALUES, min_size=1, max_size=4))
def test_what_is_written_as_yaml_is_read_back_equal(document):
    read = read_documents(to_yaml(document), "a.yaml")

    assert json.dumps(read) == json.dumps([document])


def test_yaml_keeps_the_order_of_keys_and_shows_lines_as_lines():
    text = to_yaml({"name": "Überblick", "prompt": "Read the issue.\nAnswer in one line.", "id": "7", "n": 7})

    assert text == ("name: Überblick\nprompt: |-\n  Read the issue.\n  Answer in one line.\nid: '7'\nn: 7\n")


def test_yaml_repeats_what_stands_twice_instead_of_referring_to_it():
    shared: list[JsonValue] = ["acme/widgets"]

    assert to_yaml({"a": shared, "b": shared}) == "a:\n- acme/widgets\nb:\n- acme/widgets\n"
