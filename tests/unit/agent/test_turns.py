"""An agent that is set to work again, and people who speak to it meanwhile."""

from dataclasses import dataclass, field, replace

from loops.agent.guards import Limits
from loops.agent.inbox import Heard
from loops.agent.journal import MemoryJournal
from loops.agent.models.scripted import ScriptedModel
from loops.agent.transcript import Round, Transcript, User
from tests.unit.agent.working import NotingTool, StepClock, agent, call, ends, run, says


@dataclass
class Letters:
    """Hands out one letter a round, again and again until a round that tells of it was kept."""

    journal: MemoryJournal
    letters: dict[str, str]
    asked: int = 0

    async def heard(self) -> Heard:
        self.asked += 1
        told = {key for one in self.journal.rounds.values() for key in one.heard}
        left = [key for key in self.letters if key not in told]
        return Heard(self.letters[left[0]], (left[0],)) if left else Heard()


@dataclass
class Post:
    """A journal and the letters that it knows."""

    letters: dict[str, str] = field(default_factory=dict)
    journal: MemoryJournal = field(default_factory=MemoryJournal)

    @property
    def inbox(self) -> Letters:
        return Letters(self.journal, self.letters)

    def rounds(self) -> tuple[Round, ...]:
        return tuple(self.journal.rounds[number] for number in sorted(self.journal.rounds))


LOOK = NotingTool("look")


async def test_another_turn_goes_on_from_the_rounds_before_it_with_a_clock_and_rounds_of_its_own() -> None:
    script = [says("One.", call("look")), ends("First."), says("Two.", call("look")), ends("Second.")]
    model, post = ScriptedModel(script), Post()
    limits, clock = Limits(max_rounds=2, wall_clock=100), StepClock(step=10)
    first = await run(agent(model, [LOOK], journal=post.journal, limits=limits, clock=clock))
    assert (first.ending, first.message, first.rounds) == ("done", "First.", 2)
    post.letters["a"] = "And then?"
    again = agent(model, [LOOK], journal=post.journal, limits=limits, clock=clock, inbox=post.inbox)
    second = await run(again, replace(first.transcript, turn=2))
    assert (second.ending, second.message, second.rounds) == ("done", "Second.", 4)
    assert [(one.number, one.turn, one.said) for one in post.rounds()] == [
        (1, 1, ""),
        (2, 1, ""),
        (3, 2, "And then?"),
        (4, 2, ""),
    ]
    asked = model.seen[2][0]
    assert asked[-1] == User("And then?")
    assert model.seen[3][0][: len(asked)] == asked  # what was told stays where it was


async def test_a_turn_that_was_killed_goes_on_and_hears_nothing_twice() -> None:
    script = [ends("First."), says("Two.", call("look")), ends("Second.")]
    model, post = ScriptedModel(script), Post({"a": "And then?"})
    first = await run(agent(model, [LOOK], journal=post.journal))
    post.letters["b"] = "Hurry."
    inbox = post.inbox
    whole = await run(agent(model, [LOOK], journal=post.journal, inbox=inbox), replace(first.transcript, turn=2))
    assert [one.heard for one in post.rounds()] == [(), ("a",), ("b",)]
    # As if the process had died after the first round of the turn.
    kept = post.rounds()[:2]
    post.journal.rounds = {one.number: one for one in kept}
    taken_up = Transcript("You work.", "Do it.", tuple(map(Round.from_json, [one.as_json() for one in kept])), 2)
    result = await run(agent(model, [LOOK], journal=post.journal, inbox=post.inbox), taken_up)
    assert (result.message, result.rounds) == (whole.message, whole.rounds)
    assert [one.heard for one in post.rounds()] == [(), ("a",), ("b",)]


async def test_who_speaks_before_the_forced_end_is_heard_in_the_next_turn() -> None:
    post = Post({"a": "One.", "b": "Two."})
    limits = Limits(max_rounds=1)
    model = ScriptedModel([says("Look.", call("look")), ends("Forced.")])
    result = await run(agent(model, [LOOK], journal=post.journal, limits=limits, inbox=post.inbox))
    assert (result.ending, result.guard) == ("done", "max_rounds")
    assert [one.heard for one in post.rounds()] == [("a",), ()]


async def test_a_round_of_an_earlier_release_belongs_to_the_first_turn() -> None:
    post = Post()
    await run(agent([ends("First.")], journal=post.journal))
    stored = post.rounds()[0].as_json()
    for name in ("turn", "said", "heard"):
        del stored[name]
    assert Round.from_json(stored) == post.rounds()[0]
