import json
from decimal import Decimal

import pytest

from loops.agent.asking import Patience
from loops.agent.budget import TaskBudget
from loops.agent.elision import ELIDED
from loops.agent.guards import Limits
from loops.agent.journal import MemoryJournal
from loops.agent.model import ModelError
from loops.agent.models.scripted import ScriptedModel
from loops.agent.prices import Price
from loops.agent.tools.finalize import FieldType
from loops.agent.tools.tool import ToolError
from loops.agent.transcript import Assistant, ToolReturn, Usage, User
from loops.errors import NotFound, RunFenced
from tests.unit.agent.working import NotingTool, StepClock, agent, call, ends, run, says


def raising(error: Exception):
    def answer(_arguments):
        raise error

    return answer


def code_of(text: str) -> str:
    code: str = json.loads(text)["error"]["code"]
    return code


def is_valid(messages) -> bool:
    """Every call has exactly one result, right behind the answer that made it."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolReturn):
            if message.call_id not in waiting:
                return False
            waiting.remove(message.call_id)
        elif waiting:
            return False
        elif isinstance(message, Assistant):
            waiting = [one.id for one in message.calls]
    return not waiting


# --- the normal course ---------------------------------------------------------------------------------------------


async def test_an_agent_calls_tools_until_it_finalizes():
    look = NotingTool("look", lambda arguments: {"seen": arguments["what"]})
    model = ScriptedModel([says("I look first.", call("look", {"what": "issue"})), ends("The issue is seen.")])
    result = await run(agent(model, [look]))
    assert (result.ending, result.message, result.fallback, result.guard) == ("done", "The issue is seen.", False, None)
    assert result.rounds == 2
    second = model.seen[1][0]
    assert second[-2] == Assistant("I look first.", result.transcript.rounds[0].reply.calls)
    assert json.loads(second[-1].text) == {"ok": True, "result": {"seen": "issue"}}


async def test_calls_behind_an_accepted_finalize_are_not_executed():
    look = NotingTool("look")
    finalize = call("finalize", {"final_message": "Enough."})
    result = await run(agent([says("", finalize, call("look"))], [look]))
    assert (result.ending, look.keys) == ("done", [])
    assert code_of(result.transcript.rounds[0].results[1].text) == "NOT_RUN"


async def test_ag_11_an_agent_that_has_nothing_to_do_says_why():
    reasoned = says("", call("finalize", {"outcome": "noop", "reason": "The issue is closed."}))
    result = await run(agent([says("", call("finalize", {"outcome": "noop"})), reasoned]))
    assert (result.ending, result.reason, result.message) == ("noop", "The issue is closed.", "The issue is closed.")
    assert code_of(result.transcript.rounds[0].results[0].text) == "FINALIZE_NO_REASON"


async def test_structured_fields_are_asked_for_until_they_are_valid():
    fields: dict[str, FieldType] = {"severity": "string", "count": "number", "urgent": "boolean"}
    good = {"severity": "high", "count": 2, "urgent": False}
    model = ScriptedModel(
        [ends(output={"severity": "high", "count": "2"}), ends(), ends(output=good)],
    )
    result = await run(agent(model, fields=fields))
    assert result.output == good
    first, second = (one.results[0].text for one in result.transcript.rounds[:2])
    assert "output.count: is no number; output.urgent: is missing, a boolean" in first
    assert code_of(second) == "BAD_ARGUMENTS"
    schema = model.seen[0][1][0].parameters["properties"]["output"]
    assert schema["properties"]["urgent"] == {"type": "boolean"}
    assert schema["required"] == ["severity", "count", "urgent"]


# --- guards --------------------------------------------------------------------------------------------------------


async def test_at_the_round_limit_finalize_is_forced_and_its_result_counts():
    model = ScriptedModel([*(says("Still looking.", call("look", {"at": n})) for n in range(3)), ends("Half done.")])
    result = await run(agent(model, [NotingTool("look")], limits=Limits(max_rounds=3)))
    assert (result.ending, result.guard, result.message) == ("done", "max_rounds", "Half done.")
    assert "limit of 3 rounds" in result.reason
    assert [settings.force for _, _, settings in model.seen] == [None, None, None, "finalize"]
    assert "limit of 3 rounds is reached. Call finalize now" in model.seen[3][0][-1].text
    assert model.seen[3][1] == model.seen[0][1], "the tools stay, so that the provider's cache holds"


async def test_ag_01_a_model_that_never_finalizes_fails_at_the_round_limit_with_its_last_text():
    look = NotingTool("look")
    script = [says(f"Looking {n}.", call("look", {"at": n})) for n in range(4)]
    result = await run(agent(script, [look], limits=Limits(max_rounds=3)))
    assert (result.ending, result.message, result.fallback) == ("max_rounds", "Looking 3.", True)
    assert len(look.keys) == 3, "what is called in the forced round is not executed"
    assert code_of(result.transcript.rounds[-1].results[0].text) == "NOT_RUN"
    assert is_valid(result.transcript.messages())


async def test_ag_16_three_rounds_without_a_tool_call_end_with_the_last_text():
    result = await run(agent([says("One."), says("Two."), says("Three."), says("Four.")]))
    assert (result.ending, result.message, result.fallback) == ("no_tool", "Four.", True)
    assert result.rounds == 4
    told = [message.text for message in result.transcript.messages() if isinstance(message, User)]
    assert told[1].startswith("No tool was called")


async def test_any_call_even_a_failing_one_begins_the_streak_anew():
    script = [says("a"), says("b"), says("c", call("broken")), says("d"), says("e"), ends("Fine after all.")]
    result = await run(agent(script, [NotingTool("broken", raising(ToolError("NO", "no")))]))
    assert (result.ending, result.guard) == ("done", None)


async def test_an_empty_reply_is_a_round_without_a_call_and_no_message_of_the_conversation():
    result = await run(agent(ScriptedModel([lambda _m, _t: says(""), ends()])))
    assert (result.ending, result.message, result.rounds) == ("no_tool", "", 4)


async def test_the_same_calls_with_the_same_results_are_nudged_at_two_and_stopped_at_four():
    script = [says(f"Again {n}.", call("look", {"b": 1, "a": 2} if n % 2 else {"a": 2, "b": 1})) for n in range(4)]
    result = await run(agent([*script, says("I give up.")], [NotingTool("look")]))
    assert (result.ending, result.message, result.rounds) == ("stuck", "I give up.", 5)
    notices = [one.notice for one in result.transcript.rounds]
    assert notices[:2] == ["", ""]
    assert "2 times" in notices[2]
    assert notices[3] == ""


async def test_the_same_calls_with_other_results_are_no_standstill():
    answers = iter(range(10))
    look = NotingTool("look", lambda _: next(answers))
    result = await run(agent([*(says("", call("look")) for _ in range(6)), ends()], [look]))
    assert (result.ending, result.rounds) == ("done", 7)


async def test_within_the_reserve_of_the_wall_clock_finalize_is_forced():
    clock = StepClock()

    def slow(_messages, _tools):
        clock.forward(285)
        return says("Took long.", call("look"))

    model = ScriptedModel([slow, ends("As far as I got.")])
    result = await run(agent(model, [NotingTool("look")], clock=clock))
    assert (result.ending, result.guard, result.message) == ("done", "timeout", "As far as I got.")


async def test_ag_16_behind_the_wall_clock_nothing_is_asked_for_any_more():
    clock = StepClock()

    def slow(_messages, _tools):
        clock.forward(301)
        return says("Took too long.", call("look"))

    result = await run(agent([slow, ends()], [NotingTool("look")], clock=clock))
    assert (result.ending, result.message, result.rounds) == ("timeout", "Took too long.", 1)


async def test_ag_02_a_reply_that_is_cut_short_by_content_filter_or_error_is_no_success():
    for finish in ("filtered", "error"):
        result = await run(agent([says("Half", finish=finish)]))
        assert (result.ending, result.fallback) == ("provider_error", True)


# --- budgets -------------------------------------------------------------------------------------------------------

PRICE = Price(Decimal(1), Decimal(10))


async def test_a_budget_is_reserved_before_a_request_and_settled_after_it():
    used = Usage(1_000, 100)
    model = ScriptedModel([says("", call("look"), usage=used), ends()])
    budget = TaskBudget(PRICE, most_tokens=9_000)
    result = await run(agent(model, [NotingTool("look")], budget=budget, pricing=PRICE))
    assert result.guard == "budget", "8,192 tokens of output do not fit beside the 1,100 that were used"
    assert (result.ending, model.seen[1][2].force, model.seen[1][2].max_tokens) == ("done", "finalize", 4_096)


async def test_a_used_up_budget_ends_the_task_with_its_last_text():
    model = ScriptedModel([says("A dear thought.", call("look"), usage=Usage(100_000, 8_000))])
    budget = TaskBudget(PRICE, most_cost=Decimal("0.2"))
    result = await run(agent(model, [NotingTool("look")], budget=budget, pricing=PRICE))
    assert (result.ending, result.message, result.cost) == ("budget", "A dear thought.", Decimal("0.18"))
    assert "$0.2 at most" in result.reason


async def test_a_limit_in_money_without_a_price_refuses_the_first_request():
    model = ScriptedModel([ends()])
    result = await run(agent(model, budget=TaskBudget(lambda _: None, most_cost=Decimal(1))))
    assert (result.ending, model.seen) == ("budget", [])
    assert "no known price" in result.reason


async def test_the_cost_of_a_task_is_unknown_when_one_round_has_no_price():
    result = await run(agent([says("", call("look"), usage=Usage(10, 5, 4)), ends()], [NotingTool("look")]))
    assert result.cost is None
    assert result.usage.cache_read == 4
    assert result.usage.input > 10


# --- what models get wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('""', "BAD_ARGUMENTS"),
        ("[]", "BAD_ARGUMENTS"),
        ('"str"', "BAD_ARGUMENTS"),
        ("", "BAD_ARGUMENTS"),
        ("{}", "BAD_ARGUMENTS"),
        ("null", "BAD_ARGUMENTS"),
        ('{"text": 3}', "BAD_ARGUMENTS"),
        ('{"text": "x", "more": 1}', "BAD_ARGUMENTS"),
        ('{"text": NaN}', "BAD_JSON"),
        ('{"text": -1e999}', "BAD_JSON"),
        ('{"text": "x', "BAD_JSON"),
        ("[" * 100_000, "BAD_JSON"),
    ],
)
async def test_ag_05_arguments_that_do_not_fit_come_back_to_the_model_as_a_structured_error(arguments, code):
    from loops.agent.notes import MemoryNotes
    from loops.agent.tools import Resources

    notes = MemoryNotes()
    script = [says("", call("note_open", arguments)), says("", call("note_open", {"text": "good"})), ends()]
    result = await run(agent(script, resources=Resources(notes=notes)))
    assert result.ending == "done"
    error = json.loads(result.transcript.rounds[0].results[0].text)
    assert (error["ok"], error["error"]["code"]) == (False, code)
    assert error["error"]["hint"]
    assert [note.text for note in await notes.opened()] == ["good"]


async def test_an_object_written_into_a_string_is_taken_out_of_it():
    look = NotingTool("look", lambda arguments: dict(arguments))
    result = await run(agent([says("", call("look", json.dumps('{"at": 1}'))), ends()], [look]))
    assert json.loads(result.transcript.rounds[0].results[0].text)["result"] == {"at": 1}


async def test_ag_04_a_call_cut_at_the_output_limit_is_never_executed_and_asked_for_a_bounded_number_of_times():
    write = NotingTool("write", effect="write")
    cut = says("Writing.", call("write", '{"text": "half'), finish="length")
    model = ScriptedModel([cut] * 10)
    result = await run(agent(model, [write]))
    assert (result.ending, result.message, write.keys) == ("invalid_output", "Writing.", [])
    assert len(model.seen) == 3
    assert "cut at the output limit" in result.reason
    assert "cut at the output limit" in model.seen[1][0][-1].text


async def test_ag_04_a_complete_looking_call_of_a_cut_reply_is_not_executed_either():
    write = NotingTool("write", effect="write")
    result = await run(agent([says("", call("write", '{"text": "ha"}'), finish="length"), ends()], [write]))
    assert (result.ending, write.keys) == ("done", [])


async def test_unknown_tools_are_answered_with_the_ones_that_exist():
    result = await run(agent([says("", call("lok")), ends()], [NotingTool("look")]))
    error = json.loads(result.transcript.rounds[0].results[0].text)["error"]
    assert (error["code"], error["hint"]) == ("UNKNOWN_TOOL", "tools: finalize, look")


async def test_ag_10_finalize_that_is_never_valid_ends_typed_with_what_there_is_of_it():
    half = ends("A report.", output={"severity": "low"})
    result = await run(agent([half] * 5, fields={"severity": "string", "count": "number"}))
    assert (result.ending, result.rounds) == ("invalid_output", 3)
    assert (result.message, result.fallback, result.output) == ("A report.", True, {"severity": "low"})


async def test_ids_that_a_server_sends_twice_or_not_at_all_are_made_unique():
    from loops.agent.transcript import Call, Reply

    class Careless:
        name = "careless"

        async def request(self, messages, tools, settings, on_text):
            if any(isinstance(message, ToolReturn) for message in messages):
                return Reply(calls=(Call("same", "finalize", '{"final_message": "ok"}'),))
            return Reply(calls=(Call("same", "look", "{}"), Call("same", "look", "{}"), Call("", "look", "{}")))

    result = await run(agent(Careless(), [NotingTool("look")]))
    ids = [one.id for each in result.transcript.rounds for one in each.reply.calls]
    assert len(set(ids)) == 4
    assert is_valid(result.transcript.messages())


# --- tools ---------------------------------------------------------------------------------------------------------


async def test_a_tool_that_fails_tells_the_model_and_the_task_goes_on():
    tools = [
        NotingTool("own", raising(ToolError("NO_SUCH_BOOK", "there is no book", "list them"))),
        NotingTool("ours", raising(NotFound("no such issue", hint="look at its number"))),
    ]
    result = await run(agent([says("", call("own"), call("ours")), ends()], tools))
    own, ours = (json.loads(one.text)["error"] for one in result.transcript.rounds[0].results)
    assert own == {"code": "NO_SUCH_BOOK", "message": "there is no book", "hint": "list them"}
    assert ours["code"] == "store.not_found"
    assert result.ending == "done"


async def test_a_fault_in_a_tool_and_a_fatal_error_end_the_task():
    for error, words in (
        (ZeroDivisionError("by zero"), "ZeroDivisionError"),
        (ToolError("X", "gone", fatal=True), "gone"),
    ):
        result = await run(
            agent(
                [says("Trying.", call("bad"), call("look")), ends()],
                [NotingTool("bad", raising(error), "write"), NotingTool("look")],
            )
        )
        assert (result.ending, result.message) == ("tool_error", "Trying.")
        assert words in result.reason
        assert code_of(result.transcript.rounds[0].results[1].text) == "NOT_RUN"


async def test_a_fence_is_never_swallowed():
    for effect in ("read", "write"):
        with pytest.raises(RunFenced):
            await run(
                agent([says("", call("bad")), ends()], [NotingTool("bad", raising(RunFenced("taken over")), effect)])
            )


async def test_ag_08_a_large_result_is_cut_with_a_marker_and_the_task_goes_on():
    result = await run(agent([says("", call("look")), ends()], [NotingTool("look", lambda _: "x" * 1_000_000)]))
    text = result.transcript.rounds[0].results[0].text
    assert len(text) < 16_200
    assert text.endswith("[truncated: 16000 of 1000026 characters; ask for less, or for a later piece]")
    assert result.ending == "done"


async def test_results_that_no_database_takes_are_made_storable():
    look = NotingTool("look", lambda arguments: {"it": arguments["it"], "more": "\x00\ud800"})
    result = await run(agent([says("\ud800", call("look", '{"it": "\\u0000"}')), ends()], [look]))
    one = result.transcript.rounds[0]
    assert json.loads(one.results[0].text)["result"] == {"it": "\ufffd", "more": "\ufffd\ufffd"}
    assert one.reply.text == "\ufffd"


async def test_reading_tools_run_beside_each_other_and_writing_ones_in_order():
    order: list[str] = []
    tools = [
        NotingTool("read_a", pause=0.05, order=order),
        NotingTool("read_b", pause=0.02, order=order),
        NotingTool("write_a", effect="write", pause=0.02, order=order),
        NotingTool("write_b", effect="write", order=order),
    ]
    calls = [call(name) for name in ("read_a", "read_b", "write_a", "write_b", "read_b")]
    await run(agent([says("", *calls), ends()], tools))
    assert order == [
        "read_a begins",
        "read_b begins",
        "read_b ends",
        "read_a ends",
        "write_a begins",
        "write_a ends",
        "write_b begins",
        "write_b ends",
        "read_b begins",
        "read_b ends",
    ]


async def test_a_tool_that_takes_too_long_is_stopped_and_the_model_told():
    slow = NotingTool("slow", pause=5, effect="write")
    result = await run(agent([says("", call("slow")), ends()], [slow], limits=Limits(tool_timeout=0.02)))
    error = json.loads(result.transcript.rounds[0].results[0].text)["error"]
    assert (error["code"], result.ending, slow.cancelled) == ("TIMEOUT", "done", True)
    assert "may have taken effect" in error["message"]


async def test_calls_beyond_the_most_of_a_round_are_refused():
    look = NotingTool("look")
    result = await run(agent([says("", *[call("look")] * 40), ends()], [look]))
    assert len(look.keys) == 32
    assert code_of(result.transcript.rounds[0].results[32].text) == "TOO_MANY_CALLS"


# --- providers -----------------------------------------------------------------------------------------------------


def fault(kind, **more) -> ModelError:
    return ModelError("openai", kind, "it failed", **more)


async def test_what_another_try_may_mend_is_tried_again():
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    turn = ends(fails=(fault("rate_limit", status=429, retry_after=7.0), fault("network"), fault("server", status=500)))
    result = await run(agent([turn], patience=Patience(sleep=sleep, jitter=lambda: 1.0)))
    assert (result.ending, waits) == ("done", [7.0, 1.0, 2.0])
    assert result.transcript.rounds[0].requests == 4


@pytest.mark.parametrize("kind", ["auth", "quota", "refused", "filtered"])
async def test_what_no_try_mends_fails_at_once(kind):
    model = ScriptedModel([ends(fails=(fault(kind),))])
    result = await run(agent(model))
    assert (result.ending, result.reason, len(model.seen)) == ("provider_error", "openai: it failed", 1)


async def test_tries_are_bounded():
    model = ScriptedModel([ends(fails=(fault("server"),) * 9)])
    assert (await run(agent(model))).ending == "provider_error"
    assert len(model.seen) == 5


async def test_a_wait_longer_than_the_time_that_is_left_is_not_begun():
    model = ScriptedModel([ends(fails=(fault("rate_limit", status=429, retry_after=3600.0),))])
    result = await run(agent(model, patience=Patience()))
    assert (result.ending, len(model.seen)) == ("provider_error", 1)
    assert "another try would be in 3600 s" in result.reason


async def test_a_conversation_that_is_too_long_is_asked_for_once_more_without_older_results():
    model = ScriptedModel(
        [says("", call("look")), says("", call("look", {"n": 2})), ends(fails=(fault("context_overflow"),))],
    )
    result = await run(agent(model, [NotingTool("look", lambda _: "x" * 5_000)]))
    assert result.ending == "done"
    texts = [message.text for message in model.seen[-1][0] if isinstance(message, ToolReturn)]
    assert texts == [ELIDED, ELIDED]
    assert is_valid(model.seen[-1][0])


async def test_a_conversation_that_stays_too_long_fails_typed():
    model = ScriptedModel([says("Looked.", call("look")), ends(fails=(fault("context_overflow"),) * 5)])
    result = await run(agent(model, [NotingTool("look", lambda _: "x" * 5_000)]))
    assert (result.ending, result.message, len(model.seen)) == ("provider_error", "Looked.", 3)


async def test_older_results_leave_a_conversation_that_grows_and_the_newest_stay():
    script = [says("", call("look", {"n": n})) for n in range(4)]
    model = ScriptedModel([*script, ends()])
    result = await run(agent(model, [NotingTool("look", lambda _: "x" * 7_000)], limits=Limits(context=10_000)))
    last = [message.text for message in model.seen[-1][0] if isinstance(message, ToolReturn)]
    assert last[:3] == [ELIDED] * 3
    assert "xxx" in last[3]
    assert result.transcript.rounds[-1].elided


async def test_a_journal_that_cannot_keep_a_round_stops_the_agent_before_the_next():
    class Broken(MemoryJournal):
        async def finished(self, one):
            raise OSError("disk is full")

    model = ScriptedModel([says("", call("look")), ends()])
    with pytest.raises(OSError, match="disk is full"):
        await run(agent(model, [NotingTool("look")], journal=Broken()))
    assert len(model.seen) == 1
