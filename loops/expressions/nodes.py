"""The parts of a parsed Hog expression, and how each becomes a function.

A node is only a step between parser and function: `compile` is called once, and rendering calls what it returned.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from loops.errors import TemplateError
from loops.expressions.coercion import to_number
from loops.expressions.evaluation import CLOCK, Evaluation, Run, joined
from loops.expressions.faults import fault, refusal
from loops.expressions.functions import FUNCTIONS, ItemFunction, nearest
from loops.expressions.functions.function import Body, Check
from loops.expressions.lexer import MAX_NESTING
from loops.expressions.notation import HogValue, as_json
from loops.expressions.operators import NUMERIC, applied

Segment: TypeAlias = str | int
StaticPath: TypeAlias = tuple[Segment, ...]

# What a step costs inside a function that is called for each item.
_STEP = 25
# Functions that give one of their arguments as it is.
_HANDING_ON = frozenset({"assumeNotNull", "coalesce", "if", "ifNull", "min2", "multiIf"})


class Node(Protocol):
    """A part of an expression."""

    @property
    def position(self) -> int: ...

    def compile(self, compilation: "Compilation") -> Run:
        """The function that gives its value."""


@dataclass(slots=True)
class Compilation:
    """One source on its way to functions: what it reads is gathered on the way.

    `steps` counts what evaluating takes; `makes` says whether it may come to a list or map of its own. `locals` are the
    parameters of the functions around the node that is being compiled.
    """

    source: str
    allowed_roots: frozenset[str] | None
    paths: set[StaticPath] = field(default_factory=set)
    steps: int = 0
    makes: bool = False
    locals: list[str] = field(default_factory=list)
    _depth: int = 0

    def compile(self, node: Node) -> Run:
        if self._depth >= MAX_NESTING:
            raise self.refuse(node.position, f"the expression is nested more than {MAX_NESTING} deep")
        self._depth += 1
        self.steps += 1
        try:
            return node.compile(self)
        finally:
            self._depth -= 1

    def all(self, nodes: Sequence[Node]) -> list[Run]:
        return [self.compile(node) for node in nodes]

    def refuse(self, position: int, message: str, hint: str = "") -> TemplateError:
        return refusal(self.source, position, message, hint)

    def reads(self, path: StaticPath, position: int) -> None:
        root = str(path[0])
        if root == CLOCK or (self.allowed_roots is not None and root not in self.allowed_roots):
            raise self.refuse(position, f"`{root}` is not available", self._mend_of_root(root))
        self.paths.add(path)

    def slot(self, name: str) -> int | None:
        """Where among the locals the innermost parameter of this name stands."""
        return next((place for place in range(len(self.locals) - 1, -1, -1) if self.locals[place] == name), None)

    def _mend_of_root(self, root: str) -> str:
        return "" if self.allowed_roots is None else _available(root, self.allowed_roots)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the source."""

    value: HogValue
    position: int

    def compile(self, compilation: Compilation) -> Run:
        value = self.value
        if isinstance(value, float) and not math.isfinite(value):
            raise compilation.refuse(self.position, "the number is too large")
        return lambda _: value


@dataclass(frozen=True, slots=True)
class Path:
    """Something read from the scope or from another value. Steps are keys, indexes or expressions."""

    base: "Root | Node"
    steps: tuple["Segment | Node", ...]
    position: int

    def compile(self, compilation: Compilation) -> Run:
        fixed = 0
        while fixed < len(self.steps) and isinstance(self.steps[fixed], (str, int)):
            fixed += 1
        keys = tuple(step for step in self.steps[:fixed] if isinstance(step, (str, int)))
        if 0 in keys:
            raise compilation.refuse(self.position, "there is no item 0,", "the first item is [1]")
        compilation.steps += len(self.steps)
        if isinstance(self.base, Root):
            run = self.base.reading(compilation, keys)
            rest = self.steps[fixed:]
        else:
            run, rest = compilation.compile(self.base), self.steps
        return _walk(run, [step if isinstance(step, (str, int)) else compilation.compile(step) for step in rest])


