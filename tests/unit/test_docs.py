"""The documentation says what the code does: its tables, its examples, its commands, its links."""

import json
import re
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import liquid
import pytest
from pydantic_core import to_jsonable_python

from config.runner_settings import PREFIX as RUNNER_PREFIX
from config.runner_table import RUNNER_KEYS
from config.setting_table import PREFIX, SETTINGS
from config.settings import CLIENT_VARIABLES, STEP_PREFIX
from loops.definition import parse_workflow, read_documents
from loops.definition.inputs import FUNCTIONS, SOURCES, Inputs, templated
from loops.definition.inputs.email import Mail
from loops.definition.schema import actions, triggers
from loops.definition.schema.base import Shape
from loops.definition.schema.brakes import Debounce, QueueOverlap, RateLimit
from loops.definition.schema.parts import Edge, Input, Masking, OutputMapping, Variable
from loops.errors import DefinitionError, TemplateError
from loops.event import Event, event_json
from loops.expressions import compile_expression, compile_template
from loops.expressions.functions import FUNCTIONS as HOG_FUNCTIONS
from loops.filters import compile_filter
from loops.filters.entries import supported_types
from loops.filters.operators import OPERATORS
from loops.filters.predicates import PROPERTY_TYPES
from server.metrics import Metrics
from tests.conftest import TEST_VARIABLES
from tests.unit.documentation import (
    PAGES,
    ROOT,
    Block,
    anchors,
    blocks,
    commands,
    complaint,
    links,
    mentions,
    page,
    section,
    table,
)
from tests.unit.triggers.github.deliveries import fixture, parsed
from tests.unit.triggers.slack import deliveries as slack_deliveries
from triggers.github.event import EVENT_NAME
from triggers.github.ignored import ignored_reason
from triggers.github.payload import Payload
from triggers.keys import Key
from triggers.masking import mask_of
from triggers.schedule.event import to_event
from triggers.slack.event import EVENT_NAME as SLACK_EVENT_NAME
from triggers.slack.ignored import ignored_reason as slack_ignored

_CLOCK = datetime(2026, 11, 30, 9, 5, tzinfo=UTC)


def the_event() -> Event:
    return parsed("issues", fixture("issues__opened"))


def the_scope() -> dict[str, Any]:
    return {"event": event_json(the_event()), "__now__": _CLOCK}


# Expressions


