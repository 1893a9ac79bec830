"""loops skills: folders become skills, and a connector is stored, on a database that no service serves."""

import json
from pathlib import Path

import pytest

from tests.integration.test_cli import Cli

TEXT = "---\nname: {}\ndescription: How we {} things.\n---\n\nBegin \x1b[31mhere.\n"


@pytest.fixture
def cli(tmp_path: Path, database_url: str) -> Cli:
    data = str(tmp_path / "data")
    return Cli(tmp_path, LOOPS_DATA_DIR=data, LOOPS_DATABASE_URL=database_url, LOOPS_SECRET_KEY="k" * 40)


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    (made / "references" / ".git").mkdir(parents=True)
    (made / "SKILL.md").write_text(TEXT.format(name, name), "utf-8")
    (made / "references" / "words.md").write_text("words", "utf-8")
    (made / "references" / ".git" / "config").write_text("no", "utf-8")
    (made / "linked.md").symlink_to("/etc/hostname")
    return made


def test_folders_are_stored_as_skills_listed_shown_and_deleted(cli: Cli, tmp_path: Path) -> None:
    sort, ship = folder(tmp_path, "sort"), folder(tmp_path, "ship")
    assert "stored: sort, ship" in cli.done("skills", "apply", str(sort), str(ship))
    shown = cli.json("skills", "show", "sort")
    assert (shown["files"], shown["paths"]) == ({"references/words.md": "words"}, ["references/words.md"])
    assert "Begin \\x1b[31mhere." in cli.done("skills", "show", "sort")
    (sort / "references" / "words.md").unlink()
    cli.done("skills", "apply", str(sort))
    assert cli.json("skills", "show", "sort")["files"] == {}
    listed = cli.json("skills", "list", "--search", "SHIP")
    assert [one["name"] for one in listed["items"]] == ["ship"]
    cli.done("skills", "delete", "ship")
    assert [one["name"] for one in cli.json("skills", "list")["items"]] == ["sort"]
    assert "has no SKILL.md" in cli.failed("skills", "apply", str(tmp_path))


def test_a_space_that_is_not_there_is_said_to_be_none(cli: Cli) -> None:
    assert "there is no space 'nowhere'" in cli.failed("runs", "--space", "nowhere")
    assert "no spaces" in cli.done("spaces")


def test_quotas_are_shown_and_set_one_by_one(cli: Cli) -> None:
    cli.done("quotas", "set", "project_tasks=0", "task_cost=2.50")
    assert cli.json("quotas", "set", "project_tokens=9", "task_cost=")["own"] == {
        "project_tasks": 0,
        "project_tokens": 9,
    }
    told = cli.done("quotas")
    assert "the project 0 of 0 0 0 of 9 $0.0000 none" in " ".join(told.split())
    assert "of the project's own: " in told
    assert "is not a quota" in cli.failed("quotas", "set", "project_task=1")
    assert "has no number" in cli.failed("quotas", "set", "project_tasks")


def test_a_connector_is_stored_and_its_check_names_the_command_that_is_missing(cli: Cli) -> None:
    created = cli("integrations", "create", "mcp", "--name", "files", "--set", "command=files", "--json")
    made = json.loads(created.stdout)
    assert "warning: there is no command 'files' here, so no task can use the connection" in created.stderr
    assert made["hook_url"] is None
    over = cli("integrations", "check", made["id"])
    assert over.returncode == 1
    assert "there is no command 'files', which the connection 'files' names" in over.stdout
    assert "none are set in LOOPS_MCP_COMMANDS" in over.stdout
