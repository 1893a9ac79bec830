"""Whether the database can be written: only a write tells, on a full disk above all."""

import sqlalchemy as sa

from loops.store.once import insert_or_set
from loops.store.tables import epochs

_NAME = "ready"


def touch_readiness(connection: sa.Connection) -> None:
    """Write a row that means nothing."""
    connection.execute(insert_or_set(connection, epochs, ("value",)), {"name": _NAME, "value": 0})
