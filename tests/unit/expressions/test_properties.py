"""Properties that hold for any source and any scope."""

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loops.errors import TemplateError
from loops.expressions import compile_expression, compile_template, to_text
from loops.expressions.coercion import equals, less

EXACT = 10**21  # above, integers print as JavaScript's do, with an exponent
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-EXACT + 1, EXACT - 1),
    st.floats(-(2.0**53), 2.0**53),  # above, what JavaScript prints reads back as another integer
    st.text(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)
KEYS = st.sampled_from(["a", "b", "text", "list", "n"])
SCOPES = st.fixed_dictionaries(
    {
        "event": st.recursive(
            SCALARS,
            lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
            max_leaves=10,
        ),
        "variables": st.dictionaries(KEYS, VALUES, max_size=4),
    }
)

PATHS = st.builds(
    lambda root, steps: root + "".join(steps),
    st.sampled_from(["event", "variables"]),
    st.lists(st.sampled_from([".a", ".b", ".text", ".list", "['n']", "[1]", "[-1]", "[variables.n]"]), max_size=3),
)
LITERALS = VALUES.map(lambda value: to_text([value])[1:-1])
ONE = ("lower", "upper", "length", "empty", "notEmpty", "isNull", "toInt", "toFloat", "toString", "round", "floor")
MORE = ("trim", "jsonParse", "jsonStringify", "toDateTime", "concat", "coalesce", "now")
ONE_ARGUMENT = ONE + MORE
TWO = ("concat", "ifNull", "trim", "position", "has", "substring", "splitByString", "formatDateTime", "jsonStringify")
THREE = ("if", "replaceAll", "substring", "concat", "formatDateTime", "splitByString")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "??", "and", "or", "in", "not in")
MATCHING = ("like", "ilike", "not like")


def _calls(inner):
    return st.one_of(
        st.builds("{}({})".format, st.sampled_from(ONE_ARGUMENT), inner),
        st.builds("{}({}, {})".format, st.sampled_from(TWO), inner, inner),
        st.builds("{}({}, {}, {})".format, st.sampled_from(THREE), inner, inner, inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS + MATCHING), inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}.k".format, inner),
        st.builds("f'x{{{}}}'".format, inner),
        st.builds("(not {})".format, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("({} between {} and {})".format, inner, inner, inner),
    )


EXPRESSIONS = st.recursive(st.one_of(PATHS, LITERALS), _calls, max_leaves=8)
CHARACTERS = st.text(alphabet="{}[]()'\"`\\.,:?+-*/%<>=!|~&;#@ \n$_abfxnot1290éin", max_size=40)
LIQUID_PIECES = """
    {{ }} {% %} if endif for endfor in event variables.a event.list | . : , 'x' " 1 (1..3) == > contains and default
    upcase join first map size json date split append sort uniq sum where assign capture endcapture a b = < &lt; else
    raw endraw cycle x nil empty comment endcomment liquid echo case when endcase [ ] 0
"""
LIQUID = st.lists(st.sampled_from(LIQUID_PIECES.split()), max_size=25).map(" ".join)
FILTERS = """
    abs|append: v|at_least: v|base64_decode|base64_encode|capitalize|ceil|compact|concat: v|date: '%Y %s'|date: v
    default: v|divided_by: v|downcase|escape|escape_once|escapejs|find: v|find_index: v|first|floor|has: v|join: v|json
    last|lstrip|map: v|minus: v|modulo: v|newline_to_br|plus: v|prepend: v|reject: v|remove: v|replace: v, v|reverse
    round: v|size|slice: 1, 2|slice: v|sort|sort: v|sort_natural|split: v|squish|strip_html|strip|sum|sum: v|times: v
    truncate: v|truncatewords: v|uniq|uniq: v|upcase|url_decode|url_encode|where: v|where: v, v
"""


@given(VALUES)
@example(["\\'\n\x00\u2028", {"": -0.5}])
def test_a_literal_is_the_value_that_it_prints(value):
    literal = to_text([value])
    assert compile_expression(literal).evaluate({}) == [value]
    assert (
        compile_template(f"{{{literal[1:-1]}}}" if literal[1] != "{" else f"{{ {literal[1:-1]} }}").render({}) == value
    )


