"""A document that is too large is refused at once, and what is told of a bad one stays short."""

import pytest

from loops.definition.findings import MOST_KEPT, MOST_SUGGESTED
from loops.definition.limits import MOST_ACTIONS, MOST_EDGES, MOST_TEXT, MOST_VARIABLES
from tests.unit.definition.documents import faults_of, loop, parsed, without
from tests.unit.documentation import page, section, table


@pytest.mark.parametrize(
    ("key", "most"), [("actions", MOST_ACTIONS), ("edges", MOST_EDGES), ("variables", MOST_VARIABLES)]
)
def test_one_entry_too_many_is_the_only_fault_that_is_told(key, most):
    (fault,) = faults_of({**loop(), "nmae": 1, key: [None] * (most + 1)})
    assert fault.path == key
    assert f"holds {most + 1} entries" in fault.message
    assert f"at most {most};" in fault.hint
    assert len(faults_of({**loop(), key: [None] * most})) > 1  # as many as are allowed are looked at one by one


def test_the_texts_of_all_values_together_have_a_limit():
    rest = sum(map(len, _texts(without(loop(), "description"))))
    assert parsed({**loop(), "description": "x" * (MOST_TEXT - rest)})
    (fault,) = faults_of({**loop(), "description": "x" * (MOST_TEXT - rest + 1)})
    assert f"{MOST_TEXT + 1} characters" in fault.message
    assert str(MOST_TEXT) in fault.hint


def _texts(value):
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in _texts(part)]


def test_every_limit_that_is_passed_has_its_own_fault():
    lists = {"actions": MOST_ACTIONS, "edges": MOST_EDGES, "variables": MOST_VARIABLES}
    faults = faults_of({"name": "n" * (MOST_TEXT + 1), **{key: [None] * (most + 1) for key, most in lists.items()}})
    assert [fault.path for fault in faults] == ["actions", "edges", "variables", ""]


def test_what_a_server_writes_into_a_workflow_counts_for_no_limit():
    assert parsed({**loop(), "created_by": {"email": "x" * (MOST_TEXT + 1)}}).name == "Triage"


@pytest.mark.parametrize(
    "document",
    [
        {**loop(), "edges": [None] * 400_000},
        {**loop(), **{f"key{number}": None for number in range(50_000)}},
        {**loop(), "actions": [{"id": f"a{n}", "name": "A", "type": f"functio{n}"} for n in range(10_000)]},
        {**loop(), "actions": [{"id": f"a{n}", "name": "{" + "1+" * 90_000 + "1}", "type": "exit"} for n in range(20)]},
    ],
    ids=["edges", "keys", "types", "text"],
)
def test_a_hostile_document_is_refused_before_the_time_of_a_test_is_over(document):
    assert faults_of(document)  # what grew with the square would take minutes


def test_of_many_faults_the_first_are_told_and_the_others_counted():
    faults = faults_of({**loop(), **{f"key{number}": None for number in range(250)}})
    assert len(faults) == MOST_KEPT + 1
    assert faults[-1].message == "150 more faults are not shown"


def test_of_many_warnings_the_first_are_told_and_the_others_counted():
    document = loop()
    document["actions"][1]["output_variable"] = [{"key": f"undeclared{n}", "result_path": "x"} for n in range(250)]
    warnings = parsed(document).warnings
    assert len(warnings) == MOST_KEPT + 1
    assert warnings[-1].message.endswith("more warnings are not shown")


def test_only_the_first_unknown_names_are_compared_with_the_known_ones():
    many = {f"descriptio{number}": None for number in range(MOST_SUGGESTED + 10)}
    told = [fault.hint for fault in faults_of({**loop(), **many}) if fault.path in many]
    assert len(told) == MOST_SUGGESTED + 10
    assert all("did you mean" in hint for hint in told[: MOST_SUGGESTED // 2])
    assert not any("did you mean" in hint for hint in told[MOST_SUGGESTED:])
    assert "did you mean" in faults_of({**loop(), "nmae": 1})[0].hint  # each document anew


def test_the_limits_are_documented_as_they_are():
    rows = table(section(page("reference/workflow.md"), "Limits"), "limit", "value", "what happens")
    said = {limit: value for limit, value, _ in rows}
    assert said["actions"] == str(MOST_ACTIONS)
    assert said["edges"] == f"{MOST_EDGES:,}"
    assert said["variables of a workflow"] == str(MOST_VARIABLES)
    assert said["text of all values together"] == f"{MOST_TEXT:,} characters"
    assert said["faults and warnings that are told"] == f"{MOST_KEPT} of each"
    assert said["suggestions for unknown names"] == f"the first {MOST_SUGGESTED}"
