"""What is asked of the runners that an operator set up: whether they are there, and which version they are."""

import asyncio
from collections.abc import Sequence

from config.runner_settings import RunnerSettings
from loops.errors import ConfigError
from loops.tasks.runners.program import version_of
from server.checks.check import Check


async def runner_checks(runners: Sequence[RunnerSettings]) -> list[Check]:
    """One check a runner, all at once. Each is started for its version, and for nothing else."""
    return list(await asyncio.gather(*map(_check, runners)))


async def _check(runner: RunnerSettings) -> Check:
    name = f"runner {runner.name}"
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
