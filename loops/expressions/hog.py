"""Hog source to functions: the grammar's rules become nodes, and nodes compile themselves."""

from functools import cache
from typing import TypeAlias, cast

from lark import Lark, Transformer, UnexpectedInput, UnexpectedToken, v_args
from lark.lexer import Token

from loops.errors import TemplateError
from loops.expressions.coercion import truthy
from loops.expressions.faults import fault, refusal
from loops.expressions.functions import all_of, any_of, conditional, first_not_null
from loops.expressions.lexer import HogLexer
from loops.expressions.nodes import (
    Call,
    Chain,
    Joined,
    Lambda,
    Listed,
    Literal,
    Logic,
    Mapped,
    Node,
    Path,
    Root,
    Segment,
    Unary,
)
from loops.expressions.notation import HogValue, Number
from loops.expressions.operators import negative

MAX_SOURCE = 200_000
"""Characters that a template may have."""

_Step: TypeAlias = tuple[str, tuple[Node, ...]]
_LONGEST_NUMBER = 300
_LONGEST_INDEX = 12
_NOT_CALLABLE = "only functions are called, such as lower(event.properties.text)"


def parse_template(source: str) -> list[str | Node]:
    """Text and interpolations in turn. Raises TemplateError."""
    return cast("list[str | Node]", _parse(source, "template"))


def parse_expression(source: str) -> Node:
    """A bare expression. Raises TemplateError."""
    return cast("Node", _parse(source, "lone"))


def _parse(source: str, start: str) -> object:
    if len(source) > MAX_SOURCE:
        raise fault(f"the template has {len(source):,} characters, over the limit of {MAX_SOURCE:,}")
    try:
        return _parser().parse(source, start=start)
    except UnexpectedToken as error:
        raise _unexpected(source, start, error.token) from None
    except UnexpectedInput as error:
        raise refusal(source, 0, "this is no expression") from error


def _unexpected(source: str, start: str, token: Token) -> TemplateError:
    hint = "a literal brace is written \\{" if start == "template" else ""
    if token.type == "$END":
        return refusal(source, len(source), "the expression ends too early", hint)
    if token.type == "_CLOSE":
        return refusal(source, token.start_pos or 0, "the expression ends too early", hint)
    if token.type == "_LPAR":
        hint = _NOT_CALLABLE
    return refusal(source, token.start_pos or 0, f"unexpected `{str(token)[:40]}`", hint)


@cache
def _parser() -> Lark:
    return Lark.open(
        "hog.lark",
        rel_to=__file__,
        parser="lalr",
        lexer=HogLexer,
        start=["template", "lone"],
        transformer=_Nodes(),
        maybe_placeholders=False,
    )


def _not(value: HogValue) -> HogValue:
    return not truthy(value)


def _place(part: Token | Node) -> int:
    return (part.start_pos or 0) if isinstance(part, Token) else part.position


def _number(text: str) -> Number:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else float(text)


@v_args(inline=True)
class _Nodes(Transformer[Token, Node]):
    """One method a rule of hog.lark. It keeps nothing, so one serves all threads."""

    def template(self, *parts: Token | Node) -> list[str | Node]:
        return [str(part) if isinstance(part, Token) else part for part in parts]

    def lone(self, node: Node) -> Node:
        return node

    def interpolation(self, node: Node) -> Node:
        return node

    def conditional(self, condition: Node, then: Node, otherwise: Node) -> Node:
        return Logic(conditional, (condition, then, otherwise), condition.position)

    def function(self, parameters: Node, body: Node) -> Node:
        return Lambda(parameters, body, parameters.position)

    def any_of(self, *operands: Node) -> Node:
        return Logic(any_of, operands, operands[0].position)

    def all_of(self, *operands: Node) -> Node:
        return Logic(all_of, operands, operands[0].position)

    def first_not_null(self, *operands: Node) -> Node:
        return Logic(first_not_null, operands, operands[0].position)

    def negated(self, sign: Token, operand: Node) -> Node:
        return Unary(_not, operand, _place(sign))

    def minus(self, sign: Token, operand: Node) -> Node:
        if isinstance(operand, Literal) and isinstance(operand.value, (int, float)) and operand.value is not True:
            return Literal(-operand.value, _place(sign))
        return Unary(negative, operand, _place(sign))

    def compared(self, first: Node, *steps: _Step) -> Node:
        return Chain(first, steps, first.position)

    def compare(self, operator: Token, operand: Node) -> _Step:
        return str(operator), (operand,)

    def is_in(self, _in: Token, operand: Node) -> _Step:
        return "in", (operand,)

    def is_not_in(self, _not: Token, _in: Token, operand: Node) -> _Step:
        return "not in", (operand,)

    def like(self, operator: Token, operand: Node) -> _Step:
        return operator.lower(), (operand,)

    def not_like(self, _not: Token, operator: Token, operand: Node) -> _Step:
        return f"not {operator.lower()}", (operand,)

    def is_null(self, *_words: Token) -> _Step:
        return "is null", ()

    def is_not_null(self, *_words: Token) -> _Step:
        return "is not null", ()

    def between(self, _between: Token, low: Node, high: Node) -> _Step:
        return "between", (low, high)

    def not_between(self, _not: Token, _between: Token, low: Node, high: Node) -> _Step:
        return "not between", (low, high)

    def arithmetic(self, first: Node, *rest: Token | Node) -> Node:
        operators = [str(part) for part in rest if isinstance(part, Token)]
        operands = [part for part in rest if not isinstance(part, Token)]
        steps = tuple((operator, (operand,)) for operator, operand in zip(operators, operands, strict=True))
        return Chain(first, steps, first.position)

    def path(self, base: Node, *steps: Segment | Node) -> Node:
        return Path(base, steps, base.position)

    def member(self, name: Token) -> Segment:
        return str(name)

    def position(self, index: Token) -> Segment:
        return int(index[:_LONGEST_INDEX])

    def item(self, key: Node) -> Segment | Node:
        if isinstance(key, Literal) and isinstance(key.value, (str, int)) and not isinstance(key.value, bool):
            return key.value
        return key

    def root(self, name: Token) -> Node:
        return Root(str(name), _place(name))

    def call(self, name: Token, *arguments: Node) -> Node:
        return Call(str(name), arguments, _place(name))

    def number(self, token: Token) -> Node:
        return Literal(_number(token), _place(token))

    def string(self, token: Token) -> Node:
        return Literal(str(token), _place(token))

    def constant(self, token: Token) -> Node:
        return Literal(token.lower() == "true", _place(token))

    def null(self, token: Token) -> Node:
        return Literal(None, _place(token))

    def joined(self, *parts: Token | Node) -> Node:
        position = min((_place(part) for part in parts), default=0)
        return Joined(tuple(str(part) if isinstance(part, Token) else part for part in parts), position)

    def listed(self, *items: Node) -> Node:
        return Listed(items, items[0].position if items else 0)

    def mapped(self, *pairs: tuple[Node, Node]) -> Node:
        return Mapped(pairs, pairs[0][0].position if pairs else 0)

    def pair(self, key: Node, value: Node) -> tuple[Node, Node]:
        return key, value
