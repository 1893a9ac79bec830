"""The repositories that a GitHub connection sees: those of a token's user, or all that an app is installed on.

GitHub counts every question, so what it told is kept for a while.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loops.connections.github import LEAST_REMAINING, GitHubClient, GitHubClients, spared
from loops.errors import Conflict, ExternalError, NotFound
from loops.ports import Reader
from loops.store import connections as store
from loops.store.connections import ConnectionRow

LISTED_SECONDS = 60.0
"""For how long a list is good, and a refusal told again instead of asked for again."""

_SECONDS = 10.0
_PAGE = 100
_MOST_PAGES = 50
_MOST_INSTALLATIONS = 50


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as GitHub tells of it; `can_push` is whether the credentials may write to it, None where GitHub does
    not say."""

    id: int
    full_name: str
    private: bool
    archived: bool
    default_branch: str
    can_push: bool | None


class GitHubRepositories:
    """Lists of the stored connections, each read anew when it is old or its connection has changed."""

    def __init__(self, reader: Reader, clients: GitHubClients, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clients = clients
        self._clock = clock
        self._asking = asyncio.Lock()
        self._listed: dict[int, tuple[GitHubClient, float, tuple[Repository, ...] | ExternalError]] = {}

    async def of(self, project_id: str, connection_id: int) -> tuple[Repository, ...]:
        """Every repository of a GitHub connection, by name. Raises NotFound, Conflict where it has no credentials, or
        ExternalError, whose hint says what mends it."""
        row = await self._reader.read(lambda connection: store.get(connection, connection_id))
        client = self._client(project_id, connection_id, row)
        async with self._asking:
            known = self._listed.get(connection_id)
            if known is None or known[0] is not client or self._clock() - known[1] >= LISTED_SECONDS:
                known = client, self._clock(), await _listed(client)
                self._listed[connection_id] = known
            if isinstance(known[2], ExternalError):
                raise known[2].with_traceback(None)
            return known[2]

    def _client(self, project_id: str, connection_id: int, row: ConnectionRow | None) -> GitHubClient:
        if row is None or row.project_id != project_id or row.kind != "github":
            raise NotFound(f"there is no github connection {connection_id}", hint="see: loops integrations list")
        client = self._clients.of(row)
        if client is None:
            mend = f"loops integrations update {connection_id} --set token=…, or app_id and private_key"
            raise Conflict(f"the GitHub connection {row.name!r} has no credentials that can be used", hint=mend)
        return client


async def _listed(client: GitHubClient) -> tuple[Repository, ...] | ExternalError:
    try:
        found = {one.full_name.lower(): one for one in await _repositories(client)}
    except ExternalError as error:
        return error
    return tuple(found[name] for name in sorted(found))


async def _repositories(client: GitHubClient) -> list[Repository]:
    if not client.is_app:
        path = "/user/repos?affiliation=owner,collaborator,organization_member"
        return [one async for one in _pages(client, path)]
    answer = await client.call("GET", f"/app/installations?per_page={_MOST_INSTALLATIONS}", seconds=_SECONDS)
    numbers = [number for one in answer.items() if isinstance(number := one.get("id"), int)]
    return [one for number in numbers async for one in _pages(client, "/installation/repositories?", number)]


async def _pages(client: GitHubClient, path: str, installation: int | None = None) -> AsyncIterator[Repository]:
    """The repositories of a list, page by page. Raises ExternalError while the last calls are kept for runs."""
    for page in range(1, _MOST_PAGES + 1):
        left = client.remaining(installation)
        if left is not None and left < LEAST_REMAINING:
            raise spared(left)
        asked = f"{path}&per_page={_PAGE}&page={page}".replace("?&", "?")
        answer = await client.call("GET", asked, installation=installation, seconds=_SECONDS)
        for told in answer.items("repositories"):
            yield _repository(told)
        if not answer.goes_on:
            return


def _repository(told: Mapping[str, Any]) -> Repository:
    permissions = told.get("permissions")
    return Repository(
        id=int(told.get("id") or 0),
        full_name=str(told.get("full_name") or ""),
        private=told.get("private") is True,
        archived=told.get("archived") is True,
        default_branch=str(told.get("default_branch") or ""),
        can_push=permissions.get("push") is True if isinstance(permissions, Mapping) else None,
    )
