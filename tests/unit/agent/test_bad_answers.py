"""What models answer that is no answer: none of it ends a task well, and none of it ends the agent badly."""

import json
from decimal import Decimal

import pytest

from loops.agent.guards import Limits
from loops.agent.model import ModelError
from loops.agent.models.scripted import ScriptedModel, ScriptedTurn
from loops.agent.notes import MemoryNotes
from loops.agent.tools import Resources
from loops.agent.transcript import ToolReturn
from tests.unit.agent.working import NotingTool, agent, call, ends, run, says


@pytest.mark.parametrize("finish", ["tool_calls", "length", "stop"])
async def test_ag_04_no_stop_reason_alone_is_an_end(finish):
    model = ScriptedModel([says("All is done.", finish=finish), ends("Really done.")])
    result = await run(agent(model))
    assert (result.ending, result.message, result.rounds) == ("done", "Really done.", 2)
    told = model.seen[1][0][-1].text
    assert told.startswith("The answer was cut" if finish == "length" else "No tool was called")


async def test_ag_04_an_end_that_was_cut_is_asked_for_again_and_never_taken():
    cut = says("", call("finalize", '{"final_message": "Half of the rep'), finish="length")
    whole = says("", call("finalize", {"final_message": "Looks whole."}), finish="length")
    result = await run(agent([cut, whole, ends("Short.")]))
    assert (result.ending, result.message, result.rounds) == ("done", "Short.", 3)


@pytest.mark.parametrize(
    "arguments", ['""', "[]", '"str"', "{", "null", "3", '{"no_such": 1}', '{"path": [1]}', "\x00"]
)
@pytest.mark.parametrize("tool", ["finalize", "event_read", "note_open", "note_close", "no_such_tool"])
async def test_ag_05_whatever_the_arguments_every_tool_answers_and_the_task_goes_on(tool, arguments):
    resources = Resources({"event": "x"}, MemoryNotes())
    result = await run(agent([says("", call(tool, arguments)), ends("Fine.")], resources=resources))
    assert (result.ending, result.message) == ("done", "Fine.")
    (answer,) = result.transcript.rounds[0].results
    told = json.loads(answer.text)
    assert told["ok"] is False
    assert told["error"]["code"] == answer.code != ""
    assert told["error"]["message"]


@pytest.mark.parametrize("message", ["", "  \n", "\u200b\u2060", "<!-- All is done. -->", "&#8203;"])
async def test_ag_11_an_end_of_which_nobody_would_see_anything_is_none(message):
    empty = says("", call("finalize", {"final_message": message}))
    silent = says("", call("finalize", {"outcome": "noop", "reason": message}))
    result = await run(agent([empty, silent, ends("A report.")]))
    assert (result.ending, result.message) == ("done", "A report.")
    codes = [one.results[0].code for one in result.transcript.rounds]
    assert codes == ["FINALIZE_EMPTY", "FINALIZE_NO_REASON", ""]


async def test_ag_08_however_much_tools_return_a_request_stays_within_the_context():
    model = ScriptedModel([*(says("", call("look", {"n": n})) for n in range(20)), ends()])
    big = NotingTool("look", lambda _: "x" * 1_000_000)
    result = await run(agent(model, [big], limits=Limits(context=32_000)))
    assert (result.ending, result.rounds) == ("done", 21)
    for messages, _, _ in model.seen:
        assert sum(len(message.text) for message in messages) < 32_000 * 3.5
    newest = [message.text for message in model.seen[-1][0] if isinstance(message, ToolReturn)][-1]
    assert "[truncated: 16000 of 1000026 characters" in newest


@pytest.mark.parametrize("kind", ["auth", "quota", "refused", "network"])
async def test_a_request_that_the_provider_refused_costs_nothing(kind):
    turn = ScriptedTurn(fails=(ModelError("double", kind, "no"),) * 9)
    result = await run(agent([turn], limits=Limits(requests=1), pricing=lambda usage: Decimal(usage.total)))
    assert (result.ending, result.usage.total, result.cost) == ("provider_error", 0, Decimal(0))
