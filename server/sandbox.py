"""The sandbox of this process: found at start, shown where an operator looks."""

import tempfile
from pathlib import Path

from config.settings import Settings
from loops.tasks.workspace.plain import WARNING
from loops.tasks.workspace.probing import Wanted
from loops.tasks.workspace.sandboxes import WALLED, Found, find_sandboxes
from server.checks.check import Check
from server.wiring import Wiring


async def sandbox_of(settings: Settings, wiring: Wiring) -> Found:
    """What commands of tasks run in here, tried out."""
    if wiring.sandboxes is not None:
        return Found(wiring.sandboxes)
    return await find_sandboxes(settings.sandbox, _wanted(settings, settings.work_dir))


def sandbox_warning(settings: Settings) -> str:
    """What everybody should know who uses this service; nothing where commands are kept in a sandbox."""
    return WARNING if settings.sandbox == "none" else ""


async def sandbox_check(settings: Settings, told: str = "") -> Check:
    """Whether commands of tasks can run, for `loops doctor`. What the running service has `told` counts: it may be
    started in another way than this shell, where it is tried out otherwise. It leaves nothing behind."""
    if told == WALLED:
        return Check("sandbox", "ok", f"of the running service: {told}")
    if told == WARNING:
        return Check("sandbox", "warning", told, "unset LOOPS_SANDBOX where the service is started")
    here = await _tried(settings)
    if told and here.state == "ok":
        mend = "one works from this shell: see what the service may not do that this shell may; its log says why"
        return Check("sandbox", "warning", "none works in the running service", mend)
    return here


async def _tried(settings: Settings) -> Check:
    work_dir = settings.work_dir
    standing = next(one for one in (work_dir, *work_dir.parents) if one.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=".loops-doctor-", dir=standing) as folder:
            found = await find_sandboxes(settings.sandbox, _wanted(settings, Path(folder)))
    except OSError as error:
        return Check("sandbox", "failed", f"{work_dir} cannot be written: {error.strerror}", "see LOOPS_WORK_DIR")
    if found.fault is not None:
        return Check("sandbox", "warning", f"none works here: {found.fault.message}", found.fault.hint)
    if found.sandboxes.tier == "none":
        return Check("sandbox", "warning", WARNING, "unset LOOPS_SANDBOX")
    return Check("sandbox", "ok", found.words)


def _wanted(settings: Settings, work_dir: Path) -> Wanted:
    hidden = (settings.data_dir, settings.work_dir, Path.cwd())
    return Wanted(work_dir, settings.sandbox_user, settings.allowed_hosts, hidden)
