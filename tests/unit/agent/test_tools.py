import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.agent.notes import MOST_NOTE_BYTES, MemoryNotes, Note
from loops.agent.tools import Resources, toolbox
from loops.agent.tools.event import MOST_PIECE, event_tools, piece
from loops.agent.tools.note import note_tools
from loops.agent.tools.tool import CallContext, ToolError
from tests.unit.agent.working import NotingTool

EVENT: dict[str, Any] = {
    "event": "$github_event_received",
    "properties": {"issue": {"title": "It breaks", "labels": [{"name": "a.b"}, {"name": "c"}]}, "a.b": 1, "none": None},
}


def at(index: int) -> CallContext:
    return CallContext("task-1", 1, index)


def named(tools):
    return {tool.spec.name: tool for tool in tools}


async def code(tool, arguments) -> str:
    with pytest.raises(ToolError) as caught:
        await tool.call(arguments, at(0))
    return caught.value.code


# --- the toolbox ---------------------------------------------------------------------------------------------------


def test_the_toolbox_offers_what_it_has_resources_for_in_one_order():
    box = toolbox(Resources(EVENT, MemoryNotes()), more=[NotingTool("a_tool")])
    assert list(box.tools) == ["a_tool", "event_read", "finalize", "note_close", "note_open"]
    assert list(toolbox(Resources()).tools) == ["finalize"]


def test_a_tool_that_is_switched_off_is_not_there_and_only_false_switches_off():
    switches: Any = {"note": {"close": False, "open": True}, "event": {"read": None}, "no_such": {"x": False}}
    assert list(toolbox(Resources(EVENT, MemoryNotes()), switches).tools) == ["event_read", "finalize", "note_open"]


def test_finalize_cannot_be_switched_off_or_replaced():
    switches = {"finalize": {"finalize": False}, "": {"finalize": False}}
    box = toolbox(Resources(), switches, more=[NotingTool("finalize")])
    assert box.tools["finalize"] is box.finalize


def test_schemas_are_closed_and_carry_no_titles():
    for tool in toolbox(Resources(EVENT, MemoryNotes()), fields={"title": "string"}).tools.values():
        parameters = tool.spec.parameters
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert all("title" not in schema for schema in parameters["properties"].values())
    asked = toolbox(Resources(), fields={"title": "string"}).finalize.spec.parameters["properties"]["output"]
    assert asked["properties"] == {"title": {"type": "string"}}


@pytest.mark.parametrize("name", ["_x", "json", "model_config", "copy", "schema"])
def test_a_field_may_have_any_name(name):
    finalize = toolbox(Resources(), fields={name: "number"}).finalize
    given = {"final_message": "ok", "output": {name: 1.5}}
    assert finalize.read(given).output == {name: 1.5}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["", "x"], [1, None, True, ["x"]]),
        ("number", [0, 1.5, -3], ["1", True, None, float("inf"), float("nan")]),
        ("boolean", [True, False], [0, "true", None]),
    ],
)
def test_a_field_takes_its_type_and_no_other(kind, good, bad):
    finalize = toolbox(Resources(), fields={"it": kind}).finalize
    for value in good:
        assert finalize.read({"final_message": "ok", "output": {"it": value}}).output == {"it": value}
    for value in bad:
        with pytest.raises(ToolError, match=f"output.it: is no {kind}"):
            finalize.read({"final_message": "ok", "output": {"it": value}})


def test_finalize_refuses_what_says_nothing_and_what_was_not_asked_for():
    finalize = toolbox(Resources(), fields={"a": "string"}).finalize
    good = {"a": "x"}
    for arguments, words in (
        ({"final_message": "  ", "output": good}, "final_message is empty"),
        ({"final_message": "ok"}, "output.a: is missing"),
        ({"final_message": "ok", "output": [1]}, "output is no object"),
        ({"final_message": "ok", "output": {**good, "b": 1}}, "output.b: is not asked for"),
        ({"final_message": "ok", "output": good, "more": 1}, "more"),
        ({"outcome": "noop", "reason": " "}, "noop needs a reason"),
        ({"outcome": "perhaps", "final_message": "ok"}, "outcome"),
    ):
        with pytest.raises(ToolError, match=words):
            finalize.read(arguments)


# --- notes ---------------------------------------------------------------------------------------------------------


