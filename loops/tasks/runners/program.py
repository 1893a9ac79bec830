"""The program of a runner on this machine: where its sandbox finds it, and which version it is."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from config.runner_settings import RunnerSettings
from loops.errors import ConfigError, Fault

INSIDE = "/opt/runner"
"""Where the folder of a program stands inside."""
_SYSTEM = (Path("/usr"), Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib64"))
_SECONDS = 20.0
_VERSION = re.compile(r"\d+(?:\.\d+)+[0-9A-Za-z.+_-]*")


@dataclass(frozen=True, slots=True)
class Program:
    """Where a program stands inside a sandbox, and what of this machine that takes."""

    path: str
    readable: Mapping[str, Path]


def program_of(runner: RunnerSettings) -> Program:
    """The program, its folder readable and nothing more. Raises ConfigError where there is none."""
    place = f"runners.{runner.name}"
    try:
        real = runner.program.resolve(strict=True)
        is_file = real.is_file()
    except OSError:
        is_file = False
    if not is_file:
        raise ConfigError([Fault(place, f"{runner.program} is not there", "install it, or name where it is")])
    missing = [folder for folder in runner.readable if not folder.exists()]
    if missing:
        raise ConfigError([Fault(place, f"{missing[0]} is not there", "name folders in readable that are")])
    readable = {str(folder): folder for folder in runner.readable}
    if any(real.is_relative_to(folder) for folder in _SYSTEM):
        return Program(str(real), readable)
    if any(real.is_relative_to(folder.resolve()) for folder in runner.readable):
        return Program(str(runner.program), readable)
    return Program(f"{INSIDE}/{real.name}", {**readable, INSIDE: real.parent})


async def version_of(runner: RunnerSettings) -> str:
    """What the program says that its version is; empty where it says nothing. Raises ConfigError where it cannot be
    asked, or says another one than is wanted."""
    program_of(runner)
    place = f"runners.{runner.name}"
    try:
        # It is asked outside of any sandbox, with nothing of the service's environment.
        process = await asyncio.create_subprocess_exec(
            str(runner.program),
            "--version",
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        fault = Fault(place, f"{runner.program} cannot be started: {error.strerror}", "name a program for this machine")
        raise ConfigError([fault]) from error
    try:
        async with asyncio.timeout(_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError:
        fault = Fault(place, f"--version gave no answer within {_SECONDS:g} seconds", "start it by hand and see")
        raise ConfigError([fault]) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = _VERSION.search(printed[:4_096].decode("utf-8", "replace"))
    version = found[0] if found and process.returncode == 0 else ""
    if runner.version is not None and runner.version != version:
        told = f"is version {version}" if version else "does not tell its version"
        hint = "install that version, or try the other one and set version to it"
        raise ConfigError([Fault(place, f"{told}, not {runner.version}", hint)])
    return version
