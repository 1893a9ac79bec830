"""The columns that accepting a delivery writes, for both databases' fast paths."""

from loops.ports import DeliveryRow

EPOCH = "SELECT value FROM loops_epochs WHERE name = 'definitions'"
UNHEARD = "no loop listens for it"
GIVEN = tuple(name for name in DeliveryRow._fields if name != "unheard")
COLUMNS = (*GIVEN, "epoch", "attempts", "runs")


def settled(column: str, value: str, unheard: str) -> str:
    """The SQL of a column's value: `value`, unless the delivery is settled as it is stored."""
    settled_as = {"status": "'ignored'", "reason": f"'{UNHEARD}'"}.get(column)
    return value if settled_as is None else f"CASE WHEN {unheard} = ({EPOCH}) THEN {settled_as} ELSE {value} END"