async def test_notes_are_opened_closed_and_archived():
    store = MemoryNotes([Note("o_old", "before")])
    tools = named(note_tools(store))
    opened = await tools["note_open"].call({"text": "  remember  "}, at(0))
    assert opened["id"].startswith("o_")
    assert [note.text for note in await store.opened()] == ["before", "remember"]
    assert await tools["note_close"].call({"id": "o_old", "reason": "settled"}, at(1)) == {"closed": "o_old"}
    assert [(note.id, note.reason) for note in store.archived()] == [("o_old", "settled")]


async def test_a_note_s_call_made_again_writes_nothing_more():
    store = MemoryNotes([Note("o_old", "before")])
    tools = named(note_tools(store))
    first = await tools["note_open"].call({"text": "once"}, at(0))
    assert await tools["note_open"].call({"text": "once"}, at(0)) == first
    for _ in range(2):
        assert await tools["note_close"].call({"id": "o_old"}, at(1)) == {"closed": "o_old"}
    assert [note.text for note in await store.opened()] == ["once"]


async def test_notes_refuse_what_is_empty_too_long_or_not_there():
    store = MemoryNotes([Note("o_1", "x", closed=True)])
    tools = named(note_tools(store))
    assert await code(tools["note_open"], {"text": "  "}) == "NOTE_EMPTY"
    assert await code(tools["note_open"], {"text": "ü" * (MOST_NOTE_BYTES // 2) + "x"}) == "NOTE_TOO_LONG"
    assert "id" in await tools["note_open"].call({"text": "ü" * (MOST_NOTE_BYTES // 2)}, at(1))
    assert await code(tools["note_close"], {"id": " "}) == "NOTE_ID_EMPTY"
    assert await code(tools["note_close"], {"id": "o_9"}) == "NOTE_NOT_FOUND"


async def test_a_note_that_is_closed_is_not_closed_again():
    tools = named(note_tools(MemoryNotes([Note("o_1", "x", closed=True)])))
    assert await code(tools["note_close"], {"id": "o_1"}) == "NOTE_ALREADY_CLOSED"


# --- the event -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("event", {"text": "$github_event_received", "length": 22, "next_start": None}),
        ("properties.issue.title", {"text": "It breaks", "length": 9, "next_start": None}),
        ("properties.issue.labels[1].name", {"text": "c", "length": 1, "next_start": None}),
        ('properties["a.b"]', {"value": 1}),
        ("properties.none", {"value": None}),
        ("properties.issue.labels", {"value": [{"name": "a.b"}, {"name": "c"}]}),
        ("", {"value": EVENT}),
    ],
)
async def test_an_event_is_read_by_path(path, value):
    (read,) = event_tools(EVENT)
    assert await read.call({"path": path}, at(0)) == value


@pytest.mark.parametrize("path", ["nothing", "properties.issue.labels[2]", "event.more", "properties.issue.labels.x"])
async def test_a_path_that_leads_nowhere_says_what_is_there(path):
    (read,) = event_tools(EVENT)
    with pytest.raises(ToolError, match="nothing at") as caught:
        await read.call({"path": path}, at(0))
    assert caught.value.hint


async def test_a_path_that_cannot_be_read_is_refused():
    (read,) = event_tools(EVENT)
    for path in ("a[", "a..b", "a[x]", "]"):
        assert await code(read, {"path": path}) == "EVENT_BAD_PATH"


async def test_the_length_of_a_piece_is_bounded():
    (read,) = event_tools(EVENT)
    for arguments in ({"length": MOST_PIECE + 1}, {"start": -1}, {"length": 0}, {"path": 3}):
        assert await code(read, arguments) == "BAD_ARGUMENTS"


@given(st.text(), st.integers(1, 20))
def test_the_pieces_of_a_text_make_the_whole(text, length):
    read = ""
    start: int | None = 0
    while start is not None:
        part: Any = piece(text, start, length)
        read, start = read + part["text"], part["next_start"]
    assert read == text


def test_a_large_object_shows_its_members_with_their_sizes():
    outline: Any = piece({"body": "x" * 50_000, "n": 1}, 0, 1_000)
    assert outline["members"] == [
        {"key": "body", "kind": "string", "characters": 50_002},
        {"key": "n", "kind": "number", "characters": 1},
    ]
    many: Any = piece(list(range(10_000)), 200, 1_000)
    assert (many["members"][0]["key"], many["length"], many["next_start"]) == (200, 10_000, 400)
    assert len(json.dumps(many)) < 16_000
