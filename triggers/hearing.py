"""Who hears an event: by its repository's present name, and by the names that the repository had before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loops.event import Event
from loops.filters import Comparison, Filter
from loops.filters.comparison import NO_VARIABLES, Variables
from triggers.matcher import Index, Listener, Matches, explain
from triggers.properties import amended
from triggers.verdict import Verdict


@dataclass(frozen=True, slots=True)
class FormerNameFilter(Filter):
    """A filter that sees the repository under a name that it had before, and says so."""

    former: str = ""

    def matches(self, event: Event, variables: Variables = NO_VARIABLES) -> bool:
        return Filter.matches(self, _renamed(event, self.former), variables)

    def explain(self, event: Event, variables: Variables = NO_VARIABLES) -> tuple[Comparison, ...]:
        note = f"the repository was renamed: {self.former} is called {event.properties.get('repository')} now"
        compared = Filter.explain(self, _renamed(event, self.former), variables)
        return tuple(replace(one, note=note) if one.key == "repository" else one for one in compared)


def hear(index: Index, project_id: str, event: Event, former: Sequence[str] = ()) -> Matches:
    """Everyone in the project who wants the event, and who nearly does."""
    matches = index.match(project_id, event)
    for name in former:
        known = {listener.key for listener in matches.passed}
        again = index.match(project_id, _renamed(event, name)).passed
        new = tuple(_under(listener, name) for listener in again if listener.key not in known)
        passed = (*matches.passed, *new)
        known = {listener.key for listener in passed}
        missed = tuple(listener for listener in matches.missed if listener.key not in known)
        matches = Matches(event, passed, (missed,) if missed else ())
    return matches


def turns_on_access(index: Index, project_id: str, event: Event, former: Sequence[str] = ()) -> bool:
    """Whether some loop wants the event with one `actor_access` and not with the other: with all else decided, it is
    worth asking for. Holds for whatever way a filter asks: groups, negations, expressions."""
    heard = [
        {listener.key for listener in hear(index, project_id, amended(event, {"actor_access": value}), former).passed}
        for value in ("write", "read")
    ]
    return heard[0] != heard[1]


def explain_heard(listener: Listener, project_id: str, event: Event, former: Sequence[str]) -> Verdict:
    """Why a loop starts or does not start on an event, under any of its repository's names."""
    verdict = explain(listener, project_id, event)
    for name in former:
        if verdict.passed:
            break
        again = explain(_under(listener, name), project_id, event)
        verdict = again if again.passed else verdict
    return verdict.noted()


def _renamed(event: Event, name: str) -> Event:
    return amended(event, {"repository": name})


def _under(listener: Listener, name: str) -> Listener:
    wanted = listener.filter
    return replace(
        listener,
        filter=FormerNameFilter(wanted.event_names, wanted.predicates, wanted.exact, wanted.alternatives, name),
    )
