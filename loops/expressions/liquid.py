"""Liquid, by python-liquid, with limits on everything a template can do."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import takewhile
from typing import TextIO, cast

from liquid import BoundTemplate, Environment, RenderContext, Token
from liquid.builtin.expressions import StringLiteral
from liquid.builtin.expressions.logical import ContainsExpression, _contains
from liquid.builtin.output import Output, OutputNode
from liquid.builtin.tags.echo_tag import EchoTag
from liquid.exceptions import LiquidError
from liquid.static_analysis import TemplateAnalysis
from liquid.stringify import to_liquid_string

from config.closest import closest
from loops.errors import Fault, TemplateError
from loops.expressions.evaluation import CLOCK, Evaluation, check_length, size
from loops.expressions.faults import fault, refusal
from loops.expressions.liquid_filters import extent, guarded, install
from loops.expressions.liquid_values import spelled, wrapped
from loops.expressions.notation import moment_text
from loops.expressions.quoting import escaped, quoted

MAX_SOURCE = 200_000
"""Characters from which on a template is refused."""

_OPENER = re.compile(r"\{\{|\{%")
_VERBATIM = re.compile(r"\{%-?\s*(raw|doc)\s*-?%\}")
_ENTITY = re.compile(r"&(?:lt|gt|quot|#x27|amp);")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&"}
_CLOCK_NAMES = frozenset({"now", "today"})
# What a filter or tag may fail with on a value that it was not made for.
_FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class LiquidTemplate:
    """A parsed template; `paths` are what it reads of a scope, list indexes counted from 0."""

    paths: frozenset[tuple[str | int, ...]]
    _template: "_Bound"

    @property
    def roots(self) -> frozenset[str]:
        return frozenset(str(path[0]) for path in self.paths)

    @classmethod
    def compile(cls, source: str, *, html: bool, quoting: bool = False) -> "LiquidTemplate":
        """Parse a template; with `html`, what it puts in is escaped once, with `quoting` it is made JSON. Raises
        TemplateError."""
        if len(source) >= MAX_SOURCE:
            raise fault(f"the template has {len(source):,} characters, over the limit of {MAX_SOURCE - 1:,}")
        decoded, markup = _decoded(source)
        try:
            template = cast("_Bound", _environment(html, quoting).from_string(decoded))
            template.work = markup
            _adjust(template)
            analysis = template.analyze()
        except LiquidError as error:
            raise _refused(error) from error
        except RecursionError as error:
            raise fault("the template is nested too deeply") from error
        _check_filters(decoded, analysis)
        return cls(_paths(analysis), template)

    def render(self, scope: Mapping[str, object]) -> str:
        """The text for these values. Raises TemplateError."""
        evaluation = Evaluation(scope)
        names = {key: value for key, value in scope.items() if key != CLOCK}
        now = evaluation.now()
        names.setdefault("now", moment_text(now))
        names.setdefault("today", now.date().isoformat())
        try:
            return self._template.render_with(names, evaluation)
        except LiquidError as error:
            raise _refused(error) from error
        except RecursionError as error:
            raise fault("a value is nested too deeply for this template") from error
        except _FAILURES as error:
            raise fault(f"a value does not fit here: {str(error)[:200]}") from error


class _Buffer(StringIO):
    """Output of limited length. The library's own would also turn CR into LF, and count bytes."""

    def __init__(self, used: int) -> None:
        super().__init__(newline="")
        self.used = used

    def write(self, text: str) -> int:
        self.used += len(text)
        check_length(self.used)
        return super().write(text)


class _Bound(BoundTemplate):
    """A template that knows how much markup it has, which is what one turn of a loop may cost."""

    work = 0

    def render_with(self, names: Mapping[str, object], evaluation: Evaluation) -> str:
        context = _Context(self, globals=self.make_globals(names))
        context.evaluation = evaluation
        buffer = context.get_buffer()
        self.render_with_context(context, buffer)
        return buffer.getvalue()


class _Context(RenderContext):
    """A render that counts its work and wraps what it reads."""

    __slots__ = ("evaluation",)

    evaluation: Evaluation
    template: _Bound

    def get(self, path: list[object], *, token: Token | None, **options: object) -> object:
        value = super().get(path, token=token, **options)
        self.evaluation.spend(_reading(value))
        return wrapped(value, self.evaluation, str(path[0]))

    def assign(self, key: str, val: object) -> None:
        self.evaluation.spend(size(val))
        self.locals[key] = val

    def filter(self, name: str, token: Token | None) -> Callable[..., object]:
        return guarded(name, super().filter(name, token), self.evaluation)

    def get_buffer(self, buf: TextIO | None = None) -> StringIO:
        return _Buffer(buf.used if isinstance(buf, _Buffer) else 0)

    def raise_for_loop_limit(self, length: int = 1) -> None:
        # Counted as each loop is entered, so that loops after and in each other share one allowance.
        self.evaluation.spend(length * (20 + 2 * self.template.work))
        super().raise_for_loop_limit(length)


def _reading(value: object) -> int:
    """What comparing or searching the value costs, counted as it is read; lists and maps count that themselves."""
    return len(value) // 4 if isinstance(value, str) else 1


_Bound.context_class = _Context


class _Environment(Environment):
    """What templates are parsed in."""

    template_class = _Bound
    loop_iteration_limit = 100_000
    context_depth_limit = 30
    block_nesting_limit = 30
    suppress_blank_control_flow_blocks = False
    quoting = False


