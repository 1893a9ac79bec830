"""What holds for every function, whatever JSON it is given."""

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.errors import TemplateError
from loops.expressions import compile_expression
from loops.expressions.evaluation import Evaluation
from loops.expressions.functions import FUNCTIONS, ItemFunction
from tests.unit.expressions.test_properties import VALUES

CLOCK = {"__now__": datetime(2026, 3, 28, 15, 4, 5, tzinfo=UTC)}
# What functions take for more than text: zones, patterns, units, encodings, dates, JSON, versions, networks.
TELLING = st.sampled_from(
    """UTC|Europe/Berlin|(a+)+$|[|(?i)x|day|month|year|hex|base64|2026-03-28|0001-01-01|9999-12-31T23:59:59Z|%Y-%m-%d %i
    {"a": [1, {"b": null}]}|[1, "2"]|1.10.2|10.0.0.0/8|10.1.2.3|2001:db8::/32|a%20b|%zz|SGkh|name|a|-1|1e400|0x10
    """.strip().split("|")
)
EXTREMES = st.sampled_from([10**400, -(10**400), 2**63, 1e308, -1e-320, float("nan"), float("inf"), "\ud800", "\x00"])
ARGUMENTS = st.one_of(VALUES, TELLING, EXTREMES, st.lists(TELLING | st.integers(-3, 3), max_size=4))
BODIES = {
    1: st.sampled_from(
        ["x -> x", "x -> x.a", "x -> x > 1", "x -> [x, b]", "x -> upper(x)", "(x) -> arrayMap(x -> x, x)"]
    ),
    2: st.sampled_from(["(s, x) -> s + x", "(s, x) -> [s, x]", "(s, x) -> x", "(s, x) -> concat(s, x, b)"]),
}


@st.composite
def calls(draw, name):
    """A call of the function with as many arguments as it takes, each the name of a value."""
    function = FUNCTIONS[name]
    most = function.least + 3 if function.most is None else function.most
    names = ["a", "b", "c", "d", "e", "f"][: draw(st.integers(function.least, most))]
    if isinstance(function, ItemFunction):
        names[0] = draw(BODIES[function.parameters])
    return f"{name}({', '.join(names)})"


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@settings(max_examples=8)
@given(st.data())
def test_any_function_of_any_values_gives_json_or_fails_as_a_template(name, data):
    source = data.draw(calls(name))
    scope = {key: data.draw(ARGUMENTS, key) for key in sorted(set(re.findall(r"\b[a-f]\b", source)))}
    try:
        compiled = compile_expression(source)
        result = compiled.evaluate({**scope, **CLOCK})
    except TemplateError:
        return
    if name not in GIVES_ARGUMENTS_BACK:  # these may hand on what JSON has not, as it came
        json.dumps(result, allow_nan=False)


GIVES_ARGUMENTS_BACK = {
    *("arrayMap", "arrayFilter", "arrayPopBack", "arrayPopFront", "arrayPushBack", "arrayPushFront", "arrayReverse"),
    *("arrayReduce", "arraySort", "arrayReverseSort", "assumeNotNull", "coalesce", "if", "ifNull", "jsonParse", "min2"),
    *("JSONExtract", "JSONExtractArrayRaw", "multiIf", "tuple", "values", "Error", "HogError", "RetryError"),
    "NotImplementedError",
}
BIG = {
    "text": "ab,%20[1]" * 6_000,
    "list": [f"item {number}" for number in range(6_000)],
}


@pytest.mark.usefixtures("tenth_of_the_work")
@pytest.mark.parametrize("kind", sorted(BIG))
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"and", "or", "if"}))
def test_no_function_escapes_the_work_budget(name, kind):
    """Called for each of many items with large values, every function runs into a limit."""
    function = FUNCTIONS[name]
    arguments = [kind] * max(function.least, 0 if function.most == 0 else 1)
    if isinstance(function, ItemFunction):
        arguments[0] = "x -> [text, x]" if function.parameters == 1 else "(s, x) -> [text, x]"
    turn = f"{name}({', '.join(arguments)})"
    compiled = compile_expression(f"arrayMap(p -> arrayMap(q -> isNull({turn}), range(316)), range(316))")
    with pytest.raises(TemplateError):
        compiled.evaluate({**BIG, **CLOCK})


def test_the_budget_is_one_for_the_whole_rendering():
    evaluation = Evaluation({})
    evaluation.spend(9_999_999)
    evaluation.spend(1)
    with pytest.raises(TemplateError, match="too much work"):
        evaluation.spend(1)
