"""Hog string templates. The numbers are those of the cases that PostHog's own tests pin, or of our derived ones (d)."""

import pytest

from loops.errors import TemplateError
from loops.event import JsonValue
from loops.expressions import compile_template

SCOPE = {
    "event": {
        "event": "test",
        "url": "https://example.com/e",
        "properties": {"text": "hi", "n": 5, "$lib_version": "1.2", "foo-bar": "fb", "tags": ["a", "b"]},
    },
    "person": None,
    "variables": {"x": "yo", "one": 1.0, "flag": True, "map": {"a": None}},
}


def render(source, **options):
    return compile_template(source, **options).render(SCOPE)


def refused(source, **options):
    with pytest.raises(TemplateError) as caught:
        compile_template(source, **options)
    return caught.value


def failed(source, scope=SCOPE):
    template = compile_template(source, path="actions[1].config.inputs.text.value")
    with pytest.raises(TemplateError) as caught:
        template.render(scope)
    return caught.value


def test_case_95_an_event_field_is_put_in():
    assert compile_template({"event": "{event.event}"}).render(SCOPE) == {"event": "test"}


def test_case_96_an_event_field_is_put_in_by_liquid_too():
    assert compile_template({"event": "{{ event.event }}"}, engine="liquid").render(SCOPE) == {"event": "test"}


def test_case_97_nulls_in_nested_values_stay():
    value: JsonValue = {"a": None, "b": [None, {"c": None}], "n": 1, "t": True}
    assert compile_template(value).render(SCOPE) == value


def test_case_101_text_before_a_property_is_joined_to_it():
    assert render("v={event.properties.$lib_version}") == "v=1.2"


def test_case_101_text_before_a_missing_property_stands_alone():  # derived
    assert render("v={event.properties.$nope}") == "v="


def test_case_102_a_template_of_one_expression_keeps_its_type():
    assert compile_template({"body": {"event": "{event}"}}).render(SCOPE) == {"body": {"event": SCOPE["event"]}}
    assert render("{42}") == 42
    assert render("{true}") is True
    assert render("{event.properties.tags}") == ["a", "b"]
    assert render("{null}") is None


def test_a_missing_variable_in_text_is_nothing():  # d22
    assert render("done: {variables.missing}") == "done: "


def test_a_missing_variable_alone_is_null():  # d23
    assert render("{variables.missing}") is None


def test_an_unknown_root_fails_the_render():  # d24
    error = failed("{nosuch.x}")
    assert error.faults[0].path == "actions[1].config.inputs.text.value"
    assert "`nosuch`" in error.faults[0].message
    assert error.faults[0].hint == "available: event, person, variables"


def test_a_mask_hash_without_a_person_is_null_alone_and_nothing_in_text():  # d17, d18
    assert render("{person.id}") is None
    assert render("{person.id}-x") == "-x"


def test_values_in_text_print_as_hog_prints_them():
    assert render("{event.properties.tags} {variables.map} {variables.one} {variables.flag}") == (
        "['a', 'b'] {'a': null} 1 true"
    )


def test_text_without_braces_is_itself():
    assert render(r"C:\new 100% 'quoted' \\ $x") == r"C:\new 100% 'quoted' \\ $x"
    assert render("") == ""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"\{x\}", "{x}"),
        (r'\{"a": {event.properties.n}}', '{"a": 5}'),
        (r"\\{variables.x}", "\\yo"),
        (r"\\\{variables.x}", r"\{variables.x}"),
        ("a } b", "a } b"),
    ],
)
def test_a_backslash_makes_a_brace_literal(source, expected):
    assert render(source) == expected


def test_braces_inside_texts_and_maps_do_not_end_the_expression():
    assert render("{'}'}") == "}"
    assert render("x{ {'a': {'b': 1}} }") == "x{'a': {'b': 1}}"


