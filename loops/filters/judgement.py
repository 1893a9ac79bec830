"""Conditions that are Hog expressions, and conditions that are saved groups of persons."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from loops.errors import Fault, FilterError, TemplateError
from loops.event import Event, JsonValue
from loops.expressions import Expression, compile_expression
from loops.expressions.coercion import truthy
from loops.filters.comparison import NO_VARIABLES, Comparison, Condition, Predicate, Variables, all_hold, note_on
from loops.filters.project import ProjectFilters
from loops.filters.scope import EVENT_ROOTS, VARIABLES, FilterScope

_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """A Hog expression that must come to true. `strict` asks for true itself, where else 1 and "yes" are as good.

    One that cannot be evaluated for an event fails there, and says why.
    """

    key: str
    expression: Expression
    project: ProjectFilters
    strict: bool = False
    exact: frozenset[str] | None = None

    def alone(self) -> "Judgement":
        """The same as the only condition of a filter: what PostHog takes for a match is then true alone."""
        return replace(self, strict=True)

    def test(self, event: Event, variables: Variables = NO_VARIABLES, /) -> bool:
        """Whether it came to true."""
        return self._outcome(event, variables).passed

    def compared(self, event: Event, variables: Variables = NO_VARIABLES) -> tuple[Comparison, ...]:
        """The one comparison that this is."""
        return (self._outcome(event, variables),)

    def _outcome(self, event: Event, variables: Variables) -> Comparison:
        try:
            value = self.expression.evaluate(FilterScope(event, variables, self.project))
        except TemplateError as error:
            fault = error.faults[0]
            told = f"{fault.message} ({fault.hint})" if fault.hint else fault.message
            return Comparison(self.key, "exact", True, None, passed=False, error=told)
        passed = value is True if self.strict else truthy(value)
        return Comparison(self.key, "exact", True, value, passed, note=note_on(self.key, event))


def judgement(source: str, project: ProjectFilters, path: str, *, with_variables: bool) -> Judgement:
    """The condition that an expression is. Raises FilterError with what is wrong with it."""
    try:
        return _judgement(source, project, with_variables)
    except TemplateError as error:
        if _SELECT.search(source):
            hint = "compare what the event has, such as properties.plan = 'pro'"
            raise FilterError([Fault(path, "queries are not allowed in a filter: it sees one event", hint)]) from None
        hint = "write what must be true, such as properties.amount > 100"
        raise FilterError([Fault(path, one.message, one.hint or hint) for one in error.faults]) from None


@lru_cache(maxsize=1024)
def _judgement(source: str, project: ProjectFilters, with_variables: bool) -> Judgement:
    roots = EVENT_ROOTS | {VARIABLES} if with_variables else EVENT_ROOTS
    return Judgement(source, compile_expression(source, allowed_roots=roots), project)


def membership(name: JsonValue, members: tuple[Condition, ...], *, negated: bool) -> Predicate:
    """Whether the person of an event fits what a saved cohort asks for, or, `negated`, does not."""

    def is_member(event: Event, _variables: Variables = NO_VARIABLES, /) -> bool:
        return all_hold(members, event)

    def read(event: Event, _variables: Variables = NO_VARIABLES, /) -> JsonValue:
        return name if is_member(event) else None

    test: Callable[..., bool] = is_member
    if negated:
        test = lambda event, _variables=NO_VARIABLES, /: not is_member(event)  # noqa: E731
    return Predicate("cohort", "not_in" if negated else "in", name, test, read)
