import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.event import JsonValue
from loops.runs.variables import MOST_BYTES, OutputVariable, VariablesTooLargeError, assign, read_path

LABELS: JsonValue = [{"name": "bug"}, {"name": "p1"}]
LIST: JsonValue = [[1, 2], [3]]
RESULT: JsonValue = {"issue": {"number": 7, "labels": LABELS}, "list": LIST, "nothing": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("issue.number", 7),
        ("issue.labels[1].name", "p1"),
        ("issue.labels.0.name", "bug"),
        ("list[0][1]", 2),
        ("list[1]", [3]),
        ("issue.labels[2].name", None),
        ("issue.labels.name", None),
        ("issue.number.digits", None),
        ("nothing.below", None),
        ("absent", None),
        ("", RESULT),
    ],
)
def test_a_path_leads_through_objects_and_lists_and_to_none_where_nothing_is(path, value):
    assert read_path(RESULT, path) == value


@pytest.mark.parametrize(
    ("outputs", "variables"),
    [
        ([], {"old": 1}),
        ([OutputVariable("whole")], {"old": 1, "whole": RESULT}),
        ([OutputVariable("n", "issue.number"), OutputVariable("old", "list[1][0]")], {"old": 3, "n": 7}),
        ([OutputVariable("gone", "no.such.path")], {"old": 1, "gone": None}),
        (
            [OutputVariable("issue", "issue", spread=True)],
            {"old": 1, "issue_number": 7, "issue_labels": LABELS},
        ),
        ([OutputVariable("list", "list", spread=True)], {"old": 1, "list": LIST}),
    ],
)
def test_outputs_set_variables(outputs, variables):
    assert assign({"old": 1}, outputs, RESULT) == variables


def test_a_step_without_a_result_sets_nothing():
    before = {"old": 1}
    assert assign(before, [OutputVariable("old")], None) == before


def size(variables: dict[str, object]) -> int:
    return len(json.dumps(variables, ensure_ascii=False, separators=(",", ":")).encode())


def test_variables_may_fill_their_limit_to_the_last_byte_and_no_further():
    room = MOST_BYTES - size({"v": ""})
    assert size(dict(assign({}, [OutputVariable("v")], "x" * room))) == MOST_BYTES
    with pytest.raises(VariablesTooLargeError, match=f"{MOST_BYTES + 1} bytes.*limit of {MOST_BYTES}"):
        assign({}, [OutputVariable("v")], "x" * (room + 1))


def test_the_limit_counts_bytes_and_not_characters():
    with pytest.raises(VariablesTooLargeError):
        assign({}, [OutputVariable("v")], "ü" * (MOST_BYTES // 2))


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=2000), max_size=4),
    st.lists(st.builds(OutputVariable, st.text(min_size=1, max_size=5), st.none(), spread=st.booleans()), max_size=4),
    st.text(max_size=2000) | st.dictionaries(st.text(max_size=5), st.text(max_size=500), max_size=4),
)
def test_variables_never_pass_their_limit_by_a_step(before, outputs, result):
    try:
        after = assign(before, outputs, result)
    except VariablesTooLargeError:
        return
    assert after == before or size(dict(after)) <= MOST_BYTES
    assert set(before) <= set(after)
