import argparse
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.connections.kinds import KINDS
from loops.definition.workflow import Status
from loops.errors import DefinitionError, Fault, NotFound
from loops.runs.state import RunStatus
from notify.outbox import Status as MessageStatus
from server.api import deliveries as api_deliveries
from server.api.reference import api_reference
from server.auth import ROLES
from server.cli import access, deliveries, main, messages, runs, workflows
from server.cli.output import complain, plain, show_list, table, took
from server.cli.parser import build_parser
from server.cli.reference import cli_reference
from server.mcp.reference import mcp_reference

ROOT = Path(__file__).parents[3]
HEAVY = {"aiohttp", "alembic", "dbos", "lark", "pydantic", "sqlalchemy", "sqlmodel", "uvloop"}


@pytest.mark.parametrize(("page", "made"), [("cli", cli_reference), ("api", api_reference), ("mcp", mcp_reference)])
def test_a_reference_page_is_what_the_code_says(page: str, made) -> None:
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text("utf-8")
    assert text == made(), f"run: python -m server.{page}.reference > docs/reference/{page}.md"


def _commands(parser: argparse.ArgumentParser, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                found += [(*before, name), *_commands(command, (*before, name))]
    return found


@pytest.mark.parametrize("command", [(), *_commands(build_parser())], ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert "usage: loops " + " ".join(command) in capsys.readouterr().out


def test_the_bare_word_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "usage: loops " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["deliverys"], "deliveries"),
        (["workflows", "enabel", "x"], "enable"),
        (["runs", "--status", "faild"], "failed"),
        (["integrations", "create", "githb", "--name", "x"], "github"),
        (["token", "create", "--name", "x", "--role", "editr"], "editor"),
    ],
)
def test_a_word_that_is_none_is_refused_with_the_one_that_was_meant(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


GROUPS = ["workflows", "schedules", "outbox", "alerts", "integrations", "skills", "token"]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_of_commands_lists_by_itself_as_its_list_does(group: str) -> None:
    by_itself, listing = (vars(build_parser().parse_args(given)) for given in ([group], [group, "list"]))
    assert by_itself == listing
    assert callable(by_itself["execute"])


@pytest.mark.parametrize(
    "arguments", [["outbox", "--status", "refused", "list"], ["outbox", "list", "--status", "refused"]]
)
def test_what_narrows_a_list_may_stand_before_it_or_behind_it(arguments: list[str]) -> None:
    given = build_parser().parse_args(arguments)
    assert (given.status, given.limit) == ("refused", 50)


def test_the_release_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"loops {version('loops')}\n"


def test_help_imports_nothing_that_takes_long() -> None:
    code = "import sys; from server.cli import main; main(['serve', '--help']); print(' '.join(sys.modules))"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    over = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert HEAVY & {*over.stdout.splitlines()[-1].split()} == set()


@pytest.mark.parametrize(
    ("arguments", "url"),
    [
        (["--url", "a", "runs"], "a"),
        (["runs", "--url", "b"], "b"),
        (["--url", "a", "runs", "--url", "b"], "b"),
        (["runs"], None),
    ],
)
def test_an_option_of_many_commands_may_stand_before_the_command_or_behind_it(arguments: list[str], url: str) -> None:
    assert build_parser().parse_args(arguments).url == url


def test_the_choices_of_the_parser_are_those_of_the_service() -> None:
    assert tuple(name for name, kind in KINDS.items() if not kind.kept) == access._KINDS
    assert access._ROLES == ROLES
    assert get_args(RunStatus) == runs._STATUSES
    assert get_args(Status) == workflows._STATUSES
    assert deliveries._STATUSES == api_deliveries._STATUSES
    assert get_args(MessageStatus) == messages._STATUSES


def test_text_from_outside_cannot_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table(("A", "B"), [("\x1b]0;title\x07\x1b[2J", "two\x07beeps"), ("right\u202eleft", "\ud800")], "none")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["A", "B"],
        [r"\x1b]0;title\x07\x1b[2J", r"two\x07beeps"],
        [r"right\u202eleft", r"\ud800"],
    ]
    assert len({line.rindex(" ") for line in lines}) == 1


def test_a_cell_of_a_table_is_one_line_and_not_endless(capsys: pytest.CaptureFixture[str]) -> None:
    table(("A",), [("two\n  lines",), ("x" * 400,)], "none")
    _head, first, second = capsys.readouterr().out.splitlines()
    assert (first, len(second), second[-1]) == ("two lines", 300, "…")


@given(st.text() | st.integers() | st.none())
def test_whatever_is_shown_is_one_line_of_printable_text(value: object) -> None:
    assert len(plain(value).splitlines()) <= 1
    plain(value).encode("utf-8")


def test_a_list_says_where_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"items": [{"id": "1"}], "next": "abc"}
    show_list(argparse.Namespace(json=False), listed, ("ID",), lambda item: (item["id"],), "none")
    assert capsys.readouterr().out == "ID\n1\n\nmore: --cursor abc\n"
    show_list(argparse.Namespace(json=True), listed, ("ID",), lambda item: (item["id"],), "none")
    assert json.loads(capsys.readouterr().out) == listed


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(argparse.Namespace(json=False), {"items": [], "next": None}, ("ID",), lambda item: (), "no runs")
    assert capsys.readouterr().out == "no runs\n"


def test_errors_go_to_standard_error_with_every_fault_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    complain(DefinitionError([Fault("a.b", "is wrong", "mend it"), Fault("", "is missing")]))
    complain(NotFound("there is no run \x1b[1m", hint="say running=drain, or force=true"))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "error: a.b: is wrong",
        "hint: mend it",
        "error: is missing",
        r"error: there is no run \x1b[1m",
        "hint: say --running drain, or --force",
    ]


@pytest.mark.parametrize(
    ("begun", "ended", "words"),
    [
        (None, None, ""),
        ("2026-07-01T10:00:00+00:00", None, ""),
        ("2026-07-01T10:00:00+00:00", "2026-07-01T10:00:01.500000+00:00", "1.50 s"),
        ("2026-07-01T10:00:00+00:00", "2026-07-01T12:30:00+02:00", "30.0 min"),
    ],
)
def test_the_time_that_something_took_is_in_words(begun: str | None, ended: str | None, words: str) -> None:
    assert took(begun, ended) == words


@pytest.mark.parametrize(("runs", "words"), [(0, "0 runs started"), (1, "1 run started"), (2, "2 runs started")])
def test_one_run_is_not_told_as_several(runs: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    delivery = {"id": "d", "key": "k", "what": "issues", "source": "github", "status": "dispatched", "reason": ""}
    told = {"delivery": {**delivery, "received_at": None, "runs": runs}, "note": "", "verdicts": []}
    deliveries.tell_explanation(told, fold=True)
    assert f"status    dispatched, {words}\n" in capsys.readouterr().out
