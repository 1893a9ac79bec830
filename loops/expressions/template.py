"""Templates and expressions as values: compiled when a workflow is saved or loaded, rendered as often as it runs."""

import html as html_text
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from loops.errors import Fault, TemplateError
from loops.event import JsonValue
from loops.expressions.evaluation import Evaluation, Run, joined
from loops.expressions.faults import placed
from loops.expressions.hog import parse_expression, parse_template
from loops.expressions.lexer import MAX_NESTING
from loops.expressions.liquid import LiquidTemplate
from loops.expressions.nodes import Compilation, StaticPath
from loops.expressions.notation import HogValue, as_json
from loops.expressions.quoting import quoted

Engine: TypeAlias = Literal["hog", "liquid"]
Scope: TypeAlias = Mapping[str, object]  # JSON-like values by name, and the clock
_Render: TypeAlias = Callable[[Scope], JsonValue]

_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template: a string, or lists and maps of them.

    `roots` are the names that it reads from a scope, `paths` where below them it looks, as far as that stands in the
    source: `event.properties.text`, or `['foo-bar']` and `[1]` for what is no plain name.
    """

    source: JsonValue
    engine: Engine
    roots: frozenset[str]
    paths: frozenset[str]
    _render: _Render = field(repr=False, compare=False)
    _lookups: Mapping[str, StaticPath] = field(repr=False, compare=False)

    def render(self, scope: Scope) -> JsonValue:
        """The template's value. Raises TemplateError with the path of the string that failed.

        A scope holds JSON-like values by name; its key `__now__` may hold the present moment as a datetime. What is
        read is handed on as it is, not copied.
        """
        return self._render(scope)

    def missing(self, scope: Scope) -> list[str]:
        """The paths for which the scope has nothing, or null."""
        return [text for text, keys in sorted(self._lookups.items()) if _found(scope, keys) is None]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled bare Hog expression."""

    source: str
    roots: frozenset[str]
    paths: frozenset[str]
    _evaluate: _Render = field(repr=False, compare=False)

    def evaluate(self, scope: Scope) -> JsonValue:
        """The expression's value for a scope as in Template.render; moments as ISO text. Raises TemplateError."""
        return self._evaluate(scope)


def compile_template(
    value: JsonValue,
    *,
    engine: Engine = "hog",
    path: str = "",
    html: bool = False,
    quoting: bool = False,
    allowed_roots: frozenset[str] | None = None,
) -> Template:
    """Compile a string, or every string inside lists and maps; other scalars stay as they are.

    `path` is where the value stands in the definition; `html` escapes what is put in, `quoting` makes it JSON
    that can stand inside an instruction; `allowed_roots` are the only
    names that may be read. Raises TemplateError with all faults, each with its path.
    """
    compiler = _Compiler(engine, html, quoting, allowed_roots)
    render = compiler.compile(value, path, 0)
    if compiler.faults:
        raise TemplateError(compiler.faults)
    lookups = compiler.lookups
    return Template(value, engine, frozenset(_roots(lookups)), frozenset(lookups), render, lookups)


def compile_expression(text: str, *, path: str = "", allowed_roots: frozenset[str] | None = None) -> Expression:
    """Compile a bare Hog expression, without braces around it. Raises TemplateError."""
    compilation = Compilation(text, allowed_roots)
    try:
        run = compilation.compile(parse_expression(text))
    except TemplateError as error:
        raise placed(error, path) from None
    lookups = {_path_text(keys): keys for keys in compilation.paths}
    return Expression(
        text, frozenset(_roots(lookups)), frozenset(lookups), _rendering(run, path, weighed=compilation.makes)
    )


