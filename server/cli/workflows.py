"""apply, export, lint, validate, workflows: loops as files, and their life."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.closest import closest
from loops.errors import Conflict, DefinitionError, Fault, NotFound, RequestError
from server.cli.commands import Adder, Run, add_paging
from server.cli.found import run_id
from server.cli.output import complain_of, plain, say, show, show_list, table, when
from server.cli.reach import reached

if TYPE_CHECKING:
    from server.cli.client import Client

_STDIN = "-"
_MOST_COMPARED = 200
_STATUSES = ("draft", "active", "archived")
_VERBS = {
    "enable": "let workflows start runs on what arrives from now on",
    "disable": "stop workflows from starting runs",
    "archive": "disable workflows for good",
}
_RUNNING = ("drain", "cancel")


def add_commands(add: Adder) -> None:
    """apply, export, lint, validate, workflows."""
    apply = add.command("apply", _apply, "make workflows be what files say, found by their names")
    apply.add_argument(
        "-f", "--file", dest="files", metavar="FILE", action="append", required=True,
        help="JSON or YAML; - is standard input; may be repeated",
    )  # fmt: skip
    apply.add_argument("--enable", action="store_true", help="enable them too")
    export = add.command("export", _export, "print workflows as files that apply takes, or a whole run", shows=False)
    what = export.add_mutually_exclusive_group()
    what.add_argument("workflow", nargs="?", metavar="ID|NAME", help="one workflow (default: all)")
    what.add_argument(
        "--run", metavar="ID", help="a run with all that it did, told and was told, in place of workflows"
    )
    export.add_argument("--yaml", action="store_true", help="YAML instead of JSON")
    lint = add.command("lint", _lint, "find in files what is legal and probably not meant")
    lint.add_argument("files", nargs="+", metavar="FILE", help="JSON or YAML; - is standard input")
    lint.add_argument("--allow", metavar="CODE", action="append", default=[], help="pass over it; may be repeated")
    lint.add_argument("--ask", action="store_true", help="have the service look, which knows connections and channels")
    validate = add.command("validate", _validate, "check files without storing anything", reaches=False)
    validate.add_argument("files", nargs="+", metavar="FILE", help="JSON or YAML; - is standard input")
    summary = "list workflows and change their status"
    group = add.group("workflows", _list, summary, "list workflows, the newest first", _add_listing)
    for verb, summary in _VERBS.items():
        command = group.command(verb, _changing(verb), summary)
        command.add_argument("workflows", nargs="+", metavar="ID|NAME")
        if verb != "enable":
            command.add_argument(
                "--running", choices=_RUNNING,
                help="what becomes of the runs under way: they go on to their end, or are cancelled "
                "(needed where there are any)",
            )  # fmt: skip


def _add_listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=_STATUSES, help="only these; archived ones show only so")
    add_paging(parser)


def find_workflow(client: "Client", wanted: str) -> dict[str, Any]:
    """The workflow with this id, or else with this name. Raises NotFound, or Conflict where several have the name."""
    try:
        found: dict[str, Any] = client.get("workflows", wanted)
        return found
    except NotFound:
        same = client.get("workflows", name=wanted)["items"]
    if not same:
        near = closest(wanted, (str(one["name"]) for one in client.get("workflows", limit=_MOST_COMPARED)["items"]))
        hint = f"did you mean {near!r}?" if near is not None else "see: loops workflows list"
        raise NotFound(f"there is no workflow with the id or name {wanted!r}", hint=hint)
    if len(same) > 1:
        ids = ", ".join(one["id"] for one in same)
        raise Conflict(f"{len(same)} workflows are named {wanted!r}", hint=f"give one of their ids: {ids}")
    whole: dict[str, Any] = client.get("workflows", same[0]["id"])
    return whole


def _apply(args: argparse.Namespace) -> int:
    documents = list(read_documents_of(args.files))
    applied: list[dict[str, Any]] = []
    enabled: list[bool] = []
    with reached(args) as client:
        faulty = [_with_place(name, found) for name, document in documents if (found := _faults(client, document))]
        if faulty:
            raise DefinitionError([fault for faults in faulty for fault in faults])
        try:
            for name, document in documents:
                saved = client.post("workflows", "apply", body={"document": document, "enable": args.enable})
                _warn(name, saved["warnings"])
                applied.append({key: saved[key] for key in ("id", "name", "status", "change")})
                enabled.append(saved["enabled"])
        finally:
            # What was applied before an error stays applied, so it is told all the same.
            show(args, {"workflows": applied}, lambda: _tell_applied(applied, enabled))
    return 0


def _faults(client: "Client", document: Mapping[str, Any]) -> list[Fault]:
    return _read_faults(client.post("workflows", "validate", body={"document": document})["faults"])


def _read_faults(told: Iterable[Mapping[str, str]]) -> list[Fault]:
    return [Fault(one["path"], one["message"], one["hint"], one.get("code", "")) for one in told]


def _with_place(name: str, faults: Iterable[Fault]) -> list[Fault]:
    return [replace(fault, path=f"{name}: {fault.path}" if fault.path else name) for fault in faults]


def _warn(name: str, warnings: Iterable[Mapping[str, str]]) -> None:
    for fault in _with_place(name, _read_faults(warnings)):
        complain_of(fault, "warning")


def _tell_applied(applied: list[dict[str, Any]], enabled: list[bool]) -> None:
    for one, newly in zip(applied, enabled, strict=True):
        change = "enabled" if newly and one["change"] == "unchanged" else one["change"]
        say(f"{change:<10} {plain(one['name'])}  ({one['status']}, {one['id']})")


def read_documents_of(files: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Every document with the name of its file, and its number where the file holds several."""
    from loops.definition import read_documents

    for file in files:
        found = read_documents(text_of(file), "standard input" if file == _STDIN else file)
        for number, document in enumerate(found, start=1):
            yield (f"{file} ({number})" if len(found) > 1 else file), document


