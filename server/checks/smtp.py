"""What is asked of a mail server: whether it is reached, secured as it should be, and takes the password. Nothing is
sent."""

from loops.connections.book import OpenConnection
from notify.message import Refused
from notify.registry import email_notifier
from server.checks.check import Check


async def smtp_check(one: OpenConnection) -> Check:
    """The check of one connection, which takes ten seconds at most."""
    name = f"smtp {one.name}"
    against = await email_notifier(one).check()
    if against is None:
        config = one.config
        signed = f", signed in as {config['username']}" if config.get("username") else ""
        security = config.get("security") or "starttls"
        way = "without TLS" if security == "none" else f"by {security}"
        return Check(name, "ok", f"{config['host']} is reached {way}{signed}")
    mend = against.mend if isinstance(against, Refused) else "check host, port and the network"
    return Check(name, "failed", against.reason, mend)