@cache
def _environment(html: bool, quoting: bool = False) -> _Environment:
    environment = _Environment(autoescape=html)
    environment.quoting = quoting
    install(environment)
    environment.add_tag(_Output)
    environment.add_tag(_Echo)
    for tag in ("include", "render"):
        del environment.tags[tag]
    return environment


class _OutputNode(OutputNode):
    """Prints lists as JSON, where the library would string their items together; and any text as JSON where it is to
    stand inside an instruction."""

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        value = self.expression.evaluate(context)
        if isinstance(value, (list, float)):
            value = str(spelled(value))
        quoting = cast("_Environment", context.env).quoting
        if quoting and not isinstance(value, (bool, int)):
            text = to_liquid_string(value, autoescape=False)
            return buffer.write(escaped(text) if not text or isinstance(value, (list, dict)) else quoted(text))
        return buffer.write(to_liquid_string(value, context.autoescape))


class _Output(Output):
    node_class = _OutputNode


class _Echo(EchoTag):
    node_class = _OutputNode  # type: ignore[assignment]  # all that EchoNode adds is how it prints itself


class _PlainLiteral(StringLiteral):
    """A text of the template that is escaped like any other, not trusted as markup."""

    __slots__ = ()

    def evaluate(self, _: RenderContext) -> str:
        return self.value


class _CountedContains(ContainsExpression):
    """`contains`, which looks at each number of a range."""

    __slots__ = ()

    def evaluate(self, context: RenderContext) -> object:
        searched = self.left.evaluate(context)
        if isinstance(searched, range) and isinstance(context, _Context):
            context.evaluation.spend(extent(searched))
        # Not by super(), which would evaluate the left side again.
        return _contains(self.token, searched, self.right.evaluate(context))


def _adjust(template: _Bound) -> None:
    """Make texts of the template plain and `contains` count its work.

    Editors write entities inside tags, which are decoded, so what a literal prints has to be encoded again.

    The library makes its literals in module functions, which leaves only to change their class afterwards; one that
    was overlooked would be trusted, as the library trusts them all.
    """
    context = RenderContext(template)
    nodes = list(template.nodes)
    while nodes:
        node = nodes.pop()
        nodes.extend(node.children(context))
        expressions = list(node.expressions())
        while expressions:
            expression = expressions.pop()
            if type(expression) is StringLiteral:
                expression.__class__ = _PlainLiteral
            elif type(expression) is ContainsExpression:
                expression.__class__ = _CountedContains
            expressions.extend(expression.children())


def _decoded(source: str) -> tuple[str, int]:
    """The source with entities decoded inside tags only, and how many characters its tags have."""
    pieces: list[str] = []
    begin = position = markup = 0
    while opener := _OPENER.search(source, position):
        start = opener.start()
        end = source.find("}}" if opener[0] == "{{" else "%}", start + 2) + 2
        if end < 2:
            raise refusal(source, start, f"nothing closes `{opener[0]}`")
        tag = source[start:end]
        pieces += source[begin:start], _ENTITY.sub(lambda entity: _ENTITIES[entity[0]], tag)
        markup += len(tag)
        begin = position = end
        if verbatim := _VERBATIM.match(tag):
            position = _end_of_verbatim(source, verbatim[1], start, end)
    pieces.append(source[begin:])
    return "".join(pieces), markup


def _end_of_verbatim(source: str, name: str, start: int, end: int) -> int:
    closing = re.compile(rf"\{{%-?\s*end{name}\s*-?%\}}").search(source, end)
    if closing is None:
        raise refusal(source, start, f"nothing closes `{{% {name} %}}`")
    return closing.end()


def _check_filters(source: str, analysis: TemplateAnalysis) -> None:
    """The library would look a filter up only when it is reached."""
    known = _environment(False).filters
    faults: list[Fault] = []
    for name, spans in analysis.filters.items():
        if name not in known:
            faults += refusal(source, spans[0].index, f"there is no filter `{name}`", _mend_of_filter(name)).faults
    if faults:
        raise TemplateError(faults)


def _mend_of_filter(name: str) -> str:
    if name == "safe":
        return "what is put in is always escaped"
    near = closest(name, _environment(False).filters)
    return f"did you mean {near}?" if near else ""


def _paths(analysis: TemplateAnalysis) -> frozenset[tuple[str | int, ...]]:
    found: set[tuple[str | int, ...]] = set()
    for root, variables in analysis.globals.items():
        if root in _CLOCK_NAMES:
            continue
        for variable in variables:
            # What stands in brackets and is read itself ends the part of the path that is known.
            fixed = takewhile(lambda segment: isinstance(segment, (str, int)), variable.segments)
            found.add((root, *[segment for segment in fixed if not isinstance(segment, list)][1:]))
    return frozenset(found)


def _refused(error: LiquidError) -> TemplateError:
    if isinstance(error.__cause__, RecursionError):
        return fault("the template is nested too deeply")
    message = str(error.message or "this is no Liquid")[:300]
    token = error.token
    if token is None or token.start_index < 0:
        return fault(message, _mend(message))
    return refusal(token.source, min(token.start_index, len(token.source)), message, _mend(message))


def _mend(message: str) -> str:
    """What helps with some of the library's complaints."""
    if match := re.fullmatch(r"unexpected tag '(include|render|layout)'", message):
        return f"a template stands alone: write here what {match[1]} would bring"
    if match := re.fullmatch(r"expected an identifier, found (\w+)", message):
        return f'a property with the name of a keyword is written ["{match[1]}"]'
    if message.startswith("'<' and '>' are not supported"):
        return "turn a text into a number first: {% assign n = variables.n | plus: 0 %}"
    return "render less, or a smaller value" if message.endswith("limit reached") else ""
