"""The columns that accepting a delivery writes, for both databases' fast paths."""

from typing import Any

from loops.ports import DeliveryRow

EPOCH = "SELECT value FROM loops_epochs WHERE name = 'definitions'"
COLUMNS = (
    "id",
    "project_id",
    "connection_id",
    "source",
    "key",
    "name",
    "subject",
    "received_at",
    "epoch",
    "verified",
    "status",
    "reason",
    "attempts",
    "headers",
    "body",
    "size",
    "runs",
)


def accepted_values(row: DeliveryRow, epoch: int) -> tuple[Any, ...]:
    """The values of COLUMNS for one delivery."""
    return (
        row.id,
        row.project_id,
        row.connection_id,
        row.source,
        row.key,
        row.name,
        row.subject,
        row.received_at,
        epoch,
        row.verified,
        row.status,
        row.reason,
        0,
        row.headers,
        row.body,
        row.size,
        0,
    )
