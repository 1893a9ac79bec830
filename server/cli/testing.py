"""test-run: one action of a workflow, or all of them in turn, with everything outside mocked."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loops.errors import Fault, RequestError
from server.cli.commands import Adder
from server.cli.found import delivery_id
from server.cli.output import complain_of, plain, say, show
from server.cli.reach import reached
from server.cli.workflows import find_workflow, read_documents_of, text_of

if TYPE_CHECKING:
    from server.cli.client import Client

_STDIN = "-"
_MOST_STEPS = 200
_LONGEST_VALUE = 400


def add_commands(add: Adder) -> None:
    """test-run."""
    command = add.command("test-run", _test_run, "test a workflow action by action; nothing is stored, sent or asked")
    command.add_argument("workflow", metavar="WORKFLOW|FILE", help="id or name, or a JSON or YAML file of one workflow")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--action", metavar="ID", help="the action to test (default: the trigger)")
    what.add_argument("--all", action="store_true", help="all actions in turn; exit code 1 unless the end is reached")
    command.add_argument(
        "--globals", metavar="FILE|JSON", help='what happened, such as {"event": {"event": "…", "properties": {…}}}'
    )
    command.add_argument("--delivery", metavar="ID", help="test on a delivery that has come: our id or the sender's")


def _test_run(args: argparse.Namespace) -> int:
    body: dict[str, Any] = {} if args.globals is None else {"globals": _globals(args.globals)}
    file = _file(args.workflow)
    documents = [] if file is None else list(read_documents_of([file]))
    if len(documents) > 1:
        raise RequestError(f"{file}: holds {len(documents)} workflows", hint="a test run is of one")
    with reached(args) as client:
        if args.delivery is not None:
            body["delivery"] = delivery_id(client, args.delivery)
        path: tuple[str, ...] = ("workflows", "test-run")
        if documents:
            body["document"] = documents[0][1]
        else:
            path = ("workflows", find_workflow(client, args.workflow)["id"], "test-run")
        if args.all:
            return _test_all(args, client, path, body)
        tested = client.post(*path, body=_on(body, args.action))
    show(args, tested, lambda: _tell(tested))
    return 1 if tested["status"] == "error" else 0


def _test_all(args: argparse.Namespace, client: "Client", path: tuple[str, ...], body: Mapping[str, Any]) -> int:
    steps: list[dict[str, Any]] = []
    for tested in _each(client, path, body):
        steps.append(tested)
        if not args.json:
            _tell(tested)
    ended = bool(steps) and steps[-1]["status"] == "success"
    show(args, {"steps": steps}, lambda: say("the end is reached" if ended else "the run would not get to its end"))
    return 0 if ended else 1


def _each(client: "Client", path: tuple[str, ...], body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    action: str | None = None
    for _ in range(_MOST_STEPS):
        tested = client.post(*path, body=_on(body, action))
        yield tested
        action = tested["nextActionId"]
        if action is None:
            return


def _on(body: Mapping[str, Any], action: str | None) -> dict[str, Any]:
    return {**body} if action is None else {**body, "current_action_id": action}


def _file(given: str) -> str | None:
    """The file that is meant; None where it is a workflow's id or name."""
    return given if given == _STDIN or Path(given).is_file() else None


def _globals(given: str) -> Any:  # noqa: ANN401 - JSON
    text = given if given.lstrip().startswith("{") else text_of(given)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = "--globals" if text is given else given
        raise RequestError(f"{where}: is not JSON: {error}", hint='as {"event": {"event": "…"}}') from error


def _tell(tested: Mapping[str, Any]) -> None:
    action, following = tested["action"], tested["nextActionId"]
    say(f"{tested['status']:<8} {plain(action['id'])}" + (f" -> {plain(following)}" if following else ""))
    error = tested["error"]
    if error is not None:
        complain_of(Fault(error["path"], error["message"], error["hint"]))
    for line in _lines(tested):
        say(f"         {line}")


def _lines(tested: Mapping[str, Any]) -> Iterator[str]:
    """What else there is to say: the reason, what was compared, would be sent, was set and was logged."""
    if tested["reason"] and tested["error"] is None:
        yield plain(tested["reason"])
    for one in (tested["verdict"] or {}).get("compared", ()):
        mark = "fits" if one["passed"] else "does not fit"
        yield f"{plain(one['key'])} {one['operator']} {_cut(one['expected'])}: {_cut(one['actual'])} {mark}"
    for call in tested["calls"]:
        said = {name: value for name, value in call.items() if name != "kind" and value not in (None, "", [], {})}
        yield from (f"{call['kind']} {name}: {_cut(value)}" for name, value in said.items())
    yield from (f"{plain(name)} = {_cut(tested['variables'].get(name))}" for name in tested["variables_set"])
    yield from (plain(line["text"]) for line in tested["logs"])


def _cut(value: object) -> str:
    text = plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
