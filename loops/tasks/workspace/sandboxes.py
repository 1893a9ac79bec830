"""Which kinds of sandbox there are: one module, and one line each."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from loops.errors import SandboxError
from loops.tasks.workspace.plain import WARNING, Plain
from loops.tasks.workspace.probing import Wanted, find_bwrap
from loops.tasks.workspace.sandbox import Room, Sandbox, Sandboxes

WALLED = "commands of tasks run in bubblewrap"

log = logging.getLogger("loops.tasks.sandbox")


async def _plain(_wanted: Wanted) -> Sandboxes:
    log.warning(WARNING)
    return Plain()


KINDS: Mapping[str, Callable[[Wanted], Awaitable[Sandboxes]]] = {
    "bwrap": find_bwrap,
    "none": _plain,
}
"""How each is found on this machine, by what LOOPS_SANDBOX calls it. Raises SandboxError where it is not there: nothing
falls back to another kind by itself."""


@dataclass(frozen=True, slots=True)
class Found:
    """The sandboxes of this machine; where there are none, `fault` says why, and opening one raises it."""

    sandboxes: Sandboxes
    fault: SandboxError | None = None

    @property
    def words(self) -> str:
        """How it stands, for anybody: why there is none, the log and `loops doctor` say."""
        if self.fault is not None:
            return "none works here, so what needs one is refused; loops doctor says why"
        return WARNING if self.sandboxes.tier == "none" else WALLED


@dataclass(frozen=True, slots=True)
class Missing:
    """What stands for sandboxes of a kind where this machine has none."""

    tier: str
    fault: SandboxError

    def own(self, path: Path) -> None:
        """See Sandboxes: nobody will run anything there."""

    @asynccontextmanager
    async def open(self, room: Room) -> AsyncIterator[Sandbox]:  # noqa: ARG002
        """See Sandboxes."""
        raise SandboxError(self.fault.message, hint=self.fault.hint)
        yield


async def find_sandboxes(kind: str, wanted: Wanted) -> Found:
    """The sandboxes of this machine, tried out."""
    try:
        return Found(await KINDS[kind](wanted))
    except SandboxError as fault:
        log.warning("no sandbox, so what needs one is refused: %s (%s)", fault.message, fault.hint)
        return Found(Missing(kind, fault), fault)