class _Compiler:
    """Compiles one value and gathers what it reads and what is wrong with it."""

    def __init__(self, engine: Engine, html: bool, quoting: bool, allowed_roots: frozenset[str] | None) -> None:
        self.faults: list[Fault] = []
        self.lookups: dict[str, StaticPath] = {}
        self._html = html
        self._quoting = quoting
        self._allowed_roots = allowed_roots
        self._leaf = self._hog if engine == "hog" else self._liquid

    def compile(self, value: JsonValue, path: str, depth: int) -> _Render:
        if depth > MAX_NESTING:
            self.faults.append(Fault(path, f"the value is nested more than {MAX_NESTING} deep"))
            return _constant(None)
        if isinstance(value, str):
            try:
                return self._leaf(value, path)
            except TemplateError as error:
                self.faults.extend(placed(error, path).faults)
                return _constant(None)
        if isinstance(value, dict):
            return _map_of({k: self.compile(v, _below(path, k), depth + 1) for k, v in value.items()})
        if isinstance(value, list):
            return _list_of([self.compile(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)])
        return _constant(value)

    def _hog(self, source: str, path: str) -> _Render:
        compilation = Compilation(source, self._allowed_roots)
        parts = [part if isinstance(part, str) else compilation.compile(part) for part in parse_template(source)]
        for keys in compilation.paths:
            self.lookups[_path_text(keys)] = tuple(_python_index(key) for key in keys)
        if all(isinstance(part, str) for part in parts):
            return _constant("".join(part for part in parts if isinstance(part, str)))
        if self._html:
            parts = [part if isinstance(part, str) else _escaped(part, alone=len(parts) == 1) for part in parts]
        if self._quoting:
            parts = [part if isinstance(part, str) else _quoted(part) for part in parts]
        alone = parts[0]
        if len(parts) > 1 or isinstance(alone, str):
            return _rendering(joined(parts), path, weighed=False)
        return _rendering(alone, path, weighed=compilation.makes)

    def _liquid(self, source: str, path: str) -> _Render:
        template = LiquidTemplate.compile(source, html=self._html, quoting=self._quoting)
        if self._allowed_roots is not None and (unknown := sorted(template.roots - self._allowed_roots)):
            hint = f"available: {', '.join(sorted(self._allowed_roots)) or 'nothing'}"
            raise TemplateError([Fault("", f"`{name}` is not available", hint) for name in unknown])
        for keys in template.paths:
            self.lookups[_path_text(keys)] = keys

        def render(scope: Scope) -> JsonValue:
            try:
                return template.render(scope)
            except TemplateError as error:
                raise placed(error, path) from error

        return render


def _rendering(run: Run, path: str, *, weighed: bool) -> _Render:
    """`weighed`: the value may hold the same parts many times over, so that it has to be seen whether it is small."""

    def render(scope: Scope) -> JsonValue:
        evaluation = Evaluation(scope)
        try:
            value = run(evaluation)
            if weighed:
                evaluation.weigh(value)
        except TemplateError as error:
            raise placed(error, path) from error
        # Only top-level values need it: literals make their items plain, and nothing else makes moments inside.
        return cast("JsonValue", value if type(value) is str else as_json(value))

    return render


def _constant(value: JsonValue) -> _Render:
    return lambda _: value


def _map_of(renders: Mapping[str, _Render]) -> _Render:
    return lambda scope: {key: render(scope) for key, render in renders.items()}


def _list_of(renders: Sequence[_Render]) -> _Render:
    return lambda scope: [render(scope) for render in renders]


def _escaped(run: Run, *, alone: bool) -> Run:
    """The same with markup escaped. What stands alone keeps its type, so that only a text can carry markup."""

    def escape(evaluation: Evaluation) -> HogValue:
        value = run(evaluation)
        if value is None or (alone and not isinstance(value, str)):
            return value
        return html_text.escape(evaluation.text(value))

    return escape


def _quoted(run: Run) -> Run:
    """The same as JSON, inert inside an instruction."""

    def quote(evaluation: Evaluation) -> HogValue:
        value = as_json(run(evaluation))
        evaluation.weigh(value)
        return evaluation.made(quoted(cast("JsonValue", value)))

    return quote


def _roots(lookups: Mapping[str, StaticPath]) -> set[str]:
    return {str(keys[0]) for keys in lookups.values()}


def _below(path: str, key: str) -> str:
    if not _NAME.fullmatch(key):
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else key


def _path_text(keys: StaticPath) -> str:
    text = str(keys[0])
    for key in keys[1:]:
        text = _below(text, key) if isinstance(key, str) else f"{text}[{key}]"
    return text


def _python_index(key: str | int) -> str | int:
    return key - 1 if isinstance(key, int) and key > 0 else key


def _found(scope: Scope, keys: StaticPath) -> object:
    value: object = scope
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value
