"""The columns that accepting a delivery writes, for both databases' fast paths."""

from collections.abc import Sequence
from typing import Any

import zstandard

from loops.ports import DeliveryRow

EPOCH = "SELECT value FROM loops_epochs WHERE name = 'definitions'"
UNHEARD = "no loop listens for it"
GIVEN = tuple(name for name in DeliveryRow._fields if name != "unheard")
COLUMNS = (*GIVEN, "epoch", "attempts", "runs")


def settled(column: str, value: str, unheard: str) -> str:
    """The SQL of a column's value: `value`, unless the delivery is settled as it is stored."""
    settled_as = {"status": "'ignored'", "reason": f"'{UNHEARD}'"}.get(column)
    return value if settled_as is None else f"CASE WHEN {unheard} = ({EPOCH}) THEN {settled_as} ELSE {value} END"


class Packing:
    """Compresses bodies for the table. One call for a group: it gives the interpreter's lock away once."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdCompressor(level=1)

    def bodies(self, rows: Sequence[DeliveryRow]) -> list[Any]:
        """The compressed bodies, as buffers, in the order of the rows."""
        if not all(row.body for row in rows):  # the library's call for many takes no empty one
            return [self._zstd.compress(row.body) for row in rows]
        packed: Any = self._zstd.multi_compress_to_buffer([row.body for row in rows])
        return list(packed)