@given(st.text().filter(lambda text: not set("{}") & set(text)))
def test_text_without_braces_renders_itself(text):
    assert compile_template(text).render({}) == text


@given(st.text())
def test_any_text_can_be_written_by_escaping_its_braces(text):
    # Backslashes count only in front of a brace, so a run of them there is doubled before the brace gets its own.
    source, run = "", 0
    for character in text:
        source += "\\" * (run + 1) if character in "{}" else ""
        source += character
        run = run + 1 if character == "\\" else 0
    assert compile_template(source).render({}) == text


@given(CHARACTERS)
def test_any_source_compiles_or_is_refused(source):
    for compile_source in (compile_template, compile_expression):
        with suppress(TemplateError):
            compile_source(source)


@given(
    st.lists(st.sampled_from(["[", "(", "{", "f'", "{'a':", "not ", "-", "lower(", "a ? ", "1,", "]", ")", "}", "'"]))
)
def test_random_nesting_compiles_or_is_refused(pieces):
    with suppress(TemplateError):
        compile_template("{" + "".join(pieces * 8) + "}")


@given(EXPRESSIONS, SCOPES)
def test_any_expression_renders_json_or_fails_as_a_template(expression, scope):
    now = {"__now__": datetime(2026, 1, 2, tzinfo=UTC)}
    try:
        alone = compile_template("{ " + expression + " }").render({**scope, **now})
        joined = compile_template("text { " + expression + " }").render({**scope, **now})
    except TemplateError as error:
        assert not any(word in error.message for word in ("unexpected", "ends too early", "closes"))  # noqa: PT017
        return
    json.dumps(alone, allow_nan=False)
    shown = joined.removeprefix("text ") if isinstance(joined, str) else None
    assert shown == to_text(alone) if alone is not None else shown in {"", "NaN", "Infinity", "-Infinity"}


@given(LIQUID, SCOPES)
def test_any_liquid_renders_text_or_fails_as_a_template(source, scope):
    with suppress(TemplateError):
        assert isinstance(compile_template(source, engine="liquid").render(scope), str)


@given(
    st.lists(st.sampled_from(FILTERS.strip().replace("\n", "|").split("|")), min_size=1, max_size=3),
    VALUES,
    VALUES,
    st.booleans(),
)
def test_any_chain_of_filters_renders_text_or_fails_as_a_template(filters, left, argument, html):
    source = "{{ left | " + " | ".join(filters) + " }}"
    template = compile_template(source, engine="liquid", html=html)
    with suppress(TemplateError):
        assert isinstance(template.render({"left": left, "v": argument}), str)


@given(VALUES)
def test_tp_05_what_liquid_prints_as_json_reads_back(value):
    text = compile_template('{"t": {{ v | json }}}', engine="liquid").render({"v": value})
    assert isinstance(text, str)
    assert json.loads(text) == {"t": value}


@given(VALUES)
def test_what_hog_stringifies_reads_back(value):
    scope = {"v": value}
    text = compile_expression("jsonStringify(v)").evaluate(scope)
    assert isinstance(text, str)
    assert json.loads(text) == value
    assert compile_expression("jsonParse(jsonStringify(v))").evaluate(scope) == value


@given(st.text())
def test_tp_02_no_text_brings_markup_into_html(text):
    rendered = compile_template("<p>{{ v }}</p>", engine="liquid", html=True).render({"v": text})
    assert isinstance(rendered, str)
    assert not set('<>"') & set(rendered[3:-4])
    assert compile_template("{{ v }}", engine="liquid").render({"v": text}) == text


@given(VALUES, VALUES)
def test_equality_is_symmetric_and_excludes_order(a, b):
    assert equals(a, b) == equals(b, a)
    assert not (less(a, b) and less(b, a))
    if equals(a, b):
        assert not less(a, b)


@pytest.mark.parametrize("engine", ["hog", "liquid"])
def test_a_template_without_markup_is_its_own_result(engine):
    assert compile_template("plain ünïcode ✓", engine=engine).render({}) == "plain ünïcode ✓"