@dataclass(frozen=True, slots=True)
class Root:
    """A name that the scope must hold, or a parameter of a function around it."""

    name: str
    position: int

    def compile(self, compilation: Compilation) -> Run:
        return self.reading(compilation, ())

    def reading(self, compilation: Compilation, keys: StaticPath) -> Run:
        """Read the root and then the keys below it."""
        name = self.name
        slot = compilation.slot(name)
        if slot is not None:
            return _walk(lambda evaluation: evaluation.locals[slot], keys)
        compilation.reads((name, *keys), self.position)

        def read(evaluation: Evaluation) -> HogValue:
            try:
                value: HogValue = evaluation.scope[name]  # type: ignore[assignment]  # scopes are JSON-like
            except KeyError:
                raise _unknown(name, evaluation) from None
            for key in keys:
                if type(value) is dict and type(key) is str:
                    value = value.get(key)
                elif value is None:
                    return None
                else:
                    value = member(value, key)
            return value

        return read


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    name: str
    arguments: tuple[Node, ...]
    position: int

    def compile(self, compilation: Compilation) -> Run:
        function = FUNCTIONS.get(self.name)
        if function is None:
            raise compilation.refuse(self.position, f"there is no function {self.name}()", nearest(self.name))
        if fault := function.wrong_count(len(self.arguments)):
            raise compilation.refuse(self.position, f"{self.name}() {fault}")
        compilation.makes = compilation.makes or self.name not in _HANDING_ON
        if isinstance(function, ItemFunction):
            body = self._body(compilation, function.parameters)
            return function.bind(body, compilation.all(self.arguments[1:]))
        for place, check in function.checks.items():
            self._check(compilation, place, check)
        return function.bind(compilation.all(self.arguments))

    def _body(self, compilation: Compilation, parameters: int) -> Body:
        given = self.arguments[0]
        if not isinstance(given, Lambda):
            example = "x -> x.name" if parameters == 1 else "(sum, x) -> sum + x"
            raise compilation.refuse(given.position, f"{self.name}() needs a function first,", f"such as {example}")
        return given.body_of(compilation, self.name, parameters)

    def _check(self, compilation: Compilation, place: int, check: Check) -> None:
        given = self.arguments[place] if place < len(self.arguments) else None
        if isinstance(given, Literal) and (wrong := check(given.value)):
            raise compilation.refuse(given.position, f"{self.name}(): {wrong},")


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function that is written where another function wants one: `x -> x.name`, `(sum, x) -> sum + x`."""

    parameters: Node
    body: Node
    position: int

    def compile(self, compilation: Compilation) -> Run:
        hint = "as in arrayMap(x -> x.name, list)"
        raise compilation.refuse(self.position, "a function stands only where another one calls it,", hint)

    def body_of(self, compilation: Compilation, caller: str, count: int) -> Body:
        """The function, for a caller that gives so many values; each call of it costs what it takes."""
        names = self._names(compilation)
        if len(names) != count:
            message = f"{caller}() gives {count} value{'' if count == 1 else 's'}, not {len(names)},"
            raise compilation.refuse(self.position, message)
        first, steps = len(compilation.locals), compilation.steps
        compilation.locals += names
        run = compilation.compile(self.body)
        del compilation.locals[first:]
        cost, end = _STEP * (1 + compilation.steps - steps), first + count

        def call(evaluation: Evaluation, values: Sequence[HogValue]) -> HogValue:
            evaluation.spend(cost)
            evaluation.locals[first:end] = values
            return run(evaluation)

        return call

    def _names(self, compilation: Compilation) -> list[str]:
        given = self.parameters.items if isinstance(self.parameters, Listed) else (self.parameters,)
        names = [node.name for node in given if isinstance(node, Root)]
        if len(names) < len(given) or len(set(names)) < len(names):
            hint = "as in x -> x.name or (sum, x) -> sum + x"
            raise compilation.refuse(self.position, "before `->` stand the names of the parameters,", hint)
        return names


@dataclass(frozen=True, slots=True)
class Listed:
    """A list literal. What a literal holds has to be JSON, so a moment becomes its ISO text."""

    items: tuple[Node, ...]
    position: int

    def compile(self, compilation: Compilation) -> Run:
        compilation.makes = True
        runs = compilation.all(self.items)
        return lambda evaluation: [as_json(run(evaluation)) for run in runs]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A map literal; a key that is no text becomes one."""

    pairs: tuple[tuple[Node, Node], ...]
    position: int

    def compile(self, compilation: Compilation) -> Run:
        compilation.makes = True
        pairs = [(compilation.compile(key), compilation.compile(value)) for key, value in self.pairs]
        return lambda evaluation: {evaluation.text(key(evaluation)): as_json(value(evaluation)) for key, value in pairs}


