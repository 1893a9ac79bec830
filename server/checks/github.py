"""What is asked of GitHub about a connection: whether its credentials work, what they allow, and whether the hook leads
here and is answered."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import quote

from loops.connections.github import GitHubClient, GitHubClients
from loops.connections.secrets import SecretBox
from loops.errors import ExternalError
from loops.event import JsonValue
from loops.store.connections import ConnectionRow
from server.checks.check import Check
from triggers.redelivery import leading_to

SECONDS = 5.0
_MOST_WORKED_ON = 5
_OK = range(200, 300)

PERMISSIONS: Mapping[str, tuple[str, str]] = {
    "metadata": ("read", "ask what people may do in a repository"),
    "members": ("read", "hear when members of an organization change"),
}
"""What the receiving side needs of an app, and what for."""
EVENTS = ("member", "membership", "organization", "repository")
SCOPES: Mapping[str, str] = {
    "repo": "ask what people may do in a private repository",
    "admin:repo_hook": "have deliveries that failed sent again",
}
"""What it needs of a classic token."""


async def github_checks(
    row: ConnectionRow,
    repositories: Sequence[str],
    box: SecretBox,
    public_url: str,
    worked_on: Sequence[str] = (),
) -> list[Check]:
    """The checks of a connection, of which each takes some seconds at most; none where it has no credentials.
    `repositories` are those that it has heard of, `worked_on` those that tasks of the project work on."""
    clients = GitHubClients(box)
    try:
        client = clients.of(row)
        if client is None:
            return []
        checks = await _connection(row, client, repositories, public_url)
        for repository in worked_on[:_MOST_WORKED_ON]:
            name = f"github {row.name}, tasks on {repository}"
            checks.append(await _told(name, _task_on(client, repository)))
        return checks
    finally:
        clients.close()


async def _connection(
    row: ConnectionRow, client: GitHubClient, repositories: Sequence[str], public_url: str
) -> list[Check]:
    url = f"{public_url}/hooks/github/{row.id}"
    if client.is_app:
        checks = [await _told(f"github {row.name}, app", lambda name: _app(name, client, row))]
        return [*checks, await _told(f"github {row.name}, hook", lambda name: _app_hook(name, client, url))]
    checks = [await _told(f"github {row.name}, token", lambda name: _token(name, client))]
    for repository in repositories:
        name = f"github {row.name}, hook of {repository}"
        checks.append(await _told(name, _hook_of(client, repository, row.id, public_url)))
    return checks


async def _told(name: str, ask: Callable[[str], Awaitable[Check]]) -> Check:
    try:
        return await ask(name)
    except ExternalError as error:
        return Check(name, "failed", error.message, error.hint)


async def _token(name: str, client: GitHubClient) -> Check:
    answer = await client.call("GET", "/user", seconds=SECONDS)
    login, told = answer.text("login"), answer.headers.get("x-oauth-scopes")
    if not told:
        return Check(name, "ok", f"it is {login}'s; GitHub does not tell what it may do")
    scopes = {one.strip() for one in told.split(",")}
    missing = [f"{scope}, to {use}" for scope, use in SCOPES.items() if scope not in scopes]
    if missing:
        return Check(
            name, "warning", f"it is {login}'s and lacks scopes: {'; '.join(missing)}", "give it what you need"
        )
    return Check(name, "ok", f"it is {login}'s, with every scope")


async def _app(name: str, client: GitHubClient, row: ConnectionRow) -> Check:
    answer = await client.call("GET", "/app", seconds=SECONDS)
    body = answer.body if isinstance(answer.body, dict) else {}
    slug, permissions, events = answer.text("slug"), _object(body.get("permissions")), body.get("events")
    if row.config.get("app_slug") != slug:
        told = "its own doings are not known as its own"
        return Check(name, "warning", told, f"loops integrations update {row.id} --set app_slug={slug}")
    lacking = [f"{one}: {level}, to {use}" for one, (level, use) in PERMISSIONS.items() if one not in permissions]
    heard = events if isinstance(events, list) else []
    lacking += [f"the event {event}" for event in EVENTS if event not in heard]
    if lacking:
        return Check(name, "warning", f"it is {slug} and lacks {'; '.join(lacking)}", "add it in the app's settings")
    return Check(name, "ok", f"it is {slug}, with what it needs")


async def _app_hook(name: str, client: GitHubClient, url: str) -> Check:
    found = (await client.call("GET", "/app/hook/config", seconds=SECONDS)).text("url").rstrip("/")
    if found != url:
        told = f"it leads to {found or 'nowhere'}, and this connection's address is {url}"
        return Check(name, "warning", told, "correct the webhook URL in the app's settings, or LOOPS_PUBLIC_URL")
    last = (await client.call("GET", "/app/hook/deliveries?per_page=1", seconds=SECONDS)).items()
    return _reached(name, last[0].get("status_code") if last else None)


def _task_on(client: GitHubClient, repository: str) -> Callable[[str], Awaitable[Check]]:
    async def ask(name: str) -> Check:
        answer = await client.call("GET", f"/repos/{quote(repository)}", repository=repository, seconds=SECONDS)
        told = answer.body if isinstance(answer.body, dict) else {}
        if _object(told.get("permissions")).get("push") is False:
            hint = "let it write contents and pull requests there, unless another connection does"
            return Check(name, "warning", "it may read the repository, not write to it", hint)
        return Check(name, "ok", "it may write there")

    return ask


def _hook_of(
    client: GitHubClient, repository: str, connection_id: int, public_url: str
) -> Callable[[str], Awaitable[Check]]:
    async def ask(name: str) -> Check:
        listed = (await client.call("GET", f"/repos/{quote(repository)}/hooks?per_page=100", seconds=SECONDS)).items()
        numbers = leading_to(connection_id, public_url, listed)
        hook = next((one for one in listed if one.get("id") in numbers), None)
        if hook is None:
            told = f"no webhook of the repository leads to {public_url}/hooks/github/{connection_id}"
            return Check(name, "warning", told, "an organization's may; else add one, or set LOOPS_PUBLIC_URL")
        return _reached(name, _object(hook.get("last_response")).get("code"))

    return ask


def _reached(name: str, status: JsonValue) -> Check:
    if not isinstance(status, int):
        return Check(name, "ok", "it leads here; nothing was delivered yet")
    if status in _OK:
        return Check(name, "ok", f"it leads here, and the last delivery was answered {status}")
    told = f"the last delivery was answered {status}" if status else "the last delivery did not reach the service"
    return Check(name, "warning", told, "see docs/guides/why-did-it-not-fire.md, and Recent Deliveries on GitHub")


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