def _count(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


FUNCTION_ROWS = table(page("reference/expressions.md"), "function", "arguments", "what it gives", "example", "gives")
EXPRESSION_ROWS = table(page("reference/expressions.md"), "expression", "gives")
LIQUID_ROWS = table(page("reference/expressions.md"), "template", "gives")


def test_the_table_of_functions_is_what_the_code_has() -> None:
    written = {name: count for name, count, *_ in FUNCTION_ROWS}
    assert written == {name: _count(one.least, one.most) for name, one in HOG_FUNCTIONS.items()}
    assert [row[0] for row in FUNCTION_ROWS] == sorted(written, key=str.lower)


@pytest.mark.parametrize(
    ("expression", "gives"),
    [*((row[3], row[4]) for row in FUNCTION_ROWS), *((row[0], row[1]) for row in EXPRESSION_ROWS)],
)
def test_the_examples_of_expressions_give_what_stands_beside_them(expression: str, gives: str) -> None:
    assert compile_expression(expression).evaluate(the_scope()) == json.loads(gives)


@pytest.mark.parametrize(("template", "gives"), LIQUID_ROWS)
def test_the_examples_of_liquid_give_what_stands_beside_them(template: str, gives: str) -> None:
    assert compile_template(template, engine="liquid").render(the_scope()) == gives


def test_each_function_is_used_in_its_own_example() -> None:
    assert [name for name, _, _, example, _ in FUNCTION_ROWS if not example.startswith(f"{name}(")] == []


def test_the_list_of_liquid_filters_is_what_templates_may_use() -> None:
    listed = re.search(r"with these filters:\n\n(.*?)\n\n", page("reference/expressions.md"), re.DOTALL)
    assert listed
    candidates = {*liquid.Environment().filters, "json", "where_exp", "money"}
    assert re.findall(r"`(\w+)`", listed[1]) == sorted(name for name in candidates if _is_a_filter(name))


def _is_a_filter(name: str) -> bool:
    try:
        compile_template(f"{{{{ a | {name} }}}}", engine="liquid")
    except TemplateError as error:
        return "there is no filter" not in error.message
    return True


REFUSED_ROWS = [
    (refused.strip(" `"), instead)
    for cell, instead in table(page("reference/expressions.md"), "refused", "write")
    for refused in re.findall(r"`(\{[^`]*)`", cell) or [cell]
]


@pytest.mark.parametrize(("template", "_instead"), REFUSED_ROWS)
def test_what_is_called_refused_is_refused(template: str, _instead: str) -> None:
    known = frozenset({"event", "a", "b"})
    with pytest.raises(TemplateError):
        compile_template(template, allowed_roots=known)


# Filters


def test_the_table_of_operators_is_what_the_code_has() -> None:
    rows = table(
        page("reference/filters.md"),
        *("operator", "passes when the property", "needs a value", "without a value in the event"),
    )
    written = {name: (needs, missing) for name, _, needs, missing in rows}
    actual = {
        name: ("yes" if one.wants_value else "no", "passes" if one.negates else "fails")
        for name, one in OPERATORS.items()
    }
    assert written == actual


def test_the_table_of_property_types_is_what_the_code_has() -> None:
    rows = dict(table(page("reference/filters.md"), "type", "keys"))
    assert list(rows) == list(supported_types())
    for name, kind in PROPERTY_TYPES.items():
        if kind.keys is not None:
            assert re.findall(r"`([\w$]+)`", rows[name]) == list(kind.keys)


@pytest.mark.parametrize(
    ("operator", "value", "actual", "passes"),
    table(page("reference/filters.md"), "operator", "value", "in the event", "passes"),
)
def test_the_examples_of_filters_pass_or_fail_as_told(operator: str, value: str, actual: str, passes: str) -> None:
    properties = {} if actual == "missing" else {"field": json.loads(actual)}
    event = Event("u", "$some_event", "github", "ada", _CLOCK, properties)
    wanted = {"key": "field", "operator": operator, "value": json.loads(value), "type": "event"}
    assert compile_filter({"properties": [wanted]}).matches(event) is (passes == "yes")


# Events


def test_the_table_of_github_properties_is_what_an_event_has() -> None:
    rows = table(page("reference/events.md"), "property", "what it is", "example")
    properties = dict(the_event().properties)
    assert [name for name, *_ in rows] == list(properties)
    examples = {name: example for name, _, example in rows}
    assert examples.pop("github_event") == "whole payload"
    assert {name: json.loads(example) for name, example in examples.items()} == {
        name: properties[name] for name in examples
    }


def test_the_table_of_properties_of_an_occurrence_is_what_an_event_has() -> None:
    rows = table(page("reference/events.md"), "property of an occurrence", "what it is", "example")
    due = datetime.fromisoformat("2026-06-15T07:00:00+00:00")
    event = to_event("1a23017b4af46c5e96bb36a0", due, ZoneInfo("Europe/Berlin"), late=False)
    assert {name: json.loads(example) for name, _, example in rows} == event.properties


def test_the_table_of_slack_properties_is_what_an_event_has() -> None:
    rows = table(page("reference/events.md"), "property of a message", "what it is", "example")
    properties = dict(slack_deliveries.parsed(slack_deliveries.fixture("message__plain")).properties)
    assert [name for name, *_ in rows] == list(properties)
    examples = {name: example for name, _, example in rows}
    assert examples.pop("slack_event") == "whole event"
    assert {name: json.loads(example) for name, example in examples.items()} == {
        name: properties[name] for name in examples
    }


def test_what_is_ignored_of_slack_is_ignored_for_the_reason_that_is_told() -> None:
    for name, reason in table(page("reference/events.md"), "from Slack", "recorded reason"):
        ways: list[Any] = [
            {"type": name},
            {"type": "event_callback", "event": {"type": name}},
            {"type": "event_callback", "event": {"type": "message", "subtype": name}},
        ]
        assert reason in [slack_ignored(one) for one in ways]


def test_the_rest_of_an_event_is_what_templates_see() -> None:
    names = {name for name, _ in table(page("reference/events.md"), "name", "what it is")}
    assert names == {f"event.{key}" for key in event_json(the_event()) if key not in {"properties", "person", "groups"}}


def test_the_ignored_deliveries_are_ignored_for_the_reason_that_is_told() -> None:
    rows = table(page("reference/events.md"), "delivery", "reason that is recorded")
    assert dict(rows) == {name: ignored_reason(name, Payload()) for name, _ in rows}


# The workflow format


def _language(schema: type[Inputs], name: str) -> str:
    marker = templated(schema.model_fields[name])
    if marker is None:
        return "no"
    return marker.language.capitalize() + (", variables alone" if marker.guarded else "")


def _default(default: object) -> str:
    shown = json.dumps(to_jsonable_python(default))
    return "" if shown == "null" else shown


def _described(schema: type[Inputs]) -> list[list[str]]:
    return [
        [
            name,
            "yes" if field.is_required() else "no",
            "" if field.is_required() else _default(field.default),
            _language(schema, name),
        ]
        for name, field in schema.model_fields.items()
    ]


_INPUTS = ("input", "required", "default", "template", "meaning")


@pytest.mark.parametrize("template_id", FUNCTIONS)
def test_the_inputs_of_each_function_template_are_what_its_schema_says(template_id: str) -> None:
    rows = table(section(page("reference/workflow.md"), template_id), *_INPUTS)
    assert [row[:4] for row in rows] == _described(FUNCTIONS[template_id])


def test_no_function_template_is_described_that_does_not_exist() -> None:
    assert set(re.findall(r"^### (template-\S+)$", page("reference/workflow.md"), re.MULTILINE)) == set(FUNCTIONS)


@pytest.mark.parametrize("trigger", SOURCES)
def test_the_inputs_of_requested_triggers_are_what_their_schema_says(trigger: str) -> None:
    whole = section(page("reference/workflow.md"), "Inputs of webhook and manual triggers")
    rows = table(whole.split(f"or `{trigger}`:", 1)[1].split("\nFor ", 1)[0], *_INPUTS)
    assert [row[:4] for row in rows] == _described(SOURCES[trigger])


def test_the_keys_of_an_email_are_what_its_schema_says() -> None:
    rows = table(page("reference/workflow.md"), "key of `email`", "required", "meaning")
    assert [row[0] for row in rows] == [field.alias or name for name, field in Mail.model_fields.items()]


def _keys(shape: type[Shape]) -> dict[str, str]:
    return {
        field.alias or name: "required"
        if field.is_required()
        else _shown(name, field.get_default(call_default_factory=True))
        for name, field in shape.model_fields.items()
    }


def _shown(name: str, default: object) -> str:
    return "null" if name == "output_variable" else json.dumps(to_jsonable_python(default))


@pytest.mark.parametrize(
    ("heading", "shape"),
    [
        ("Actions", actions.ActionShape),
        ("Edges", Edge),
        ("Variables", Variable),
        ("output_variable", OutputMapping),
        ("trigger_masking", Masking),
        ("trigger_rate_limit", RateLimit),
        ("trigger_debounce", Debounce),
        ("trigger_overlap", QueueOverlap),
    ],
)
def test_the_keys_of_each_part_are_what_its_schema_says(heading: str, shape: type[Shape]) -> None:
    rows = table(section(page("reference/workflow.md"), heading), "key", "default", "meaning")
    assert {key: default for key, default, _ in rows} == _keys(shape)


@pytest.mark.parametrize(
    ("told", "text", "ttl"),
    table(page("reference/workflow.md"), "to start at most", "hash", "ttl"),
    ids=lambda cell: str(cell)[:20],
)
def test_the_masks_that_are_shown_hold_back_what_is_the_same(told: str, text: str, ttl: str) -> None:
    made = mask_of(Masking(hash=text, ttl=json.loads(ttl)))
    assert told
    assert made is not None
    keys = [made.key(event_json(the_event()), _CLOCK) for _ in range(2)]
    assert isinstance(keys[0], Key)
    assert keys[0] == keys[1]


def test_the_keys_of_an_input_are_what_its_schema_says() -> None:
    rows = table(section(page("reference/workflow.md"), "Function templates"), "key", "meaning")
    assert [row[0] for row in rows] == list(Input.model_fields)


def test_the_top_level_keys_are_those_that_a_workflow_takes() -> None:
    with pytest.raises(DefinitionError) as refused:
        parse_workflow({"zzzzzzzzz": 1})
    told = next(fault.hint for fault in refused.value.faults if fault.path == "zzzzzzzzz")
    rows = table(section(page("reference/workflow.md"), "Top-level keys"), "key", "default", "meaning")
    assert [row[0] for row in rows] == told.removeprefix("known here: ").split(", ")


def _types(union: object) -> list[str]:
    members, *_ = get_args(union)
    return [get_args(one.model_fields["type"].annotation)[0] for one in get_args(members)]


def test_the_types_of_actions_and_triggers_are_what_the_schema_has() -> None:
    format_page = page("reference/workflow.md")
    assert [row[0] for row in table(format_page, "type", "what it does", "now")] == _types(actions.Action)
    assert [row[0] for row in table(format_page, "type", "what starts a run", "now")] == _types(triggers.TriggerConfig)


def test_the_action_types_that_are_to_come_are_all_named() -> None:
    told = page("reference/workflow.md").split("refused as not supported yet:", 1)[1].split(".", 1)[0]
    assert re.findall(r"`(\w+)`", told) == sorted(actions.KINDS.later)


# Examples, links, commands, settings, metrics


EXAMPLES = [block for block in blocks() if block.info in {"yaml", "json"}]
INNER_LINKS = sorted((path, target) for path, target in links() if "://" not in target)


def test_there_are_examples_and_commands() -> None:
    assert len(EXAMPLES) >= 2
    assert len(commands()) >= 20


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_every_example_of_a_workflow_is_one_that_can_be_saved(block: Block) -> None:
    for document in read_documents(block.text, f"example.{block.info}"):
        assert parse_workflow(document).warnings == ()


@pytest.mark.parametrize(("path", "target"), INNER_LINKS, ids=lambda part: getattr(part, "name", part))
def test_every_relative_link_leads_somewhere(path: Path, target: str) -> None:
    name, _, anchor = unquote(target).partition("#")
    found = (path.parent / name) if name else path
    assert found.exists()
    assert not anchor or anchor in anchors(found)


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_that_is_shown_is_one_that_the_parser_takes(command: str) -> None:
    assert complaint(command) == ""


@pytest.mark.parametrize("command", sorted(mentions()))
def test_every_command_that_is_mentioned_exists(command: str) -> None:
    told = complaint(command)
    assert not told or "the following arguments are required" in told, told


def test_every_make_target_that_is_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {
        name for path in PAGES for name in re.findall(r"\bmake ([a-z]+)\b(?=`|$|  )", path.read_text("utf-8"), re.M)
    }
    assert shown
    assert shown <= targets


def test_a_secret_that_the_documentation_writes_into_a_tree_is_one_that_git_ignores() -> None:
    ignored = [pattern.rstrip("/") for pattern in (ROOT / ".gitignore").read_text("utf-8").splitlines()]
    written = {
        name for path in PAGES for name in re.findall(r"(?:rand -hex 32|genrsa) > ([^\s)]+)", path.read_text("utf-8"))
    }
    inside = {name for name in written if not name.startswith(("~", "/"))}
    assert inside
    parts = {name: name.split("/") for name in {*inside, "secret.txt", "loops.key", "my-app.private-key.pem"}}
    assert [
        name for name, some in parts.items() if not any(fnmatch(part, one) for part in some for one in ignored)
    ] == []


def test_every_setting_that_is_named_exists() -> None:
    known = {*(one.variable for one in SETTINGS), *CLIENT_VARIABLES, *TEST_VARIABLES}
    named = {name for path in PAGES for name in re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*\b", path.read_text("utf-8"))}
    named -= {name for name in named if name.startswith(STEP_PREFIX)}
    runners = {name for name in named if name.startswith(RUNNER_PREFIX)}
    assert named - runners <= known
    assert [name for name in runners if not name.endswith(tuple(f"_{key.variable}" for key in RUNNER_KEYS))] == []


def test_the_table_of_metrics_is_what_the_service_has() -> None:
    rows = table(page("guides/operate.md"), "metric", "what it counts", "watch for")
    samples = Metrics().registry.collect()
    actual = {one.name: one.type for one in samples}
    assert [row[0] for row in rows] == [f"{name}_total" if kind == "counter" else name for name, kind in actual.items()]


def test_the_event_that_is_described_is_the_one_that_is_made() -> None:
    for name in (EVENT_NAME, SLACK_EVENT_NAME):
        assert f"## Properties of `{name}`" in page("reference/events.md")


def test_no_secret_is_written_where_others_can_read_it():
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))]
    written = [line for text in texts for line in text.splitlines() if re.search(r"openssl rand .* > ", line)]
    assert len(written) > 3
    # The data folder is closed to others already.
    assert [line for line in written if "umask 077" not in line and "> .loops/" not in line] == []


def test_installing_says_that_it_takes_a_while_and_the_network():
    makefile, readme = ((ROOT / name).read_text("utf-8") for name in ("Makefile", "README.md"))
    assert len(re.findall(r"echo \"Installing .* \(about a minute; downloads packages\) \.\.\.\"", makefile)) == 2
    assert "Python 3.11 or newer, make, git and internet access" in readme