def test_an_f_string_joins_inside_an_expression():
    assert render("{f'{event.url}-test'}") == "https://example.com/e-test"
    assert render("{f'it\\'s {variables.missing}\\{{f'{variables.x}!'}'}") == "it's {yo!"


def test_double_braces_are_refused_with_the_mend():
    error = refused("Hi {{ event.event }}", path="text")
    assert "single braces" in error.message
    assert "liquid" in error.hint
    assert error.faults[0].path == "text"


def test_a_hyphen_inside_a_property_name_is_refused_as_suspected_subtraction():
    error = refused("{event.properties.foo-bar}")
    assert "`foo-bar`" in error.message
    assert "['foo-bar']" in error.hint
    assert render("{event.properties['foo-bar']}") == "fb"


@pytest.mark.parametrize("source", ["{event.properties.n - variables.one}", "{event.properties.n-1}"])
def test_a_minus_with_spaces_or_a_number_subtracts(source):
    assert render(source) == 4


@pytest.mark.parametrize(
    ("source", "says", "hint"),
    [
        ("{event.event", "nothing closes `{` at character 1", "\\{"),
        ("a {", "nothing closes `{` at character 3", "\\{"),
        ("{}", "nothing stands between the braces", "\\{"),
        ('{"a": 1}', "unexpected `:` at character 5", "\\{"),
        ("{'a}", "`'` means nothing here", "single quote"),
        ("{f'a}", "nothing closes the text", "single quote"),
        ("{a b}", "unexpected `b`", ""),
        ("{a +}", "ends too early", ""),
        ("{(a]}", "`]` closes nothing", ""),
        ("{event.event(1)}", "unexpected `(`", "only functions are called"),
        ("{a && b}", "`&` means nothing here", "write `and`"),
        ("{!a}", "`!` means nothing here", "write `not`"),
        ("{a =~ 'b'}", "no regular expressions", "ilike"),
        ("{a !~ 'b'}", "no regular expressions", "ilike"),
        (r"{'\d'}", r"unknown escape `\d`", "\\\\"),
        ("{'a' + 1}", "`+` needs numbers", "concat"),
        ("{1 - f'{a}'}", "`-` needs numbers", "toFloat"),
        ("{1e999}", "too large", ""),
        ("{a[0]}", "no item 0", "[1]"),
        ("{a.0}", "no item 0", "[1]"),
        ("{uper(a)}", "no function uper()", "upper()"),
        ("{zzzz(a)}", "no function zzzz()", "known: "),
        ("{lower()}", "takes 1 argument, not 0", ""),
        ("{concat()}", "takes at least 1 argument", ""),
        ("{trim(a, b, c)}", "takes 1 to 2 arguments, not 3", ""),
        ("{__now__}", "`__now__` is not available", ""),
    ],
)
def test_what_cannot_be_read_is_refused_with_place_and_mend(source, says, hint):
    error = refused(source)
    assert says in error.message
    assert hint in error.hint


def test_a_fault_in_a_long_text_names_line_and_column():

    assert "at line 3, column 9" in refused("one\ntwo\nand {a *}").message


def test_a_fault_while_rendering_names_the_path():
    error = failed("{upper(variables.missing)}")
    assert error.faults[0].path == "actions[1].config.inputs.text.value"
    assert "upper() needs a text, not null" in error.message


def test_naming_a_function_without_calling_it_says_so():
    assert failed("{now}").hint == "a function is called: now()"


def test_with_html_what_is_put_in_is_escaped_and_the_template_is_not():
    scope = {"v": "<img src=x onerror=1>", "n": 1, "m": ["<b>"], "nothing": None}
    for source, expected in [
        ("<p>{v}</p>", "<p>&lt;img src=x onerror=1&gt;</p>"),
        ("{v}", "&lt;img src=x onerror=1&gt;"),
        ("{n}", 1),
        ("<i>{m}{nothing}</i>", "<i>[&#x27;&lt;b&gt;&#x27;]</i>"),
    ]:
        assert compile_template(source, html=True).render(scope) == expected
