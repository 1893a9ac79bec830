"""What one look of the doctor gives."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """What one look gave, and what mends it."""

    name: str
    state: State
    message: str
    hint: str = ""
