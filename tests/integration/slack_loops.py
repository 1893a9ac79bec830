"""Slack connections, loops that listen to a channel, and messages, for the tests of a running service."""

import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from loops.store import connections, tables
from tests.integration.running import PROJECT, Running, log_action, workflow
from tests.unit.triggers.slack.deliveries import fixture

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
MENTION = "message__mention"


def post(event_id: str, ts: str, name: str = "message__plain", **event: Any) -> dict[str, Any]:
    """A message, as the app of the connection hears it."""
    return fixture(name, {"ts": ts, "event_ts": ts, **event}, event_id=event_id)


def listening(name: str = "slack", channel: str = "C0ALERTS", *filters: Mapping[str, Any]) -> dict[str, Any]:
    """A workflow that notes each message of a channel."""
    document = workflow(name, log_action("note", "heard {event.properties.text}"))
    exact = {"key": "channel", "value": [channel], "operator": "exact", "type": "event"}
    document["actions"][0]["config"]["filters"] = {
        "source": "internal-events",
        "events": [{"id": "$slack_message_received", "type": "events"}],
        "properties": [exact, *filters],
    }
    return document


async def connect(live: Running, name: str, project: str = PROJECT, **settings: str) -> int:
    """A Slack connection, stored as the API stores it."""
    secrets = {key: value for key, value in settings.items() if key.endswith(("token", "secret"))}
    config = {key: value for key, value in settings.items() if key not in secrets}
    sealed = live.services.box.seal(secrets)

    def put(connection: sa.Connection) -> int:
        return connections.insert(
            connection,
            project_id=project,
            kind="slack",
            name=name,
            config=config,
            secrets=sealed,
            now=live.services.clock.now(),
        )

    return await live.write(put)


async def config_of(live: Running, connection_id: int) -> Mapping[str, Any]:
    row = await live.read(lambda connection: connections.get(connection, connection_id))
    return {} if row is None else row.config


async def deliveries_of(live: Running, connection_id: int) -> list[Mapping[str, Any]]:
    """Every delivery of a connection, the oldest first."""
    query = sa.select(tables.deliveries).where(tables.deliveries.c.connection_id == connection_id)
    return await live.read(
        lambda connection: [dict(row) for row in connection.execute(query.order_by("id")).mappings()]
    )


def signed(body: bytes, *, apart: int = 0, secret: str = SECRET, form: bool = False) -> dict[str, str]:
    """Headers as Slack sends them, signed `apart` seconds from now."""
    timestamp = str(int(time.time()) + apart)
    digest = hmac.digest(secret.encode(), f"v0:{timestamp}:".encode() + body, "sha256").hex()
    return {
        "Content-Type": "application/x-www-form-urlencoded" if form else "application/json",
        "X-Slack-Request-Timestamp": timestamp,
        "X-Slack-Signature": f"v0={digest}",
    }


def encoded(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else json.dumps(payload).encode()
