"""git on this machine, for folders that no agent has touched: no hooks, filters, prompts or settings of anybody else.

A token travels in the environment of one process, bound to one address: it is in no argument, no address and no file.
"""

import asyncio
import base64
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loops.errors import RepositoryError

SECONDS = 60.0
FETCH_SECONDS = 600.0
"""For how long git may fetch or push."""
_MOST_SAID = 2_000
_SETTINGS: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("protocol.allow", "never"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    ("advice.detachedHead", "false"),
)
_KEPT = (
    "PATH", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Access:
    """A remote and the token that lets git in there, and nowhere else. An empty token is sent to nobody."""

    url: str
    token: str = ""

    def settings(self) -> Sequence[tuple[str, str]]:
        """What git is told of it."""
        if not self.token:
            return ()
        basic = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        return ((f"http.{self.url}.extraHeader", f"Authorization: Basic {basic}"),)


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git. `home` is an empty folder of the service's, `around` the environment, of which the path, proxies and
    certificates are kept; `memory` is what one process may use, in bytes."""

    home: Path
    around: Mapping[str, str] = field(default_factory=dict)
    memory: int = 4 << 30

    async def run(
        self,
        *arguments: str,
        folder: Path | None = None,
        access: Access | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        seconds: float = SECONDS,
    ) -> bytes:
        """What git says on standard output. Raises RepositoryError where it refuses, or is not done in time."""
        # The limit is set by the process itself: no code of ours runs between its fork and its start.
        limited = ("/bin/sh", "-c", f'ulimit -v {self.memory >> 10} && exec git "$@"', "git", *arguments)
        with _readable(stdin) as given:
            process = await asyncio.create_subprocess_exec(
                *limited,
                cwd=folder or self.home,
                env=self._environment(access, environment or {}),
                stdin=given,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(seconds):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise RepositoryError(f"git {arguments[0]} took more than {seconds:g} s") from error
        finally:
            await _ended(process)
        if process.returncode:
            raise RepositoryError(f"git {_verb(arguments)} failed: {_said(err, access)}")
        return out

    def _environment(self, access: Access | None, more: Mapping[str, str]) -> dict[str, str]:
        settings = [*_SETTINGS, *(access.settings() if access is not None else ())]
        given = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (name, value) in enumerate(settings):
            given |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return {**given, **{name: self.around[name] for name in _KEPT if name in self.around}, **more}


@contextmanager
def _readable(content: bytes) -> Iterator[int]:
    """A file to read, which needs no writer: git may have ended before that has its turn, and then a pipe breaks."""
    if not content:
        yield asyncio.subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _verb(arguments: Sequence[str]) -> str:
    return next((one for one in arguments if not one.startswith("-")), "")


def _said(err: bytes, access: Access | None) -> str:
    """The end of what git said, without the token in any form that it might have had."""
    said = err.decode("utf-8", "replace").strip()[-_MOST_SAID:]
    if access is not None and access.token:
        for _name, value in access.settings():
            said = said.replace(value.rpartition(" ")[2], "***")
        said = said.replace(access.token, "***")
    return " ".join(said.split()) or "it said nothing"


async def _ended(process: "asyncio.subprocess.Process") -> None:
    """Nothing that git started is left."""
    if process.returncode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    await process.wait()
