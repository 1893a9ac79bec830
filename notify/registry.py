"""Which connection a message leaves through: one line a kind of target."""

from collections.abc import Callable, Mapping
from email.utils import parseaddr

from loops.connections.book import ConnectionBook, OpenConnection
from loops.connections.kinds import SMTP_PORTS
from loops.connections.slack import api_of
from loops.errors import NotFound
from notify.email import EmailNotifier, Security, Server
from notify.message import CONNECTION_KIND, Address, Notifier, Target, Unconnected
from notify.slack import SlackNotifier


def slack_notifier(connection: OpenConnection) -> Notifier | Unconnected:
    """Posts as the bot of a Slack connection."""
    token = connection.secrets.get("bot_token")
    if not token:
        mend = f"loops integrations update {connection.id} --set bot_token=…"
        return Unconnected(f"the Slack connection {connection.name!r} has no bot_token", mend, alone=False)
    return SlackNotifier(token, base_url=api_of(connection.config))


def email_notifier(connection: OpenConnection) -> EmailNotifier:
    """Sends through the mail server of an smtp connection, from its address."""
    config = connection.config
    security = _security(str(config.get("security") or "starttls"))
    server = Server(
        host=str(config["host"]),
        port=int(config.get("port") or SMTP_PORTS[security]),
        security=security,
        username=str(config.get("username") or ""),
        password=connection.secrets.get("password", ""),
    )
    name, address = parseaddr(str(config["from"]))
    return EmailNotifier(server, Address(address, name))


def _security(stored: str) -> Security:
    return "tls" if stored == "tls" else "none" if stored == "none" else "starttls"


MAKERS: Mapping[str, tuple[str, Callable[[OpenConnection], Notifier | Unconnected]]] = {
    "slack": (CONNECTION_KIND["slack"], slack_notifier),
    "email": (CONNECTION_KIND["email"], email_notifier),
}
"""The kind of connection that a kind of target asks for, and what makes a notifier of it."""


class ConnectedNotifiers:
    """Notifiers over the stored connections, made anew when those change."""

    def __init__(self, book: ConnectionBook) -> None:
        self._book = book
        self._made: dict[int, tuple[OpenConnection, Notifier | Unconnected]] = {}

    async def of(self, target: Target, project_id: str) -> Notifier | Unconnected:
        """See Notifiers.of."""
        if target.connection_id is None or target.kind not in MAKERS:
            return Unconnected("it has no connection")
        kind, make = MAKERS[target.kind]
        try:
            opened = await self._book.of_project(project_id, target.connection_id, kind)
        except NotFound:
            return await self._none(target.connection_id, kind, project_id)
        known = self._made.get(opened.id)
        if known is not None and known[0] is opened:
            return known[1]
        notifier = make(opened)
        self._made[opened.id] = (opened, notifier)
        return notifier

    async def _none(self, wanted: int, kind: str, project_id: str) -> Unconnected:
        found = await self._book.unfit(project_id, kind, wanted)
        if found is None:  # it was made in this moment
            raise NotFound(f"there is no {kind} connection {wanted} yet")
        return Unconnected(found.reason, found.mend, found.alone)
