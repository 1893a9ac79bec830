"""Liquid, by python-liquid, with limits on everything a template can do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TextIO

from liquid import BoundTemplate, Environment, RenderContext, Token
from liquid.builtin.expressions import StringLiteral
from liquid.builtin.output import Output, OutputNode
from liquid.builtin.tags.echo_tag import EchoTag
from liquid.exceptions import LiquidError

from loops.errors import TemplateError
from loops.expressions.evaluation import CLOCK, MAX_OUTPUT, Evaluation, size
from loops.expressions.faults import fault, refusal
from loops.expressions.liquid_filters import guarded, install
from loops.expressions.liquid_values import JsonList, printed, spelled, wrapped
from loops.expressions.notation import moment_text

MAX_SOURCE = 200_000
"""Characters from which on a template is refused."""

_OPENER = re.compile(r"\{\{|\{%")
_VERBATIM = re.compile(r"\{%-?\s*(raw|doc)\s*-?%\}")
_ENTITY = re.compile(r"&(?:lt|gt|quot|#x27|amp);")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&"}
_CLOCK_NAMES = frozenset({"now", "today"})
# What a filter or tag may fail with on a value that it was not made for.
_FAILURES = (LiquidError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class LiquidTemplate:
    """A parsed template; `paths` are what it reads of a scope, list indexes counted from 0."""

    paths: frozenset[tuple[str | int, ...]]
    _template: "_Bound"

    @property
    def roots(self) -> frozenset[str]:
        return frozenset(str(path[0]) for path in self.paths)

    @classmethod
    def compile(cls, source: str, *, html: bool) -> "LiquidTemplate":
        """Parse a template; with `html`, what it puts in is escaped once. Raises TemplateError."""
        if len(source) >= MAX_SOURCE:
            raise fault(f"the template has {len(source):,} characters, over the limit of {MAX_SOURCE - 1:,}")
        decoded, markup = _decoded(source)
        try:
            template = _environment(html).from_string(decoded)
            assert isinstance(template, _Bound)
            template.work = markup
            _unmark_literals(template)
            return cls(_paths(template), template)
        except LiquidError as error:
            raise _refused(decoded, error) from error
        except RecursionError as error:
            raise fault("the template is nested too deeply") from error

    def render(self, scope: Mapping[str, object]) -> str:
        """The text for these values. Raises TemplateError."""
        evaluation = Evaluation(scope)
        names = {key: value for key, value in scope.items() if key != CLOCK}
        now = evaluation.now()
        names.setdefault("now", moment_text(now))
        names.setdefault("today", now.date().isoformat())
        try:
            return self._template.render_with(names, evaluation)
        except _FAILURES as error:
            raise _failed(error) from error


class _Bound(BoundTemplate):
    """A template that knows how much markup it has, which is what one turn of a loop may cost."""

    work = 0

    def render_with(self, names: Mapping[str, object], evaluation: Evaluation) -> str:
        context = _Context(self, globals=self.make_globals(names))
        context.evaluation = evaluation
        buffer = self._get_buffer()
        self.render_with_context(context, buffer)
        return buffer.getvalue()


class _Context(RenderContext):
    """A render that counts its work and wraps what it reads."""

    __slots__ = ("evaluation",)

    evaluation: Evaluation
    template: _Bound

    def get(self, path: list[object], *, token: Token | None, **options: object) -> object:
        value = super().get(path, token=token, **options)  # type: ignore[arg-type]  # only `default`, handed on
        return wrapped(value, self.evaluation, str(path[0]))

    def assign(self, key: str, val: object) -> None:
        self.evaluation.spend(size(val))
        self.locals[key] = val

    def filter(self, name: str, token: Token | None):  # noqa: A003, ANN201
        return guarded(name, super().filter(name, token), self.evaluation)

    def raise_for_loop_limit(self, length: int = 1) -> None:
        # Counted as each loop is entered, so that loops after and in each other share one allowance.
        self.evaluation.spend(length * (10 + self.template.work))
        super().raise_for_loop_limit(length)
