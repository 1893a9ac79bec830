"""Hog source to tokens. Text, expressions and f-strings nest in each other, so a stack of modes says which is read."""

import re
from collections.abc import Iterator
from typing import TypeAlias

from lark.lexer import Lexer, LexerState, Token

from loops.errors import TemplateError
from loops.expressions.faults import refusal

MAX_NESTING = 64
"""How deep brackets, braces and f-strings may nest in each other."""

_LITERAL_BRACE = "a literal brace is written \\{"
_BRACE = re.compile(r"(?<!\\)(\\*+)([{}])")  # the look behind and `*+` keep a run of backslashes linear
_F_TEXT = re.compile(r"(?:[^'\\{]++|\\.|'')*+", re.DOTALL)
_EMPTY = re.compile(r"\s*}")
_INDEX = re.compile(r"\s*(\d+)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_HYPHENATED = re.compile(r"[\w$-]*", re.ASCII)
_TOKEN = re.compile(
    r"""(?P<SPACE>\s+)
    |(?P<NUMBER>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<FOPEN>f')
    |(?P<NAME>[A-Za-z_$][\w$]*)
    |(?P<STRING>'(?:[^'\\]++|\\.|'')*+')
    |(?P<QUOTED>"(?:[^"\\]++|\\.|"")*+"|`(?:[^`\\]++|\\.|``)*+`)
    |(?P<REGEX>=~\*?|!~\*?)
    |(?P<OPERATOR>->|\?\?|\?\.|\|\||==|!=|<>|<=|>=|[-+*/%=<>?:,.()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES = {quote: re.compile(rf"\\x([0-9a-fA-F]{{2}})|\\(.)|{quote}{quote}", re.DOTALL) for quote in ("'", '"', "`")}
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "a": "\a", "0": "\0"}
_ESCAPED |= {character: character for character in "\\'\"`{}"}

_KEYWORDS = {"and": "_AND", "or": "_OR", "not": "NOT", "in": "IN", "is": "IS", "between": "BETWEEN", "null": "NULL"}
_KEYWORDS |= {"like": "LIKE", "ilike": "LIKE", "true": "CONSTANT", "false": "CONSTANT"}
_OPERATORS = dict.fromkeys(("=", "==", "!=", "<>", "<", "<=", ">", ">="), "COMPARE")
_OPERATORS |= dict.fromkeys("*/%", "PRODUCT")
_OPERATORS |= {"+": "PLUS", "-": "MINUS", "||": "CONCAT", "??": "_NULLISH", "?": "_QUESTION", ":": "_COLON"}
_OPERATORS |= {".": "_DOT", "?.": "_DOT", ",": "_COMMA", "->": "_ARROW"}
_CALLED = frozenset({"and", "or", "in", "like", "ilike"})  # functions too
_CALL = re.compile(r"\s*\(")
# What a value may end with.
_ENDINGS = frozenset({"NAME", "NUMBER", "INDEX", "STRING", "CONSTANT", "NULL", "_FCLOSE", "_RPAR", "_RSQB", "_RBRACE"})
_OPENING = {"(": ("_LPAR", ")"), "[": ("_LSQB", "]"), "{": ("_LBRACE", "}")}
_CLOSING = {")": "_RPAR", "]": "_RSQB", "}": "_RBRACE"}
_MENDS = {"&": "write `and`", "|": "write `or`", "!": "write `not`", '"': "text is written in single quotes"}
_MENDS |= {"'": "close the text with a single quote"}

_Mode: TypeAlias = tuple[str, int]  # what closes it: "}" of an interpolation is "text}" or "f}"; where it was opened


class HogLexer(Lexer):
    """The lexer that the grammar is built with; the start rule says whether text or an expression comes first."""

    __future_interface__ = 1

    def __init__(self, _conf: object) -> None:
        pass

    def lex(self, lexer_state: LexerState, parser_state: object) -> Iterator[Token]:
        start = parser_state.parse_conf.start  # type: ignore[attr-defined]  # lark does not export its type
        text = lexer_state.text
        return _Scan(text if isinstance(text, str) else text.text).tokens(in_text=start == "template")


class _Scan:
    """One pass over one source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.position = 0
        self.modes: list[_Mode] = []
        self.last = ""  # the types of the last two tokens of an expression
        self.before_last = ""

    def tokens(self, *, in_text: bool) -> Iterator[Token]:
        if in_text:
            yield from self._text()
        while self.position < len(self.source):
            yield from self._expression_token()
        if self.modes:
            closing, opened = self.modes[-1]
            raise self._refuse(opened, f"nothing closes `{self.source[opened]}`", self._mend_of_unclosed(closing))

    def _refuse(self, position: int, message: str, hint: str = "") -> TemplateError:
        return refusal(self.source, position, message, hint)

    def _mend_of_unclosed(self, closing: str) -> str:
        return _LITERAL_BRACE if closing == "text}" else ""

    def _emit(self, kind: str, value: str, position: int) -> Token:
        self.before_last, self.last = self.last, kind
        return Token(kind, value, position)

    def _enter(self, closing: str, position: int) -> None:
        if len(self.modes) >= MAX_NESTING:
            raise self._refuse(position, f"the expression is nested more than {MAX_NESTING} deep")
        self.modes.append((closing, position))

    def _text(self) -> Iterator[Token]:
        """Text up to the next interpolation, and what opens that one. Backslashes count only before a brace."""
        source, start = self.source, self.position
        pieces: list[str] = []
        begin = start
        for match in _BRACE.finditer(source, start):
            slashes, brace = len(match[1]), match[2]
            pieces.append(source[begin : match.start()] + "\\" * (slashes // 2))
            begin = match.end()
            if brace == "{" and slashes % 2 == 0:
                yield from self._text_token("".join(pieces), start)
                yield self._open("text}", match.end() - 1)
                return
            pieces.append(brace)
        self.position = len(source)
        yield from self._text_token("".join(pieces) + source[begin:], start)

    def _text_token(self, text: str, position: int) -> Iterator[Token]:
        if text:
            yield self._emit("TEXT", text, position)

    def _open(self, closing: str, position: int) -> Token:
        if closing == "text}" and self.source.startswith("{{", position):
            hint = 'write {event.url}, or set "templating": "liquid"'
            raise self._refuse(position, "this field uses single braces, not `{{ }}`,", hint)
        if _EMPTY.match(self.source, position + 1):
            raise self._refuse(position, "nothing stands between the braces", _LITERAL_BRACE)
        self._enter(closing, position)
        self.position = position + 1
        return self._emit("_OPEN", "{", position)

    def _f_text(self) -> Iterator[Token]:
        start = self.position
        end = _F_TEXT.match(self.source, start).end()  # type: ignore[union-attr]  # it matches the empty text
        yield from self._text_token(self._unescaped(start, end, "'"), start)
        self.position = end
        if self.source.startswith("{", end):
            yield self._open("f}", end)
        elif self.source.startswith("'", end):
            self.modes.pop()
            self.position = end + 1
            yield self._emit("_FCLOSE", "'", end)
        else:
            raise self._refuse(self.modes[-1][1], "nothing closes the text", _MENDS["'"])

    def _expression_token(self) -> Iterator[Token]:
        position = self.position
        match = _TOKEN.match(self.source, position)
        if match is None:
            character = self.source[position]
            raise self._refuse(position, f"`{character}` means nothing here", _MENDS.get(character, ""))
        self.position = match.end()
        kind, value = match.lastgroup, match[0]
        if kind == "NAME":
            yield self._emit(self._kind_of_name(value), value, position)
        elif kind in {"NUMBER", "STRING", "QUOTED"}:
            yield self._literal(kind, value, position)
        elif kind == "FOPEN":
            self._enter("'", position)
            yield self._emit("_FOPEN", value, position)
            yield from self._f_text()
        elif kind == "REGEX":
            hint = "write match(text, 'pattern'), or use like or ilike"
            raise self._refuse(position, f"there are no regular expressions between values, so no `{value}`,", hint)
        elif kind == "OPERATOR":
            yield from self._operator(value, position)

    def _kind_of_name(self, name: str) -> str:
        if self.last == "_DOT" or (name in _CALLED and _CALL.match(self.source, self.position) and self._begins()):
            return "NAME"
        return _KEYWORDS.get(name.lower(), "NAME")

    def _begins(self) -> bool:
        """Whether a value may begin here, so that a word before a parenthesis is no operator."""
        return (self.before_last if self.last == "NOT" else self.last) not in _ENDINGS

    def _literal(self, kind: str, value: str, position: int) -> Token:
        if kind == "NUMBER":
            return self._emit("NUMBER", value, position)
        name = "STRING" if kind == "STRING" else "NAME"
        end = position + len(value) - 1
        return self._emit(name, self._unescaped(position + 1, end, value[0]), position)

    def _operator(self, value: str, position: int) -> Iterator[Token]:
        if value in _OPENING:
            kind, closing = _OPENING[value]
            self._enter(closing, position)
            yield self._emit(kind, value, position)
        elif value in _CLOSING:
            yield from self._close(value, position)
        elif value == "?." and self.source.startswith("[", self.position):
            return  # `a?.[b]` reads as `a[b]`: what is missing is null either way
        else:
            self._check_hyphen(value, position)
            yield self._emit(_OPERATORS[value], value, position)
            if self.last == "_DOT" and (index := _INDEX.match(self.source, self.position)):
                self.position = index.end()
                yield self._emit("INDEX", index[1], index.start(1))

    def _close(self, value: str, position: int) -> Iterator[Token]:
        closing = self.modes.pop()[0] if self.modes else ""
        if not closing.endswith(value):
            raise self._refuse(position, f"`{value}` closes nothing")
        if closing == value:
            yield self._emit(_CLOSING[value], value, position)
            return
        yield self._emit("_CLOSE", value, position)
        yield from self._text() if closing == "text}" else self._f_text()

    def _check_hyphen(self, value: str, position: int) -> None:
        """`event.properties.foo-bar` without spaces was hardly meant as a subtraction."""
        if value != "-" or (self.before_last, self.last) != ("_DOT", "NAME"):
            return
        start = self.source.rfind(".", 0, position) + 1
        name = self.source[start:position]
        following = self.source[position + 1 : position + 2]
        if not _NAME.fullmatch(name) or not _NAME.match(following):
            return
        whole = name + _HYPHENATED.match(self.source, position)[0]  # type: ignore[index]  # it may match nothing
        hint = f"write ['{whole}'] for the property, or put spaces around the minus"
        raise self._refuse(start, f"`{whole}` reads as a subtraction", hint)

    def _unescaped(self, start: int, end: int, quote: str) -> str:
        def plain(match: re.Match[str]) -> str:
            if match[1]:
                return chr(int(match[1], 16))
            if match[2] is None:
                return quote
            if match[2] not in _ESCAPED:
                place = start + match.start()
                raise self._refuse(place, f"unknown escape `{match[0]}`", "a backslash is written \\\\")
            return _ESCAPED[match[2]]

        return _ESCAPES[quote].sub(plain, self.source[start:end])
