"""Two people who delete connections of one kind at once."""

import asyncio
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from loops.connections.removal import remove
from loops.errors import Conflict
from loops.store import connections, workflows
from loops.store.database import open_database
from loops.store.workflows import WorkflowRow

NOW = datetime.now(UTC)
HEARS = {
    "actions": [
        {
            "id": "trigger",
            "type": "trigger",
            "config": {"type": "internal-event", "filters": {"events": [{"id": "$slack_message_received"}]}},
        }
    ]
}


@pytest.mark.postgres
async def test_the_last_of_a_kind_that_is_needed_stays_though_another_is_deleted_at_the_same_time(
    postgres_url,
):
    opened, deleted = open_database(postgres_url), threading.Event()

    def two(connection: Any) -> list[int]:
        row = WorkflowRow("w", "default", "hears", "", "active", None, 1, HEARS, 1, 1, None, None, NOW, NOW)
        workflows.insert(connection, row)
        new: dict[str, Any] = {"project_id": "default", "kind": "slack", "config": {}, "secrets": "", "now": NOW}
        return [connections.insert(connection, name=name, **new) for name in ("one", "other")]

    def slowly(connection: Any) -> None:
        remove(connection, "default", first, force=False)
        deleted.set()
        time.sleep(0.2)  # the other is asked for meanwhile

    first, last = await opened.writer.run(two)
    one = asyncio.create_task(opened.writer.run(slowly))
    await asyncio.to_thread(deleted.wait, 10)
    with pytest.raises(Conflict, match="is needed by 'hears'"):
        await opened.writer.run(lambda connection: remove(connection, "default", last, force=False))
    await one
    await opened.aclose()
