"""Text to JSON values and back: JSON as it is, YAML by the rules of YAML 1.2.

YAML 1.1, which PyYAML speaks by itself, reads `no`, `on`, `09:30`, `010` and `2026-07-06` as something other than the
text that people meant, and its merge keys and aliases let a small file unfold without end. Here only `true`, `false`,
`null` and plain numbers are anything but text, and nothing is repeated by reference.
"""

import contextlib
import json
import re
from collections.abc import Hashable, Iterator

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from loops.definition.findings import Findings, shown
from loops.definition.plain import DEEPEST, plain_object
from loops.errors import Fault, ShapeError
from loops.event import JsonValue

LONGEST_TEXT = 1_000_000

_NULL, _BOOL, _INT, _FLOAT, _TEXT, _LIST, _OBJECT = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")
)
_CORE = (
    (_NULL, re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    (_BOOL, re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    (_INT, re.compile(r"[-+]?[0-9]+"), list("-+0123456789")),
    (_FLOAT, re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), list("-+.0123456789")),
)


def read_documents(text: str, name: str = "") -> list[dict[str, JsonValue]]:
    """The workflows in a text: one object, YAML documents, or a list of them under `workflows`.

    `name` is the file's; `.json`, `.yaml` and `.yml` settle the language, otherwise text that begins with a brace or
    bracket is JSON. Raises ShapeError with line and column where the text is neither.
    """
    if len(text) > LONGEST_TEXT:
        raise _refused(name, f"holds {len(text)} characters", f"at most {LONGEST_TEXT} are read")
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    documents = [found for document in _parse(text, name) for found in _workflows(document, name)]
    if not documents:
        raise _refused(name, "holds no workflow", "write one object with name, actions and edges")
    return documents


def _parse(text: str, name: str) -> list[JsonValue]:
    flow = text.lstrip()[:1] in ("{", "[")
    if name.lower().endswith((".yaml", ".yml")):
        if flow:
            with contextlib.suppress(ShapeError):  # most JSON is YAML, and read faster as JSON
                return [_read_json(text, name)]
        return _read_yaml(text, name)
    if flow or name.lower().endswith(".json"):
        return [_read_json(text, name)]
    return _read_yaml(text, name)


def _workflows(document: JsonValue, name: str) -> Iterator[dict[str, JsonValue]]:
    if document is None:
        return
    if isinstance(document, dict) and "workflows" in document:
        others = [shown(key) for key in document if key != "workflows"]
        if others:
            raise _refused(name, f'"workflows" stands beside {", ".join(others)}', "leave it alone in its object")
        document = document["workflows"]
        if not isinstance(document, list):
            raise _refused(name or "workflows", "workflows must be a list")
    for item in document if isinstance(document, list) else [document]:
        if not isinstance(item, dict):
            raise _refused(name, f"holds {shown(item)} where a workflow, an object, belongs")
        findings = Findings()
        workflow = plain_object(item, findings)
        if findings.faults:
            raise ShapeError(findings.faults)
        yield workflow


def _refused(name: str, message: str, hint: str = "") -> ShapeError:
    return ShapeError([Fault(name, message, hint)])


def _fault(name: str, line: int, column: int, message: str, hint: str = "") -> ShapeError:
    return _refused(name, f"line {line}, column {column}: {message}", hint)


def _position(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


# JSON


class _Repeated(ValueError):
    pass


def _pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Repeated
    return found


def _no_number(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is no JSON number")


def _read_json(text: str, name: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_number)
    except _Repeated:
        key, offset = _first_repeated(text)
        raise _fault(name, *_position(text, offset), f'the key "{shown(key)}" stands twice in one object') from None
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        raise _fault(name, error.lineno, error.colno, f"no JSON: {message}") from error
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise _refused(name, f"no JSON: {shown(str(error), 100)}") from error
    return value


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')


def _first_repeated(text: str) -> tuple[str, int]:
    """The first key that stands twice in one object of a valid JSON text, and its offset."""
    open_objects: list[set[str] | None] = []
    previous = ""
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark == "{":
            open_objects.append(set())
        elif mark == "[":
            open_objects.append(None)
        elif mark in "}]":
            open_objects.pop()
        elif mark.startswith('"') and previous in ("{", ",") and (seen := open_objects[-1]) is not None:
            key = json.loads(mark)
            if key in seen:
                return key, token.start()
            seen.add(key)
        previous = mark
    raise ValueError("no key stands twice")


def _too_deep(name: str) -> ShapeError:
    return _refused(name, "is nested too deep", f"at most {DEEPEST} levels")


# YAML


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.2's core schema, each key once, nothing by reference."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not read; write the value out", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, MappingNode) else ():
            text = key.value if isinstance(key, ScalarNode) else None
            if text is None or key.tag != _TEXT:
                raise yaml.MarkedYAMLError(problem="a key must be text; quote it", problem_mark=key.start_mark)
            if text in seen:
                problem = f'the key "{shown(text)}" stands twice in one object'
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(text)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _CORE:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern.pattern})$", re.ASCII), _first)


def _construct_bool(loader: _Loader, node: ScalarNode) -> bool:
    text = loader.construct_scalar(node).lower()
    if text not in ("true", "false"):
        raise ValueError(f'"{shown(text)}" is no boolean')
    return text == "true"


_Loader.yaml_constructors = {
    None: yaml.SafeLoader.construct_undefined,
    _NULL: yaml.SafeLoader.construct_yaml_null,
    _BOOL: _construct_bool,
    _INT: lambda loader, node: int(loader.construct_scalar(node)),
    _FLOAT: lambda loader, node: float(loader.construct_scalar(node)),
    _TEXT: yaml.SafeLoader.construct_yaml_str,
    _LIST: yaml.SafeLoader.construct_yaml_seq,
    _OBJECT: yaml.SafeLoader.construct_yaml_map,
}


def _read_yaml(text: str, name: str) -> list[JsonValue]:
    try:
        return list(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = shown(error.problem or "cannot be read", 120)
        if mark is None:
            raise _refused(name, f"no YAML: {problem}") from error
        raise _fault(name, mark.line + 1, mark.column + 1, f"no YAML: {problem}") from error
    except yaml.reader.ReaderError as error:
        line, column = _position(text, error.position)
        raise _fault(name, line, column, f"no YAML: the character {error.character:#x} is not allowed") from error
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise _refused(name, f"no YAML: {shown(str(error), 100)}") from error


class _Dumper(yaml.SafeDumper):
    """Writes text plainly only where YAML 1.1 and 1.2 both read it as text; repeats instead of referring."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _represent_text(dumper: _Dumper, text: str) -> ScalarNode:
    style = None
    if not all(letter.isprintable() or letter == "\n" for letter in text):
        style = '"'
    elif "\n" in text.strip("\n"):
        style = "|"
    return dumper.represent_scalar(_TEXT, text, style=style)


for _tag, _pattern, _first in _CORE:
    _Dumper.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern.pattern})$", re.ASCII), _first)
_Dumper.add_representer(str, _represent_text)


def to_yaml(document: JsonValue) -> str:
    """The document as YAML, its keys in their order; reading it gives an equal value."""
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return str(text)
