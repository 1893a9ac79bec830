"""One connection looked at: what `loops integrations check` and `loops doctor` say of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import sqlalchemy as sa

from loops.connections.book import OpenConnection
from loops.connections.secrets import SecretBox
from loops.connections.uses import SlackUse, slack_uses, worked_on
from loops.store import github as github_store
from loops.store import workflows
from loops.store.connections import ConnectionRow
from server.checks.check import Check
from server.checks.github import github_checks
from server.checks.slack import slack_checks
from server.checks.smtp import smtp_check

_MOST_REPOSITORIES = 5
_UNASKED: Mapping[str, str] = {
    "github": "it has a webhook_secret, and neither token nor app to ask GitHub with",
    "slack": "it has a signing_secret, and no token to ask Slack with",
    "posthog": "PostHog sends, and there is nothing to ask it",
    "webhook": "its senders send, and there is nothing to ask them",
}


_NO_COMMANDS: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Looked:
    """A connection with what the database has on it: what active loops do over it, the repositories that it heard of
    last, and those that tasks work on."""

    row: ConnectionRow
    opened: OpenConnection
    slack: Sequence[SlackUse] = ()
    repositories: Sequence[str] = ()
    worked_on: Sequence[str] = ()


def look_up(connection: sa.Connection, row: ConnectionRow, opened: OpenConnection) -> Looked:
    """What the checks of a connection need of the database."""
    if row.kind == "slack":
        active = workflows.active(connection, row.project_id)
        return Looked(row, opened, slack=[use for name, stored in active for use in slack_uses(name, stored, row.id)])
    if row.kind == "github":
        names = github_store.names_of(connection, row.id, _MOST_REPOSITORIES)
        heard_of = [*{one.repository_id: one.name for one in names}.values()]
        active = workflows.active(connection, row.project_id)
        return Looked(row, opened, (), heard_of, sorted({one for _, stored in active for one in worked_on(stored)}))
    return Looked(row, opened)


async def connection_checks(
    looked: Looked, box: SecretBox, public_url: str, commands: Mapping[str, Sequence[str]] = _NO_COMMANDS
) -> list[Check]:
    """What the outside says of a connection; empty where there is nobody to ask. Changes nothing there. `commands` are
    the operator's; see LOOPS_MCP_COMMANDS."""
    if looked.row.kind == "mcp":
        from server.checks.mcp import mcp_checks  # with the protocol, which a service starts without

        return await mcp_checks(looked.opened, commands)
    if looked.row.kind == "slack":
        return await slack_checks(looked.opened, looked.slack)
    if looked.row.kind == "github":
        return await github_checks(looked.row, looked.repositories, box, public_url, looked.worked_on)
    return [await smtp_check(looked.opened)] if looked.row.kind == "smtp" else []


def unasked(row: ConnectionRow) -> Check:
    """What is said of a connection of which nothing was asked."""
    return Check(f"{row.kind} {row.name}", "ok", _UNASKED[row.kind])
