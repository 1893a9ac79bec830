"""Every key of a runner, one row each: the one place where a key's name, default, range and meaning stand."""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from config.secret_text import SecretText
from config.setting_values import SettingError, base_address, one_of, price, secret, shown, whole_number

Parser: TypeAlias = Callable[[str, Path, Mapping[str, str]], object]

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
_ENDPOINT = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}:[0-9]{1,5}")
_MOST_KEY_BYTES = 16_384


def _plain(parse: Callable[[str, Path], object]) -> Parser:
    return lambda text, base, _environ: parse(text, base)


def _file(text: str, base: Path, _environ: Mapping[str, str]) -> Path:
    # Not resolved: what a link leads to may change with the next release of the program.
    try:
        path = Path(os.path.abspath(base / Path(text).expanduser()))  # noqa: PTH100 - resolve() follows links
    except (RuntimeError, ValueError) as error:
        raise SettingError(f"{shown(text)} is not a path: {error}", "as /opt/agents/claude") from error
    if path == Path(path.anchor):
        raise SettingError(f"{shown(text)} is the root of the file system", "name the program")
    return path


def _files(text: str, base: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    return tuple(_file(part, base, environ) for part in _words(text))


def _endpoints(text: str, _base: Path, _environ: Mapping[str, str]) -> tuple[str, ...]:
    endpoints = tuple(part.lower() for part in _words(text))
    for one in endpoints:
        if not _ENDPOINT.fullmatch(one) or not 0 < int(one.rpartition(":")[2]) < 65536:
            raise SettingError(f"{shown(one)} is not a host with a port", "as pypi.org:443")
    return endpoints


def _version(text: str, _base: Path, _environ: Mapping[str, str]) -> str:
    if not _VERSION.fullmatch(text):
        raise SettingError(f"{shown(text)} is not a version", "as the program's --version prints it, as 2.1.332")
    return text


def _reference(text: str, base: Path, environ: Mapping[str, str]) -> SecretText:
    """A secret that stands elsewhere: `env:NAME` or `file:PATH`."""
    kind, _, where = text.partition(":")
    if kind == "env" and where:
        if not environ.get(where, "").strip():
            raise SettingError(f"names the variable {shown(where)}, which is not set", "set it for the service")
        return plain_secret(environ[where])
    if kind == "file" and where:
        return plain_secret(_content(base / Path(where).expanduser()))
    # The text may be the key itself: it is not repeated.
    raise SettingError("does not say where the key is", "env:NAME of a variable, or file:PATH")


def _content(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return opened.read(_MOST_KEY_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingError(f"the file {path} cannot be read: {reason}", "name a file that holds the key") from error


def plain_secret(text: str) -> SecretText:
    """A secret that is the text itself. Raises SettingError."""
    found = secret(text.strip(), Path())
    assert isinstance(found, SecretText)  # noqa: S101 - for the type alone
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SettingError(f"{shown(text)} cannot be split into words: {error}", "quote as a shell does") from error


@dataclass(frozen=True, slots=True)
class RunnerKey:
    """One key of a runner. A secret is `referred` to in the file, and stands in a variable itself."""

    name: str
    parse: Parser
    default: str
    meaning: str
    is_list: bool = False
    referred: bool = False

    @property
    def variable(self) -> str:
        """The end of its variable's name."""
        return self.name.upper()


RUNNER_KEYS = (
    RunnerKey("program", _file, "", "The program, as a path. Its folder is all that the sandbox gets to see of it."),
    RunnerKey(
        "arguments",
        lambda text, _base, _environ: tuple(_words(text)),
        "none",
        "What stands before the program's own arguments; of a command all of them, where `{model}` is the model.",
        is_list=True,
    ),
    RunnerKey("version", _version, "any", "What `--version` has to print; another one is not started."),
    RunnerKey(
        "api",
        _plain(one_of("anthropic", "openai")),
        "by the runner's name",
        "Of a command: which API it speaks to its model, `anthropic` or `openai`. Without it there is no proxy.",
    ),
    RunnerKey(
        "api_key",
        _reference,
        "none",
        "Key of the model's provider, which never enters the sandbox. In the file `env:NAME` or `file:PATH`, never the "
        "key itself; the variable holds the key.",
        referred=True,
    ),
    RunnerKey("base_url", _plain(base_address), "the provider's own", "Address of the model's API."),
    RunnerKey("price", _plain(price), "the known price of the model", "US dollars a million tokens, `input/output`."),
    RunnerKey(
        "hosts",
        _endpoints,
        "none",
        "What else it may reach from the sandbox, `host:port` each: package registries, for example.",
        is_list=True,
    ),
    RunnerKey("readable", _files, "none", "Folders that it may read, at the same place inside.", is_list=True),
    RunnerKey("seconds", _plain(whole_number(10, 86_400)), "1800", "Seconds that it may work on a task, 10 to 86400."),
    RunnerKey(
        "idle_seconds",
        _plain(whole_number(5, 86_400)),
        "600",
        "Seconds without a sign of life after which it is stopped, 5 to 86400.",
    ),
    RunnerKey("memory", _plain(whole_number(64, 1_048_576)), "2048", "MB of memory, 64 to 1048576."),
)
