"""Which connection reaches a repository, and what is said where none does."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from loops.connections.github_reach import RepositoryReach
from loops.errors import RepositoryError
from loops.store.connections import ConnectionRow
from tests.doubles.github import INSTALLATION
from tests.doubles.github_repository import NAME, RepositoryGitHub, repository_github
from tests.integration.test_github_client import clients, stored

__all__ = ["clients"]


class Rows:
    """A reader of these connections."""

    def __init__(self, *rows: ConnectionRow) -> None:
        self.rows = rows

    async def read(self, _fn: Any) -> Any:
        return list(self.rows)


@pytest.fixture
async def hub(tmp_path) -> AsyncIterator[RepositoryGitHub]:
    async with repository_github(tmp_path) as double:
        double.git.create(NAME, {"a": "b"})
        yield double


async def refusal(reach: RepositoryReach, name: str = NAME) -> RepositoryError:
    with pytest.raises(RepositoryError) as refused:
        await reach.find("default", name)
    assert refused.value.hint
    return refused.value


async def test_the_connection_of_the_event_comes_first_and_an_answer_is_good_for_a_minute(hub, clients):
    now = [0.0]
    reach = RepositoryReach(
        Rows(stored(hub.token_settings(), 1), stored(hub.token_settings(), 2)), clients, lambda: now[0]
    )
    found = await reach.find("default", NAME, prefer=2)
    assert (found.connection_id, found.full_name, found.branch, found.login) == (2, NAME, "main", "loops-bot")
    assert (await reach.find("default", "Acme/Widgets")).connection_id == 1
    hub.permissions_told = {"push": False}
    assert await reach.find("default", NAME, prefer=2) == found
    now[0] = 61.0
    assert "it may read acme/widgets, not write to it" in (await refusal(reach)).message


async def test_an_app_reaches_what_it_is_installed_on_under_its_own_name(hub, clients):
    found = await RepositoryReach(Rows(stored(hub.app_settings())), clients).find("default", NAME)
    assert found.login == "my-loops[bot]"
    assert (await found.client.git_token(NAME)).startswith("ghs_")
    hub.installed = {"acme/other": INSTALLATION}
    other = RepositoryReach(Rows(stored(hub.app_settings(), 5)), clients)
    assert "status 404" in (await refusal(other)).message


async def test_each_connection_says_why_it_does_not(hub, clients):
    bare = stored({"webhook_secret": "x" * 20, "api_base_url": hub.url}, 1)
    wrong = stored({"token": "ghp_wrong-token-here", "api_base_url": hub.url}, 2)
    told = (await refusal(RepositoryReach(Rows(bare, wrong), clients))).message
    assert "has no token and no app" in told
    assert "Bad credentials" in told
    assert "the project has none" in (await refusal(RepositoryReach(Rows(), clients))).message


async def test_an_archived_repository_and_a_clone_address_elsewhere_are_refused(hub, clients):
    reach = RepositoryReach(Rows(stored(hub.token_settings())), clients)
    hub.archived = True
    assert "is archived" in (await refusal(reach)).message
    hub.archived, hub.root = False, "http://elsewhere.example"
    assert "is no repository of this GitHub's" in (await refusal(reach)).message


async def test_connections_of_another_project_are_not_asked(hub, clients):
    theirs = replace(stored(hub.token_settings()), project_id="other")
    assert "the project has none" in (await refusal(RepositoryReach(Rows(theirs), clients))).message
