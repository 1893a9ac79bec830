"""What the doctor says of GitHub connections."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from loops.connections.secrets import SecretBox
from loops.store import connections, workflows
from loops.store import github as store
from loops.store.database import engine_for, migrate
from loops.store.github import SeenName
from loops.store.workflows import WorkflowRow
from server.checks.check import Check
from server.checks.github import EVENTS
from server.cli.doctor import examine
from tests.doubles.github import GitHubDouble, github
from tests.doubles.github_repository import NAME, repository_github
from tests.doubles.site import NOW

KEY = "the key of an installation " + "k" * 20
PUBLIC = "https://loops.example.org"


@pytest.fixture
async def hub() -> AsyncIterator[GitHubDouble]:
    async with github() as double:
        double.hook_url = f"{PUBLIC}/hooks/github/1"
        double.app_events = ["issues", *EVENTS]
        yield double


def installed(folder: Path, *settings: Mapping[str, str], heard_of: str | None = None) -> dict[str, str]:
    """An installation with GitHub connections, the first of them number 1; its environment."""
    url = f"sqlite:///{folder / 'loops.db'}"
    migrate(url)
    box, engine = SecretBox([KEY]), engine_for(url)
    with engine.begin() as connection:
        for number, given in enumerate(settings, 1):
            config = {key: value for key, value in given.items() if key in {"api_base_url", "app_slug"}}
            secrets = {key: value for key, value in given.items() if key not in config}
            connections.insert(
                connection, project_id="default", kind="github", name=f"hub{number}", config=config,
                secrets=box.seal(secrets), now=NOW,
            )  # fmt: skip
        if heard_of is not None:
            store.keep_names(connection, [SeenName(1, 990017, heard_of)], NOW)
    engine.dispose()
    return {"LOOPS_DATA_DIR": str(folder), "LOOPS_SECRET_KEY": KEY, "LOOPS_PUBLIC_URL": PUBLIC}


async def examined(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    found: list[Check] = await asyncio.to_thread(lambda: list(examine(None, environ)))
    return {check.name: (check.state, check.message) for check in found if check.name.startswith("github")}


async def test_a_connection_is_told_which_repositories_of_tasks_it_may_write_to(tmp_path):
    async with repository_github(tmp_path) as double:
        double.git.create(NAME, {"a": "b"})
        environ = installed(tmp_path, double.token_settings())
        task = {"prompt": {"value": "Mend it."}, "repository": {"value": NAME}}
        other = {"prompt": {"value": "Mend it."}, "repository": {"value": "acme/gone"}}
        engine = engine_for(f"sqlite:///{tmp_path / 'loops.db'}")
        with engine.begin() as connection:
            for number, inputs in enumerate((task, other)):
                config = {"template_id": "template-posthog-create-task", "inputs": inputs}
                definition = {"actions": [{"id": "task", "type": "function", "config": config}]}
                name = f"loop {number}"
                row = WorkflowRow(name, "default", name, "", "active", None, 1, definition, 1, 1, None, None, NOW, NOW)
                workflows.insert(connection, row)
        engine.dispose()
        found = await examined(environ)
        assert found[f"github hub1, tasks on {NAME}"] == ("ok", "it may write there")
        assert found["github hub1, tasks on acme/gone"][0] == "failed"
        double.permissions_told = {"push": False}
        assert (await examined(environ))[f"github hub1, tasks on {NAME}"][0] == "warning"


async def test_a_good_app_is_told_with_its_hook(hub, tmp_path):
    hub.failed(1, "a", 202)
    environ = installed(tmp_path, {**hub.app_settings(), "app_slug": "my-loops"})
    assert await examined(environ) == {
        "github hub1, app": ("ok", "it is my-loops, with what it needs"),
        "github hub1, hook": ("ok", "it leads here, and the last delivery was answered 202"),
    }


async def test_what_an_app_lacks_is_named(hub, tmp_path):
    hub.app_permissions.pop("members")
    hub.app_events.remove("membership")
    checks = await examined(installed(tmp_path, {**hub.app_settings(), "app_slug": "my-loops"}))
    told = (
        "it is my-loops and lacks members: read, to hear when members of an organization change; the event membership"
    )
    assert checks["github hub1, app"] == ("warning", told)
    assert checks["github hub1, hook"] == ("ok", "it leads here; nothing was delivered yet")


async def test_an_app_without_its_name_is_told_how_to_set_it(hub, tmp_path):
    environ = installed(tmp_path, hub.app_settings())
    found = await asyncio.to_thread(lambda: {check.name: check for check in examine(None, environ)})
    assert found["github hub1, app"].hint == "loops integrations update 1 --set app_slug=my-loops"


async def test_a_hook_that_leads_elsewhere_or_does_not_arrive_is_told(hub, tmp_path):
    hub.failed(1, "a", 0)
    environ = installed(tmp_path, {**hub.app_settings(), "app_slug": "my-loops"})
    told = "the last delivery did not reach the service"
    assert (await examined(environ))["github hub1, hook"] == ("warning", told)
    hub.hook_url = "https://old.example.org/hooks/github/1"
    state, message = (await examined(environ))["github hub1, hook"]
    assert (state, message.startswith("it leads to https://old.example.org")) == ("warning", True)


async def test_a_token_is_told_with_its_scopes_and_the_hooks_of_its_repositories(hub, tmp_path):
    hub.scopes = "repo, admin:repo_hook"
    hub.hooks["acme/widgets"] = [
        {"id": 6, "config": {"url": f"{PUBLIC}/hooks/github/1"}, "last_response": {"code": 502, "status": "failed"}}
    ]
    environ = installed(tmp_path, hub.token_settings(), heard_of="acme/widgets")
    assert await examined(environ) == {
        "github hub1, token": ("ok", "it is loops-bot's, with every scope"),
        "github hub1, hook of acme/widgets": ("warning", "the last delivery was answered 502"),
    }
    hub.scopes = "repo"
    hub.hooks["acme/widgets"] = []
    checks = await examined(environ)
    assert checks["github hub1, token"] == (
        "warning",
        "it is loops-bot's and lacks scopes: admin:repo_hook, to have deliveries that failed sent again",
    )
    assert checks["github hub1, hook of acme/widgets"][0] == "warning"
    hub.scopes = ""
    assert "does not tell what it may do" in (await examined(environ))["github hub1, token"][1]


async def test_credentials_that_do_not_work_are_told_without_showing_them(hub, tmp_path):
    environ = installed(
        tmp_path,
        {**hub.token_settings(), "token": "ghp_revoked"},
        {**hub.app_settings(), "app_id": "8"},
        {**hub.token_settings(), "api_base_url": "http://127.0.0.1:1"},
        {"webhook_secret": "s"},
    )
    checks = await examined(environ)
    assert {name: state for name, (state, _) in checks.items()} == {
        "github hub1, token": "failed",
        "github hub2, app": "failed",
        "github hub2, hook": "failed",
        "github hub3, token": "failed",
    }
    assert "status 401" in checks["github hub1, token"][1]
    assert "cannot be reached" in checks["github hub3, token"][1]
    assert "ghp_" not in str(checks)
