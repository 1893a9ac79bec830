"""Which connection of a project reaches a repository, and what is known of that there."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from loops.connections.github import GitHubClient, GitHubClients, api_of
from loops.errors import ExternalError, RepositoryError
from loops.ports import Reader
from loops.store import connections as store
from loops.store.connections import ConnectionRow

SECONDS = 10.0
KNOWN_SECONDS = 60.0
"""For how long an answer is good."""
_MOST_KNOWN = 1_000
_CONNECT = "loops integrations create github --name NAME --set token=… (or app_id and private_key)"


@dataclass(frozen=True, slots=True)
class Reached:
    """A repository, and who reaches it: `login` is the name that everything is written under there. `kilobytes` is its
    size as GitHub tells it."""

    client: GitHubClient
    connection_id: int
    id: int
    full_name: str
    clone_url: str
    branch: str
    kilobytes: int
    login: str

    @property
    def home(self) -> str:
        """See home_of."""
        return home_of(self.clone_url)

    @property
    def path(self) -> str:
        """Where its API is, below the API's root."""
        return f"/repos/{quote(self.full_name)}"


class RepositoryReach:
    """Asks the GitHub connections of a project, one after the other, which of them may write to a repository."""

    def __init__(self, reader: Reader, clients: GitHubClients, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clients = clients
        self._clock = clock
        self._known: dict[tuple[str, str, int | None], tuple[float, Reached]] = {}

    async def find(self, project_id: str, name: str, prefer: int | None = None) -> Reached:
        """The first connection that may push, `prefer` before all others. Raises RepositoryError, which says what each
        connection was told and what mends it."""
        key = (project_id, name.lower(), prefer)
        known = self._known.get(key)
        if known is not None and self._clock() - known[0] < KNOWN_SECONDS:
            return known[1]
        found = await self._asked(project_id, name, prefer)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = self._clock(), found
        return found

    async def _asked(self, project_id: str, name: str, prefer: int | None) -> Reached:
        rows = await self._reader.read(lambda connection: store.of_kind(connection, "github"))
        ours = sorted((row for row in rows if row.project_id == project_id), key=lambda row: row.id != prefer)
        told: list[str] = []
        for row in ours:
            client = self._clients.of(row)
            if client is None:
                told.append(f"{row.name!r} has no token and no app")
                continue
            try:
                return await self._reached(row, client, name)
            except (ExternalError, RepositoryError) as error:
                told.append(f"{row.name!r}: {error.message}")
        if not told:
            raise RepositoryError(f"no connection reaches {name}: the project has none to GitHub", hint=_CONNECT)
        hint = "let the token or the app write contents and pull requests of this repository, or connect another"
        raise RepositoryError(f"no connection reaches {name}: {'; '.join(told)}", hint=hint)

    async def _reached(self, row: ConnectionRow, client: GitHubClient, name: str) -> Reached:
        answer = await client.call("GET", f"/repos/{quote(name)}", repository=name, seconds=SECONDS)
        told: Mapping[str, Any] = answer.body if isinstance(answer.body, dict) else {}
        permissions = told.get("permissions")
        if isinstance(permissions, Mapping) and permissions.get("push") is False:
            raise RepositoryError(f"it may read {name}, not write to it")
        if told.get("archived") is True:
            raise RepositoryError(f"{name} is archived", hint="unarchive it on GitHub")
        number, address = told.get("id"), str(told.get("clone_url") or "")
        if not isinstance(number, int) or not _is_home(address, api_of(row.config)):
            raise RepositoryError(f"what was told of {name} is no repository of this GitHub's")
        size = told.get("size")
        return Reached(
            client=client,
            connection_id=row.id,
            id=number,
            full_name=str(told.get("full_name") or name),
            clone_url=address,
            branch=str(told.get("default_branch") or "main"),
            kilobytes=size if isinstance(size, int) else 0,
            login=await _login(client),
        )


def home_of(clone_url: str) -> str:
    """The host of the pages of a GitHub, with the port where that is not the usual one; empty for github.com."""
    host = urlsplit(clone_url).netloc.rpartition("@")[2].lower()
    return "" if host == "github.com" else host


async def _login(client: GitHubClient) -> str:
    """The name that everything is written under."""
    if client.is_app:
        return f"{(await client.call('GET', '/app', seconds=SECONDS)).text('slug')}[bot]"
    return (await client.call("GET", "/user", seconds=SECONDS)).text("login")


def _is_home(address: str, api: str) -> bool:
    """Whether an address to clone from belongs to the API that names it: a token is sent there."""
    to, home = urlsplit(address), urlsplit(api)
    if to.scheme != home.scheme or to.username or to.password or not to.hostname:
        return False
    host = home.hostname or ""
    return to.hostname in {host, host.removeprefix("api.")} and to.port == home.port
