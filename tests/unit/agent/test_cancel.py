import asyncio
import json
from collections.abc import Callable
from functools import partial

import pytest

from loops.agent.guards import Limits
from loops.agent.interruption import Abort, Expired
from loops.agent.journal import MemoryJournal
from loops.agent.models.scripted import ScriptedModel
from loops.agent.transcript import Transcript
from loops.clock import SystemClock
from tests.unit.agent.test_loop import code_of, is_valid
from tests.unit.agent.working import NotingTool, agent, call, ends, run, says


async def once(holds: Callable[[], object]) -> None:
    """Wait until it holds."""
    while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.005)


def _is_stuck_at(stopped: NotingTool, quick: NotingTool) -> bool:
    return bool(stopped.keys) and len(quick.order) == 2


async def asked(abort: Abort, holds: Callable[[], object]) -> None:
    await once(holds)
    abort.ask()


async def test_ag_16_a_cancel_before_the_first_round_asks_no_model():
    abort = Abort()
    abort.ask()
    model = ScriptedModel([ends()])
    result = await run(agent(model), abort=abort)
    assert (result.ending, result.message, model.seen) == ("cancelled", "", [])


async def test_ag_16_a_cancel_stops_the_request_and_injects_nothing():
    abort, journal = Abort(), MemoryJournal()
    model = ScriptedModel([says("A thought.", call("look")), says("Never said.", pause=30)])
    working = agent(model, [NotingTool("look")], journal=journal)
    asking = asked(abort, lambda: len(model.seen) == 2)
    result, _ = await asyncio.wait_for(asyncio.gather(run(working, abort=abort), asking), 5)
    assert (result.ending, result.message, result.fallback) == ("cancelled", "", False)
    assert [one.reply.finish for one in journal.rounds.values()] == ["tool_calls", "cancelled"]
    assert is_valid(result.transcript.messages())


async def test_ag_12_a_cancel_stops_tools_and_every_call_keeps_a_result():
    abort = Abort()
    tools = [
        NotingTool("quick"),
        NotingTool("slow", pause=30),
        NotingTool("write", effect="write", pause=30),
        NotingTool("later", effect="write"),
    ]
    for calls, codes in (
        (["quick", "slow", "later"], ["", "CANCELLED", "NOT_RUN"]),
        (["quick", "write", "later"], ["", "CANCELLED", "NOT_RUN"]),
    ):
        abort = Abort()
        script = [says("", *map(call, calls)), ends()]
        quick, stopped = tools[0], tools[1 if "slow" in calls else 2]
        quick.order.clear()
        asking = asked(abort, partial(_is_stuck_at, stopped, quick))
        result, _ = await asyncio.wait_for(asyncio.gather(run(agent(script, tools), abort=abort), asking), 5)
        assert result.ending == "cancelled"
        assert [one.code for one in result.transcript.rounds[0].results] == codes
        assert is_valid(result.transcript.messages())
    assert [tool.cancelled for tool in tools] == [False, True, True, False]
    assert "may have taken effect" in result.transcript.rounds[0].results[1].text


async def test_a_cancel_in_the_round_that_finalizes_still_cancels():
    abort = Abort()

    def asks(_arguments):
        abort.ask()
        return "asked"

    finalize = call("finalize", {"final_message": "Done."})
    result = await run(agent([says("", call("look"), finalize)], [NotingTool("look", asks)]), abort=abort)
    assert (result.ending, result.message) == ("cancelled", "")


async def test_a_stopping_process_takes_the_work_with_it_and_journals_no_half_round():
    journal = MemoryJournal()
    slow = NotingTool("slow", pause=30)
    task = asyncio.ensure_future(run(agent([says("", call("slow")), ends()], [slow], journal=journal)))
    await once(lambda: slow.keys)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (slow.cancelled, journal.rounds) == (True, {})


async def test_the_wall_clock_acts_inside_a_request_and_keeps_what_was_said():
    def speaks(_messages, _tools):
        return says("Never said.", pause=30)

    limits = Limits(wall_clock=0.3, reserve=0.2)
    model = ScriptedModel([says("First.", call("look")), speaks, ends("Quickly told.")])
    # The round that was cut brought no message, so the next request is the script's second turn again.
    result = await asyncio.wait_for(run(agent(model, [NotingTool("look")], limits=limits, clock=SystemClock())), 3)
    assert (result.ending, result.message, result.fallback) == ("timeout", "First.", True)
    assert [one.reply.finish for one in result.transcript.rounds] == ["tool_calls", "expired", "expired"]
    assert [settings.force for _, _, settings in model.seen] == [None, None, "finalize"]