def text_of(file: str) -> str:
    """What stands in a file, or in standard input. Raises RequestError."""
    try:
        raw = sys.stdin.buffer.read() if file == _STDIN else Path(file).read_bytes()
        return raw.decode("utf-8")
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror}"
        raise RequestError(message, hint="name a file, or - for standard input") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{file}: is not UTF-8 at byte {error.start}", hint="save it as UTF-8") from error


def _validate(args: argparse.Namespace) -> int:
    unheld: set[str] = set()

    def look(document: Mapping[str, Any]) -> tuple[Iterable[Fault], Iterable[Fault]]:
        unheld.update(_of_the_project(document))
        return _alone(document)

    faults, warnings = _looked_at(args.files, look)
    _complain(faults, warnings)
    told = {"valid": not faults, "faults": _plain(faults), "warnings": _plain(warnings)}
    came = f"{len(faults)} faults, {len(warnings)} warnings" if faults or warnings else "valid"
    rest = f"; {' and '.join(sorted(unheld))} are not held against the project: loops lint --ask does that"
    show(args, told, lambda: say(f"{came}{rest if unheld else ''}"))
    return 1 if faults else 0


def _of_the_project(document: Mapping[str, Any]) -> Iterable[str]:
    """What its steps name that only the project knows: skills, connectors."""
    from loops.definition.stored import stored_actions

    for action in stored_actions(document):
        config = action.get("config")
        inputs = config.get("inputs") if isinstance(config, Mapping) else None
        if isinstance(inputs, Mapping):
            given = {name: inputs[name] for name in ("connectors", "skills") if isinstance(inputs.get(name), Mapping)}
            yield from (name for name, one in given.items() if one.get("value"))


Look = Callable[[Mapping[str, Any]], tuple[Iterable[Fault], Iterable[Fault]]]
"""What gives the faults and warnings of a document."""


def _alone(document: Mapping[str, Any]) -> tuple[Iterable[Fault], Iterable[Fault]]:
    """By the document alone."""
    try:
        return (), _read_whole(dict(document))
    except DefinitionError as error:
        return error.faults, ()


def _read_whole(document: dict[str, Any]) -> list[Fault]:
    """What a file is warned of, its schedules included. Raises DefinitionError."""
    from loops.definition import parse_workflow
    from loops.definition.lint import linted
    from loops.schedules.file import read_entries, split

    definition, given = split(document)
    workflow = linted(parse_workflow(definition))
    if given is None:
        return list(workflow.warnings)
    declared = {one.key for one in workflow.variables}
    entries = read_entries(given, of_loop=workflow.origin_product == "loops", declared=declared)
    return [*workflow.warnings, *(warning for entry in entries for warning in entry.warnings)]


def _looked_at(files: Iterable[str], look: Look) -> tuple[list[Fault], list[Fault]]:
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for name, document in read_documents_of(files):
        refused, warned = look(document)
        faults += _with_place(name, refused)
        warnings += _with_place(name, warned)
    return faults, warnings


def _complain(faults: Iterable[Fault], warnings: Iterable[Fault]) -> None:
    for warning in warnings:
        complain_of(warning, "warning")
    for fault in faults:
        complain_of(fault)


