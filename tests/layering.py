"""What the folders promise about each other, read from the source alone (nothing is imported).

Every check takes the root of a tree and returns one line for each fault, so that each can be tried on a small tree
that breaks its rule.
"""

import ast
import fnmatch
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MAY_IMPORT = {
    "config": {"config"},
    "loops": {"config", "loops"},
    "triggers": {"config", "loops", "triggers"},
    "notify": {"config", "loops", "notify"},
    "server": {"config", "loops", "triggers", "notify", "server"},
}
PURE = (
    "config/*.py",
    "loops/connections/github_answer.py",
    "loops/connections/slack_answer.py",
    "loops/errors.py",
    "loops/event.py",
    "loops/filters*.py",
    "loops/log_context.py",
    "loops/invisible.py",
    "loops/own_output.py",
    "loops/storable.py",
    "loops/definition/*.py",
    "loops/expressions/*.py",
    "loops/runs/alert_words.py",
    "loops/runs/alerts.py",
    "loops/runs/state.py",
    "loops/runs/variables.py",
    "loops/schedules/*.py",
    "loops/tasks/prompt.py",
    "loops/tasks/workspace/change.py",
    "loops/tasks/workspace/links.py",
    "loops/tasks/workspace/names.py",
    "loops/tasks/workspace/protected.py",
    "loops/tasks/quota.py",
    "loops/tasks/result.py",
    "loops/tasks/workspace/calls.py",
    "loops/tasks/workspace/enclosure.py",
    "loops/tasks/workspace/files.py",
    "loops/tasks/workspace/output.py",
    "loops/tasks/workspace/sandbox.py",
    "loops/tasks/workspace/workspace.py",
    "notify/compose.py",
    "notify/markdown.py",
    "notify/message.py",
    "notify/mime.py",
    "notify/mrkdwn.py",
    "notify/outbox.py",
    "notify/slack_blocks.py",
    "notify/slack_errors.py",
    "notify/split.py",
    "triggers/source.py",
    "triggers/matcher.py",
    "triggers/masking.py",
    "triggers/brakes.py",
    "triggers/counted.py",
    "triggers/github/*.py",
    "triggers/posthog/*.py",
    "triggers/json_body.py",
    "triggers/slack/__init__.py",
    "triggers/slack/event.py",
    "triggers/slack/ignored.py",
    "triggers/slack/payload.py",
    "triggers/slack/receive.py",
    "triggers/slack/signature.py",
    "triggers/slack/words.py",
    "triggers/hearing.py",
    "triggers/properties.py",
    "triggers/verdict.py",
    "triggers/manual/__init__.py",
    "triggers/manual/event.py",
    "triggers/schedule/__init__.py",
    "triggers/schedule/event.py",
    "triggers/schedule/plan.py",
    "triggers/webhook/*.py",
    "server/auth.py",
)
"""A star reaches into subfolders too."""

OUTSIDE = {
    "aiohttp",
    "aiosmtplib",
    "anthropic",
    "apscheduler",
    "dbos",
    "github",
    "mcp",
    "openai",
    "pydantic_ai",
    "slack_bolt",
    "slack_sdk",
    "sqlalchemy",
    "sqlmodel",
}
BANNED_WORDS = {"manager", "helper", "helpers", "util", "utils", "common", "info", "processor"}
BANNED_NAMES = {"data", "do", "handle", "process"}
BANNED_VERBS = {"do", "process"}
AFTER_A_THING = {"group", "id", "ids", "lock"}
NAMES_OF_LIBRARIES = {"match_info", "process_bind_param", "process_literal_param", "process_result_value"}
LONGEST_MODULE = 400

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Import:
    """A module that a file names; `for_types` when it stands under TYPE_CHECKING alone."""

    name: str
    line: int
    for_types: bool