async def test_the_wall_clock_acts_inside_tools_and_leaves_time_to_finalize():
    limits = Limits(wall_clock=0.4)
    slow = NotingTool("slow", pause=30)
    script = [says("", call("slow")), ends("As far as I got.")]
    result = await asyncio.wait_for(run(agent(script, [slow], limits=limits, clock=SystemClock())), 3)
    assert (result.ending, result.guard, result.message) == ("done", "timeout", "As far as I got.")
    assert code_of(result.transcript.rounds[0].results[0].text) == "TIMEOUT"


async def test_work_within_a_time_is_over_before_anybody_is_told():
    ended = False

    async def cleans_up() -> None:
        nonlocal ended
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.02)
            ended = True

    with pytest.raises(Expired):
        await Abort().within(cleans_up(), 0.01)
    assert ended


# --- resuming ------------------------------------------------------------------------------------------------------


class Killed(Exception):
    pass


class KillingJournal(MemoryJournal):
    """Dies after keeping its n-th entry."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    async def replied(self, one):
        await super().replied(one)
        self._count()

    async def finished(self, one):
        await super().finished(one)
        self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def keyed(written: dict[str, str], asked: list[str]) -> NotingTool:
    class Keyed(NotingTool):
        async def call(self, arguments, context):
            asked.append(context.key)
            return written.setdefault(context.key, arguments["text"])

    return Keyed("write", effect="keyed_write")


SCRIPT = [
    says("", call("look")),
    says("", call("write", {"text": "a"}), call("write", {"text": "b"})),
    says("", call("look"), call("write", {"text": "c"})),
    ends("All written."),
]


@pytest.mark.parametrize("after", range(1, 7))
async def test_killed_at_any_entry_of_the_journal_it_goes_on_without_repeating_a_round(after):
    written: dict[str, str] = {}
    asked: list[str] = []
    journal = KillingJournal(after)
    model = ScriptedModel(SCRIPT)
    with pytest.raises(Killed):
        await run(agent(model, [NotingTool("look"), keyed(written, asked)], journal=journal))
    stored = json.loads(json.dumps([one.as_json() for _, one in sorted(journal.rounds.items())]))
    transcript = Transcript.from_json({"system": "You work.", "opening": "Do it.", "rounds": stored})
    again = MemoryJournal()
    resumed = ScriptedModel(SCRIPT)
    result = await run(agent(resumed, [NotingTool("look"), keyed(written, asked)], journal=again), transcript)
    assert (result.ending, result.message, result.rounds) == ("done", "All written.", 4)
    assert written == {"task-1:2:0": "a", "task-1:2:1": "b", "task-1:3:1": "c"}
    assert len(model.seen) + len(resumed.seen) == 4, "no answer is asked for twice"
    assert is_valid(result.transcript.messages())


async def test_a_writer_without_a_key_is_never_called_again_after_a_crash():
    post = NotingTool("post", effect="write")
    journal = KillingJournal(1)
    script = [says("", call("post")), ends("Told.")]
    with pytest.raises(Killed):
        await run(agent(script, [post], journal=journal))
    transcript = Transcript("You work.", "Do it.", tuple(journal.rounds.values()))
    result = await run(agent(script, [post]), transcript)
    assert (result.ending, post.keys) == ("done", [])
    assert code_of(result.transcript.rounds[0].results[0].text) == "UNCERTAIN"


async def test_the_guards_and_the_clock_count_what_was_before_the_crash():
    first = await run(agent([says("One."), says("Two."), says("Three."), says("Four.")]))
    before = Transcript("You work.", "Do it.", first.transcript.rounds[:2])
    model = ScriptedModel([says("One."), says("Two."), says("Three."), ends("Forced.")])
    result = await run(agent(model), before)
    assert (result.guard, len(model.seen)) == ("no_tool", 2)


async def test_a_task_that_ended_before_the_crash_ends_again_without_a_request():
    first = await run(agent([ends("Done.")]))
    model = ScriptedModel([])
    again = await run(agent(model), first.transcript)
    assert (again.ending, again.message, model.seen) == ("done", "Done.", [])
