"""What an operator sets of the coding agents that tasks may be given to: tables `[runners.NAME]` of the TOML file, and
variables `LOOPS_RUNNER_NAME_KEY`, the environment winning.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from config.runner_table import RUNNER_KEYS, RunnerKey, plain_secret
from config.secret_text import SecretText
from config.setting_fault import SettingFault
from config.setting_values import SettingError, TokenPrice, shown

PREFIX = "LOOPS_RUNNER_"
TABLE = "runners"
KINDS = ("claude-code", "codex")
"""Names of the runners that Loops knows itself; every other one is a command."""

Api = Literal["anthropic", "openai"]

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_BY_NAME = {key.name: key for key in RUNNER_KEYS}
_LONGEST_FIRST = sorted(RUNNER_KEYS, key=lambda key: -len(key.name))


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """One runner. `readable` are folders that it needs beside that of its program, `hosts` what it may reach beside the
    model, `host:port` each; times in seconds, `memory` in MB."""

    name: str
    program: Path
    arguments: tuple[str, ...] = ()
    version: str | None = None
    api: Api | None = None
    api_key: SecretText = field(default=SecretText(""), repr=False)
    base_url: str | None = None
    price: TokenPrice | None = None
    hosts: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()
    seconds: int = 1_800
    idle_seconds: int = 600
    memory: int = 2_048

    @property
    def is_command(self) -> bool:
        """Whether Loops knows nothing of it but its settings."""
        return self.name not in KINDS


@dataclass(frozen=True, slots=True)
class _Given:
    place: str
    text: str
    base: Path
    own: bool
    """Whether it is a variable, where a secret stands itself."""


def read_runners(
    tables: object, file: Path | None, environ: Mapping[str, str]
) -> tuple[tuple[RunnerSettings, ...], list[SettingFault]]:
    """The runners of the file's table `runners` (None where it has none) and of the environment, and every fault."""
    faults: list[SettingFault] = []
    given = _from_tables(tables, file, faults) if tables is not None and file is not None else {}
    for name, key, one in _from_environment(environ, faults):
        given.setdefault(name, {})[key] = one
    found = [_runner(name, one, environ, faults) for name, one in sorted(given.items())]
    return tuple(one for one in found if one is not None), faults


def is_runner_variable(variable: str) -> bool:
    """Whether a variable is about a runner."""
    return variable.startswith(PREFIX)


def _from_tables(tables: object, file: Path, faults: list[SettingFault]) -> dict[str, dict[str, _Given]]:
    if not isinstance(tables, Mapping):
        faults.append(SettingFault(f"{TABLE} in {file}", "is no table", f"write [{TABLE}.claude-code]"))
        return {}
    found: dict[str, dict[str, _Given]] = {}
    for name, table in tables.items():
        place = f"{TABLE}.{name if _NAME.fullmatch(name) else shown(name)} in {file}"
        if not _NAME.fullmatch(name) or not isinstance(table, Mapping):
            hint = f"a table named by small letters, digits and hyphens, as [{TABLE}.claude-code]"
            faults.append(SettingFault(place, "is not a runner", hint))
            continue
        found[name] = dict(_from_table(name, table, file, faults))
    return found


def _from_table(
    name: str, table: Mapping[str, Any], file: Path, faults: list[SettingFault]
) -> Iterator[tuple[str, _Given]]:
    for key, value in table.items():
        known = _BY_NAME.get(key)
        place = f"{TABLE}.{name}.{key if known else shown(key)} in {file}"
        text = _text(value, known) if known else None
        if known is None:
            faults.append(SettingFault(place, "is not a setting of a runner", f"one of {', '.join(_BY_NAME)}"))
        elif text is None:
            faults.append(SettingFault(place, "has the wrong kind of value", _wanted(known)))
        elif text:
            yield key, _Given(place, text, file.absolute().parent, own=False)


def _text(value: object, key: RunnerKey) -> str | None:
    if key.is_list:
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return shlex.join(value) if is_list and isinstance(value, list) else None
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _wanted(key: RunnerKey) -> str:
    return "a list of texts" if key.is_list else "a text or a number"


def _from_environment(environ: Mapping[str, str], faults: list[SettingFault]) -> Iterator[tuple[str, str, _Given]]:
    for variable, text in sorted(environ.items()):
        if not is_runner_variable(variable) or not text.strip():
            continue
        rest = variable.removeprefix(PREFIX)
        key = next((one for one in _LONGEST_FIRST if rest.endswith(f"_{one.variable}")), None)
        name = rest.removesuffix(f"_{key.variable}").lower().replace("_", "-") if key else ""
        if key is None or not _NAME.fullmatch(name):
            hint = f"as {PREFIX}CLAUDE_CODE_PROGRAM; the keys are {', '.join(_BY_NAME)}"
            faults.append(SettingFault(variable, "is not a setting of a runner", hint))
            continue
        yield name, key.name, _Given(variable, text.strip(), Path.cwd(), own=True)


def _runner(
    name: str, given: Mapping[str, _Given], environ: Mapping[str, str], faults: list[SettingFault]
) -> RunnerSettings | None:
    values: dict[str, Any] = {}
    for key, one in given.items():
        known = _BY_NAME[key]
        try:
            own = known.referred and one.own
            values[key] = plain_secret(one.text) if own else known.parse(one.text, one.base, environ)
        except SettingError as refused:
            faults.append(SettingFault(one.place, str(refused), refused.hint))
    here = _conflicts(name, values, set(given))
    faults += here
    return None if here or values.keys() != given.keys() else RunnerSettings(name, **values)


def _conflicts(name: str, values: Mapping[str, Any], given: set[str]) -> Sequence[SettingFault]:
    place = f"{TABLE}.{name}"
    if "program" not in given:
        variable = f"{PREFIX}{name.upper().replace('-', '_')}_PROGRAM"
        return [SettingFault(place, "has no program", f"set program in its table, or {variable}")]
    if name in KINDS and "api" in given:
        return [SettingFault(place, "has an api, and speaks only one", "leave it out")]
    if name not in KINDS and "api" not in given and {"api_key", "base_url"} & given:
        return [SettingFault(place, "has a key or an address and no api", "set api to anthropic or openai")]
    if values.get("api_key") is None and "base_url" not in given and (name in KINDS or "api" in given):
        hint = "set api_key, or base_url of a model that needs none"
        return [SettingFault(place, "has no key for its model", hint)] if "api_key" not in given else []
    return []


def runners_reference() -> list[str]:
    """The part about runners of docs/reference/settings.md, line by line."""
    rows = [f"| `{key.name}` | {_shown(key.default)} | {key.meaning} |" for key in RUNNER_KEYS]
    return [*_HEAD, *rows]


def _shown(default: str) -> str:
    if not default:
        return "must be set"
    return f"`{default}`" if default.isdigit() else default


_HEAD = (
    "## Runners",
    "",
    "A coding agent that tasks may be given to ([guide](../guides/runners.md)). `claude-code` and `codex` are known by",
    "name; a table of any other name is a command.",
    "",
    "```toml",
    "[runners.claude-code]",
    'program = "/opt/agents/claude"',
    'version = "2.1.332"',
    'api_key = "file:/etc/loops/anthropic.key"',
    'hosts = ["pypi.org:443"]',
    "```",
    "",
    "Each key is a variable too, which wins: `LOOPS_RUNNER_CLAUDE_CODE_PROGRAM` for `program` of `claude-code`. A list",
    "is written there as words of a shell.",
    "",
    "| key | default | meaning |",
    "|---|---|---|",
)
