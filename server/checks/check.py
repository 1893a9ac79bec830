"""What one look at a part of an installation gives."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

State: TypeAlias = Literal["ok", "warning", "failed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """What one look gave, and what mends it."""

    name: str
    state: State
    message: str
    hint: str = ""


def told(checks: Sequence[Check]) -> dict[str, Any]:
    """Checks as programs read them; `healthy` unless one has failed."""
    healthy = all(check.state != "failed" for check in checks)
    return {"healthy": healthy, "checks": [dataclasses.asdict(check) for check in checks]}
