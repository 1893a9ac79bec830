"""What a compiled template says of itself, and templates inside lists and maps."""

from types import MappingProxyType

import pytest

from loops.errors import TemplateError
from loops.event import JsonValue
from loops.expressions import compile_template

PROPERTIES = {"text": "hi", "list": [1, 2], "null": None}
SCOPE = {"event": {"properties": PROPERTIES}, "variables": {"k": "text"}}


def test_strings_inside_lists_and_maps_are_rendered_and_other_scalars_pass():
    items: JsonValue = ["{event.properties.text}", 1, None, {"b": "x{variables.k}"}]
    value: JsonValue = {"a": items, "c": True, "d": 1.5, "e": {}}
    template = compile_template(value)
    assert template.render(SCOPE) == {"a": ["hi", 1, None, {"b": "xtext"}], "c": True, "d": 1.5, "e": {}}
    assert template.source == value
    assert template.engine == "hog"


def test_keys_are_not_templates():
    assert compile_template({"{event}": 1}).render(SCOPE) == {"{event}": 1}


def test_a_rendered_value_can_be_changed_without_changing_the_template():
    template = compile_template({"a": [1, {"b": "x"}]})
    first = template.render(SCOPE)
    assert isinstance(first, dict)
    first["a"] = "changed"
    assert template.render(SCOPE) == {"a": [1, {"b": "x"}]}


@pytest.mark.parametrize("value", [None, True, 5, 1.5])
def test_a_scalar_is_its_own_template(value):
    template = compile_template(value)
    assert template.render(SCOPE) is value
    assert template.roots == template.paths == frozenset()


def test_roots_and_paths_are_what_the_source_reads():
    template = compile_template(
        [
            "{event.properties.text}",
            "x{event.properties['foo-bar']}{event.list[-1].a}",
            "{event.properties[variables.k]}",
        ]
    )
    assert template.roots == {"event", "variables"}
    assert template.paths == {
        "event.properties.text",
        "event.properties['foo-bar']",
        "event.list[-1].a",
        "event.properties",
        "variables.k",
    }


def test_all_faults_are_told_each_with_its_path():
    value: JsonValue = {"to": {"email": "{"}, "rows": ["ok", "{upper()}"], "odd key": "{a b}"}
    with pytest.raises(TemplateError) as caught:
        compile_template(value, path="actions[1].config.inputs.email.value")
    assert [fault.path for fault in caught.value.faults] == [
        "actions[1].config.inputs.email.value.to.email",
        "actions[1].config.inputs.email.value.rows[1]",
        "actions[1].config.inputs.email.value['odd key']",
    ]


def test_without_a_path_the_first_key_begins_it():
    with pytest.raises(TemplateError) as caught:
        compile_template({"text": ["{"]})
    assert caught.value.path == "text[0]"


def test_a_failing_render_names_the_string_that_failed():
    template = compile_template({"a": "fine", "b": ["{upper(event.properties.null)}"]}, path="inputs")
    with pytest.raises(TemplateError) as caught:
        template.render(SCOPE)
    assert caught.value.path == "inputs.b[0]"


def test_roots_outside_the_allowed_ones_are_refused_with_those_that_are_allowed():
    with pytest.raises(TemplateError) as caught:
        compile_template("{event.event}{variables.x}", path="prompt", allowed_roots=frozenset({"variables"}))
    assert caught.value.path == "prompt"
    assert "`event` is not available" in caught.value.message
    assert caught.value.hint == "available: variables"
    with pytest.raises(TemplateError) as caught:
        compile_template("{event.event}", allowed_roots=frozenset())
    assert caught.value.hint == "available: nothing"


def test_a_template_says_what_a_scope_lacks():
    template = compile_template(
        "{event.properties.text}{event.properties.null}{event.properties.list[3]}{variables.no.x}"
    )
    assert template.missing(SCOPE) == ["event.properties.list[3]", "event.properties.null", "variables.no.x"]
    assert compile_template("{event.properties.list[2]}{event.properties.list[-2]}").missing(SCOPE) == []


def test_d12_an_empty_string_stays_an_empty_string():
    assert compile_template("{variables.x}").render({"variables": {"x": ""}}) == ""


def test_d37_a_long_final_message_is_rendered_whole():
    text = "é" * 65_536
    scope = {"variables": {"task_final_message": text}}
    assert compile_template("{variables.task_final_message}").render(scope) == text
    assert compile_template("done: {variables.task_final_message}").render(scope) == f"done: {text}"
    assert compile_template("{{ variables.task_final_message }}", engine="liquid", html=True).render(scope) == text


def test_what_is_read_is_handed_on_without_a_copy():
    assert compile_template("{event.properties}").render(SCOPE) is PROPERTIES


def test_any_mapping_of_a_scope_reads_like_a_map():
    scope = MappingProxyType({"event": MappingProxyType({"a": MappingProxyType({"b": (1, None)})})})
    expected = '1 {"a":{"b":[1,null]}}'
    assert compile_template("{event.a.b[1]} {jsonStringify(event)}").render(scope) == expected
    assert compile_template("{{ event.a.b[0] }} {{ event }}", engine="liquid").render(scope) == expected


def test_templates_of_the_same_source_are_equal():
    assert compile_template("{event.x}") == compile_template("{event.x}")
    assert compile_template("{event.x}") != compile_template("{event.y}")


@pytest.mark.parametrize(
    ("source", "engine", "expected"),
    [
        ("About {variables.x}.", "hog", 'About "\\u003c/b\\u003e \\u0026 \\"so\\"".'),
        ("{variables.x}", "hog", '"\\u003c/b\\u003e \\u0026 \\"so\\""'),
        ("{variables.n + 1} of {variables.none}", "hog", "3 of null"),
        ("About {{ variables.x }}.", "liquid", 'About "\\u003c/b\\u003e \\u0026 \\"so\\"".'),
        ("{% if variables.n == 2 %}{{ variables.n }}{% endif %}{{ variables.none }}", "liquid", "2"),
    ],
)
def test_inside_an_instruction_values_are_json_that_holds_no_markup(source, engine, expected):
    scope = {"variables": {"x": '</b> & "so"', "n": 2, "none": None}}
    assert compile_template(source, engine=engine, quoting=True).render(scope) == expected