@dataclass(frozen=True, slots=True)
class Module:
    """One source file: its dotted name, its place in the tree, how many lines it has, what it imports, the names that
    it defines with their lines, and the lines that read the environment."""

    name: str
    place: str
    lines: int
    imports: tuple[Import, ...]
    definitions: tuple[tuple[str, int], ...]
    reads_environment: frozenset[int]


@lru_cache
def modules(root: Path) -> tuple[Module, ...]:
    """Every module of the product, in order of name."""
    return tuple(
        _module(root, path)
        for package in sorted(MAY_IMPORT)
        for path in sorted((root / package).rglob("*.py"))
        if "__pycache__" not in path.parts
    )


def _module(root: Path, path: Path) -> Module:
    place = path.relative_to(root)
    is_package = place.name == "__init__.py"
    name = ".".join(place.parent.parts if is_package else place.with_suffix("").parts)
    text = path.read_text("utf-8")
    within = name if is_package else name.rpartition(".")[0]
    nodes = [*ast.walk(ast.parse(text, str(place)))]
    return Module(
        name,
        place.as_posix(),
        len(text.splitlines()),
        tuple(_imports(nodes, within)),
        tuple((node.name, node.lineno) for node in nodes if isinstance(node, _DEFINITIONS)),
        frozenset(node.lineno for node in nodes if isinstance(node, ast.Attribute) and _is_env(node)),
    )


def _imports(nodes: Sequence[ast.AST], within: str) -> Iterator[Import]:
    """Imports of a whole file: also those inside functions, under TYPE_CHECKING, and by importlib with a plain name."""
    for_types = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in nodes:
        for name in _imported_names(node, within):
            yield Import(name, getattr(node, "lineno", 0), id(node) in for_types)


def _imported_names(node: ast.AST, within: str) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            base = node.module or ""
            if node.level:
                parents = within.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            # Whether a.b of `from a import b` is a module or a name in a is for _resolved to say.
            return [f"{base}.{alias.name}" for alias in node.names]
        case ast.Call(
            func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str() as name), *_]
        ):
            return [name] if called.endswith(("import_module", "__import__")) else []
    return []


def _top(name: str) -> str:
    return name.partition(".")[0]


def arrow_faults(root: Path) -> list[str]:
    """Imports against the arrow config <- loops <- triggers, notify <- server."""
    return [
        f"{module.place}:{one.line}: {_top(module.name)} may not import {one.name}"
        for module in modules(root)
        for one in _first_of_each_line(module.imports)
        if _top(one.name) in {*MAY_IMPORT, "tests"} and _top(one.name) not in MAY_IMPORT[_top(module.name)]
    ]


def _first_of_each_line(imports: Iterable[Import]) -> list[Import]:
    seen: dict[tuple[int, str], Import] = {}
    for one in imports:
        seen.setdefault((one.line, _top(one.name)), one)
    return list(seen.values())


def cycle_faults(root: Path) -> list[str]:
    """Rooms that import each other, also by a detour.

    A room is a package, or a module that lies directly in a top folder. The pure part of a package is a room of its
    own, since values come first and I/O last: a store may know the run's state, whose engine knows the store.
    """
    rooms = {module.name: _room(module) for module in modules(root)}
    edges: dict[str, set[str]] = {}
    for module in modules(root):
        targets = {rooms[name] for name in _own_targets(root, module, for_types=True)}
        edges.setdefault(rooms[module.name], set()).update(targets - {rooms[module.name]})
    return [f"import each other: {', '.join(sorted(group))}" for group in _knots(edges)]


def _room(module: Module) -> str:
    first_two = ".".join(module.name.split(".")[:2])
    return f"{first_two} (pure)" if _is_pure(module) else first_two


def _is_pure(module: Module) -> bool:
    return any(fnmatch.fnmatch(module.place, pattern) for pattern in PURE)


def _own_targets(root: Path, module: Module, *, for_types: bool) -> set[str]:
    known = {one.name for one in modules(root)}
    named = [one.name for one in module.imports if for_types or not one.for_types]
    return {found for name in named if (found := _resolved(name, known))} - {module.name}