@dataclass(frozen=True, slots=True)
class Joined:
    """Text and interpolations, joined: null is nothing."""

    parts: tuple["str | Node", ...]
    position: int

    def compile(self, compilation: Compilation) -> Run:
        compilation.steps += len(self.parts)
        runs = [part if isinstance(part, str) else compilation.compile(part) for part in self.parts]
        return joined(runs)


@dataclass(frozen=True, slots=True)
class Logic:
    """`and`, `or`, `??` and the ternary: operands are evaluated only as far as they matter."""

    combine: Callable[[Sequence[Run]], Run]
    operands: tuple[Node, ...]
    position: int

    def compile(self, compilation: Compilation) -> Run:
        return self.combine(compilation.all(self.operands))


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one rank, from left to right."""

    first: Node
    rest: tuple[tuple[str, tuple[Node, ...]], ...]
    position: int

    def compile(self, compilation: Compilation) -> Run:
        left = self.first
        compilation.steps += len(self.rest)
        for operator, operands in self.rest:
            if operator in NUMERIC:
                self._check(compilation, operator, (left, *operands))
            left = operands[0] if operands else left
        run = compilation.compile(self.first)
        if len(self.rest) == 1:
            operator, operands = self.rest[0]
            return _applied(run, operator, compilation.all(operands))
        rest = [(operator, compilation.all(operands)) for operator, operands in self.rest]
        return _chained(run, rest)

    @staticmethod
    def _check(compilation: Compilation, operator: str, nodes: Sequence[Node]) -> None:
        """`'a' + 'b'` would silently be null, as `+` only adds numbers."""
        for node in nodes:
            if isinstance(node, Joined) or (isinstance(node, Literal) and to_number(node.value) is None):
                message = f"`{operator}` needs numbers, not a text,"
                raise compilation.refuse(node.position, message, NUMERIC[operator])


@dataclass(frozen=True, slots=True)
class Unary:
    """`not` and the minus sign."""

    operator: Callable[[HogValue], HogValue]
    operand: Node
    position: int

    def compile(self, compilation: Compilation) -> Run:
        operator, operand = self.operator, compilation.compile(self.operand)
        return lambda evaluation: operator(operand(evaluation))


def member(value: HogValue, key: HogValue) -> HogValue:
    """What a map has under a name or a list at a place, counted from 1 or, below zero, from the end; else null."""
    if isinstance(value, Mapping):
        return value.get(key) if isinstance(key, str) else None
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if not isinstance(value, Sequence) or isinstance(value, str) or not isinstance(key, int) or isinstance(key, bool):
        return None
    if key == 0:
        raise fault("a list has no item 0", "the first item is [1]")
    index = key - 1 if key > 0 else len(value) + key
    return value[index] if 0 <= index < len(value) else None


def _walk(inner: Run, steps: Sequence[Segment | Run]) -> Run:
    """Read on below a value; a step is a key or what gives one."""
    if not steps:
        return inner

    def run(evaluation: Evaluation) -> HogValue:
        value = inner(evaluation)
        for step in steps:
            value = member(value, step if isinstance(step, (str, int)) else step(evaluation))
        return value

    return run


def _applied(left: Run, operator: str, operands: Sequence[Run]) -> Run:
    def run(evaluation: Evaluation) -> HogValue:
        return applied(operator, evaluation, [left(evaluation), *[operand(evaluation) for operand in operands]])

    return run


def _chained(first: Run, rest: Sequence[tuple[str, Sequence[Run]]]) -> Run:
    def run(evaluation: Evaluation) -> HogValue:
        value = first(evaluation)
        for operator, operands in rest:
            value = applied(operator, evaluation, [value, *[operand(evaluation) for operand in operands]])
        return value

    return run


def _unknown(name: str, evaluation: Evaluation) -> TemplateError:
    return fault(f"`{name}` is not known here", _available(name, evaluation.scope))


def _available(name: str, roots: Collection[str]) -> str:
    if name in FUNCTIONS:
        return f"a function is called: {name}()"
    return f"available: {', '.join(sorted(root for root in roots if root != CLOCK)) or 'nothing'}"
