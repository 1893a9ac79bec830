"""The columns that accepting a delivery writes, for both databases' fast paths."""

from typing import Any

from loops.ports import DeliveryRow

EPOCH = "SELECT value FROM loops_epochs WHERE name = 'definitions'"
COLUMNS = (*DeliveryRow._fields, "epoch", "attempts", "runs")


def accepted_values(row: DeliveryRow, epoch: int) -> tuple[Any, ...]:
    """The values of COLUMNS for one delivery."""
    return (*row, epoch, 0, 0)