def _lint(args: argparse.Namespace) -> int:
    from loops.definition.lint import CODES

    for code in args.allow:
        if code not in CODES:
            raise RequestError(f"{code!r} is no code of lint", hint="docs/reference/lint.md lists them")
    if args.ask:
        with reached(args) as client:
            faults, warnings = _looked_at(args.files, lambda document: _asked(client, document))
    else:
        faults, warnings = _looked_at(args.files, _alone)
    found = [one for one in warnings if one.code and one.code not in args.allow]
    _complain(faults, found)
    told = {"clean": not faults and not found, "faults": _plain(faults), "findings": _plain(found)}
    show(
        args, told, lambda: say(f"{_many(faults, 'fault')}, {_many(found, 'finding')}" if faults or found else "clean")
    )
    return 1 if faults or found else 0


def _many(found: Sequence[Fault], what: str) -> str:
    return f"1 {what}" if len(found) == 1 else f"{len(found)} {what}s"


def _asked(client: "Client", document: Mapping[str, Any]) -> tuple[Iterable[Fault], Iterable[Fault]]:
    told = client.post("workflows", "validate", body={"document": document})
    return _read_faults(told["faults"]), _read_faults(told["warnings"])


def _plain(faults: Iterable[Fault]) -> list[dict[str, str]]:
    return [
        {"path": one.path, "message": one.message, "hint": one.hint, **({"code": one.code} if one.code else {})}
        for one in faults
    ]


def _export(args: argparse.Namespace) -> int:
    from loops.definition import to_yaml

    with reached(args) as client:
        if args.run is not None:
            document: Any = client.get("runs", run_id(client, args.run), "export")
        elif args.workflow is not None:
            document = _document(find_workflow(client, args.workflow))
        else:
            document = {"workflows": [_document(client.get("workflows", one["id"])) for one in _all(client)]}
    print(to_yaml(document) if args.yaml else json.dumps(document, indent=2, ensure_ascii=False) + "\n", end="")
    return 0


def _all(client: "Client") -> Iterable[dict[str, Any]]:
    cursor = None
    while True:
        listed = client.get("workflows", limit=200, cursor=cursor)
        yield from listed["items"]
        cursor = listed["next"]
        if cursor is None:
            return


def _document(shown: Mapping[str, Any]) -> dict[str, Any]:
    """A workflow as a file holds it: without what belongs to the server, and with its schedules where it has some."""
    from loops.definition.plain import SERVER_KEYS
    from loops.schedules.file import SCHEDULES, as_entry

    kept = {key: value for key, value in shown.items() if key not in SERVER_KEYS}
    entries = [as_entry(one) for one in shown.get(SCHEDULES, ())]
    return {**kept, SCHEDULES: entries} if entries else kept


def _list(args: argparse.Namespace) -> int:
    with reached(args) as client:
        listed = client.get("workflows", status=args.status, limit=args.limit, cursor=args.cursor)
    columns = ("NAME", "STATUS", "VERSION", "SHAPE", "TRIGGER", "CHANGED", "ID")
    show_list(args, listed, columns, _row, "no workflows; loops apply -f FILE stores one")
    return 0


def _row(item: Mapping[str, Any]) -> tuple[object, ...]:
    shape, at = _SHAPES[item["shape"]], when(item["updated_at"])
    return item["name"], item["status"], item["version"], shape, item["starts_on"], at, item["id"]


_SHAPES = {"loop": "loop", "changed": "loop, changed", "workflow": "workflow"}


def _changing(verb: str) -> Run:
    def change(args: argparse.Namespace) -> int:
        changed = []
        with reached(args) as client:
            for wanted in args.workflows:
                answered = _changed(client, find_workflow(client, wanted)["id"], verb, args)
                _warn(plain(answered["name"]), answered.get("warnings", ()))
                changed.append({key: answered[key] for key in ("id", "name", "status", "runs") if key in answered})
        rows = [(one["name"], one["status"], one["id"], _runs_words(one.get("runs", {}))) for one in changed]
        columns = ("NAME", "STATUS", "ID", "RUNS UNDER WAY")
        width = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
        show(args, {"workflows": changed}, lambda: table(columns[:width], [row[:width] for row in rows], ""))
        return 0

    return change


def _changed(client: "Client", workflow: str, verb: str, args: argparse.Namespace) -> dict[str, Any]:
    """What the service answers."""
    if verb == "archive":
        answered: dict[str, Any] = client.delete("workflows", workflow, running=args.running)
    else:
        running = getattr(args, "running", None)
        answered = client.post("workflows", workflow, verb, body={} if running is None else {"running": running})
    return answered


def _runs_words(runs: Mapping[str, int]) -> str:
    words = {"draining": "go on", "cancelled": "cancelled", "stopping": "asked to stop, still acting"}
    return ", ".join(f"{runs[name]} {said}" for name, said in words.items() if runs.get(name))
