"""A service that works on repositories, behind the fuse of the killer."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from loops.runs import lease
from loops.store import outputs
from loops.tasks.outputs.writing import WritingRules
from server.app import Role, Service, Wiring
from tests.acceptance.killer import Fuse, fused_wiring
from tests.doubles.plain_sandbox import PlainSandboxes
from tests.integration.repository_tasks import script
from tests.integration.running import settings_for
from tests.integration.tasking import scripted


def wiring() -> Wiring:
    writing = WritingRules(pauses=(0.1, 0.1), settle=timedelta(seconds=1))
    return replace(scripted(script, fused_wiring(Fuse())), sandboxes=PlainSandboxes(), writing=writing)


def serve(folder: Path, url: str, port: int, role: Role, *, hasty: bool) -> None:
    """Run until killed."""
    if hasty:
        outputs.LEASE = timedelta(seconds=1.5)
        lease.TTL_SECONDS, lease.BEAT_SECONDS, lease._SURRENDER_SECONDS = 1.5, 0.3, 30.0
    asyncio.run(_serve(folder, url, port, role))


async def _serve(folder: Path, url: str, port: int, role: Role) -> None:
    service = Service(settings_for(folder, url, port=str(port)), role, wiring())
    try:
        await service.start()
        await service.stopping.wait()
    finally:
        await service.stop()
