"""What is asked of the runners that an operator set up: whether they are there, and which version they are."""

import asyncio
from collections.abc import Sequence

from config.runner_settings import RunnerSettings
from loops.errors import ConfigError
from loops.tasks.runners.external import needs_sandbox
from loops.tasks.runners.program import version_of
from server.checks.check import Check


async def runner_checks(runners: Sequence[RunnerSettings], sandbox: str) -> list[Check]:
    """One check a runner, all at once. Each is started for its version, and for nothing else; none works where
    `sandbox` is none."""
    return list(await asyncio.gather(*(_check(one, sandbox) for one in runners)))


async def _check(runner: RunnerSettings, sandbox: str) -> Check:
    name = f"runner {runner.name}"
    if sandbox == "none":
        error = needs_sandbox(runner.name)
        return Check(name, "failed", error.message, error.hint)
    try:
        version = await version_of(runner)
    except ConfigError as error:
        return Check(name, "failed", error.faults[0].message, error.faults[0].hint)
    if not version and not runner.is_command:
        return Check(name, "warning", f"{runner.program} does not tell its version", "see that it is what it should be")
    if runner.version is None and not runner.is_command:
        mend = f"set version to {version}: their output changes with releases"
        return Check(name, "warning", f"version {version} at {runner.program}, and any other would be taken", mend)
    return Check(name, "ok", f"{f'version {version}' if version else 'found'} at {runner.program}")