def _resolved(name: str, known: set[str]) -> str | None:
    """The module of ours that an import names: the longest part of it that is one."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def _knots(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of two and more nodes each of which reaches each other one."""
    reach = {node: _reached(edges, node) for node in edges}
    groups: list[set[str]] = []
    for node in sorted(edges):
        group = {node} | {other for other in reach[node] if node in reach.get(other, set())}
        if len(group) > 1 and group not in groups:
            groups.append(group)
    return groups


def _reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for target in edges.get(waiting.pop(), set()) - reached:
            reached.add(target)
            waiting.append(target)
    return reached


def purity_faults(root: Path) -> list[str]:
    """Pure modules that name an outside library, or that load one through other modules of ours."""
    known = {module.name: module for module in modules(root)}
    loads = {name: _loaded_modules(root, module) for name, module in known.items()}
    taints = {name: {_top(one.name) for one in module.imports if not one.for_types} for name, module in known.items()}
    faults = []
    for module in modules(root):
        if not _is_pure(module):
            continue
        direct = {_top(one.name) for one in module.imports} & OUTSIDE
        faults += [f"{module.place}: imports {library}" for library in sorted(direct)]
        for other in sorted(_reached(loads, module.name)):
            faults += [
                f"{module.place}: loads {lib} through {other}" for lib in sorted(taints[other] & OUTSIDE - direct)
            ]
    return faults


def _loaded_modules(root: Path, module: Module) -> set[str]:
    """What Python runs when the module is imported: its targets and the packages that they lie in."""
    known = {one.name for one in modules(root)}
    targets = _own_targets(root, module, for_types=False)
    parents = {
        name.rsplit(".", depth)[0] for name in {*targets, module.name} for depth in range(1, name.count(".") + 1)
    }
    return (targets | (parents & known)) - {module.name}


def settings_faults(root: Path) -> list[str]:
    """Whoever reads settings or the environment below server/; config/ itself takes the environment as a value."""
    faults = []
    for module in modules(root):
        if _top(module.name) == "server":
            continue
        if _top(module.name) != "config":
            lines = {one.line for one in module.imports if f"{one.name}.".startswith("config.settings.")}
            faults += [f"{module.place}:{line}: reads settings" for line in sorted(lines)]
        lines = {one.line for one in module.imports if one.name in {"os.environ", "os.getenv"}}
        faults += [f"{module.place}:{line}: reads the environment" for line in sorted(lines | module.reads_environment)]
    return faults


def _is_env(node: ast.Attribute) -> bool:
    return (
        isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in {"environ", "environb", "getenv", "getenvb"}
    )


def name_faults(root: Path) -> list[str]:
    """Modules, classes and functions whose names say nothing."""
    faults = []
    for module in modules(root):
        names = [(module.name.rpartition(".")[2], 1), *module.definitions]
        faults += [f"{module.place}:{line}: {name} says nothing" for name, line in names if says_nothing(name)]
    return faults


def says_nothing(name: str) -> bool:
    """Whether a name is made of a word that stands for anything. `process` is one as a verb, not as a thing."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    if name in NAMES_OF_LIBRARIES or not words:
        return False
    if name.strip("_").lower() in BANNED_NAMES or BANNED_WORDS & set(words):
        return True
    return len(words) > 1 and words[0] in BANNED_VERBS and words[1] not in AFTER_A_THING


def length_faults(root: Path) -> list[str]:
    """Modules that nobody can hold in mind."""
    return [
        f"{module.place}: {module.lines} lines, {LONGEST_MODULE} at most"
        for module in modules(root)
        if module.lines > LONGEST_MODULE
    ]


def package_faults(root: Path) -> list[str]:
    """What pyproject.toml would install: all of the product, and no tests."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["packages"]["find"]["include"]
    taken = [name for name in ("tests", "tests.unit") if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    missed = [name for name in MAY_IMPORT if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    return [f"installs {name}" for name in taken] + [f"does not install {name}" for name in missed]
