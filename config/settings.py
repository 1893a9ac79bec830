"""What an operator sets: a TOML file and LOOPS_... variables, the environment winning.

Every fault is found in one pass. `python -m config.settings` prints the reference, docs/reference/settings.md.
"""

import dataclasses
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from config.closest import closest
from config.runner_settings import TABLE as RUNNERS
from config.runner_settings import RunnerSettings, is_runner_variable, read_runners, runners_reference
from config.secret_key import read_or_make_key
from config.secret_text import SecretText
from config.setting_fault import SettingFault as SettingFault
from config.setting_table import PREFIX, SETTINGS
from config.setting_values import MAKE_A_KEY, SettingError, TokenPrice, shown

DEFAULT_FILE = "loops.toml"
CLIENT_VARIABLES = ("LOOPS_TOKEN", "LOOPS_URL", "LOOPS_CONFIG")
# Set by a run for the step that it starts; a `loops` command inside such a step must not trip over them.
STEP_PREFIX = "LOOPS_WHILE_"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that passed every check; what each means stands in SETTINGS. Paths are absolute."""

    data_dir: Path
    database_url: str = field(repr=False)
    host: str
    port: int
    public_url: str
    secret_key: SecretText
    work_dir: Path
    tasks: int
    runs: int
    workflow_daily_tasks: int
    project_daily_tasks: int
    workflow_daily_tokens: int | None
    project_daily_tokens: int | None
    workflow_daily_cost: Decimal | None
    project_daily_cost: Decimal | None
    mcp_commands: Mapping[str, tuple[str, ...]]
    subject_hourly_runs: int
    model: str | None
    model_api_key: SecretText
    model_base_url: str | None
    price: TokenPrice | None
    task_rounds: int
    task_seconds: int
    thread_seconds: int
    task_tokens: int | None
    task_cost: Decimal | None
    task_comments: int
    task_issues: int
    protected_files: tuple[str, ...]
    staged: Literal["no", "yes"]
    whole_clone_mb: int
    mcp: Literal["full", "read_only", "off"]
    sandbox: Literal["bwrap", "none"]
    sandbox_user: tuple[int, int] | None
    allowed_hosts: tuple[str, ...]
    keep_days: int
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["json", "text"]
    drain_seconds: int
    max_body_bytes_in_flight: int
    runners: tuple[RunnerSettings, ...] = ()

    @property
    def uses_postgres(self) -> bool:
        return self.database_url.startswith("postgresql")

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """The keys in order, the encrypting one first; empty before ensure_secret_key where none is set."""
        return tuple(key for key in self.secret_key.reveal().split(",") if key)

    @property
    def secret_values(self) -> tuple[str, ...]:
        """Every secret that these settings hold, for the mask of logs and traces."""
        models = (self.model_api_key, *(runner.api_key for runner in self.runners))
        keys = (*self.secret_keys, *filter(None, (key.reveal() for key in models)))
        if not self.uses_postgres:
            return keys
        parts = urlsplit(self.database_url)
        passwords = (unquote(parts.password or ""), *parse_qs(parts.query).get("password", []))
        return (*keys, *filter(None, passwords))

    def with_port(self, port: int) -> "Settings":
        """The same after the service got `port`; a public address that was derived follows it."""
        derived = self.public_url == _local_address(self.host, self.port)
        public_url = _local_address(self.host, port) if derived else self.public_url
        return dataclasses.replace(self, port=port, public_url=public_url)


_WITHOUT_DEFAULT = (
    "model", "model_base_url", "price", "task_tokens", "task_cost", "sandbox_user", "workflow_daily_tokens",
    "project_daily_tokens", "workflow_daily_cost", "project_daily_cost",
)  # fmt: skip
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class _Given:
    """A setting as it was written: where, the text, and the folder that a relative path starts from."""

    place: str
    text: str
    base: Path


def read_settings(file: Path | None, environ: Mapping[str, str]) -> Settings | tuple[SettingFault, ...]:
    """The settings, or every fault in them.

    Without `file` it is LOOPS_CONFIG, or loops.toml in the working folder where there is one. An empty variable
    counts as not set. Relative paths start at the file's folder, or, from the environment, at the working folder.
    """
    faults: list[SettingFault] = []
    file = _settings_file(file, environ)
    table = _table(file, faults)
    runners, wrong = read_runners(table.pop(RUNNERS, None), file, environ)
    given = _from_file(table, file, faults) if file is not None else {}
    given |= _from_environment(environ, faults)
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        one = given.get(setting.name)
        if one is None and setting.default is None:
            continue
        one = one or _Given(setting.variable, setting.default or "", Path.cwd())
        try:
            values[setting.name] = setting.parse(one.text, one.base)
        except SettingError as refused:
            faults.append(SettingFault(one.place, str(refused), refused.hint))
    faults += [*_conflicts(values, key_given="secret_key" in given), *wrong]
    return tuple(faults) if faults else Settings(**_completed(values), runners=runners)


def ensure_secret_key(settings: Settings) -> Settings | tuple[SettingFault, ...]:
    """The same settings with a key: the one that is set, else the one in the data folder, made on first start."""
    if settings.secret_key:
        return settings
    try:
        key = read_or_make_key(settings.data_dir)
    except SettingError as refused:
        return (SettingFault(f"{PREFIX}SECRET_KEY", str(refused), refused.hint),)
    return dataclasses.replace(settings, secret_key=SecretText(key))


def _settings_file(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    named = environ.get(f"{PREFIX}CONFIG")
    if named:
        return Path(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).exists() else None


def _table(file: Path | None, faults: list[SettingFault]) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        faults.append(SettingFault(str(file), f"cannot be read: {error.strerror}", "name a file with --config"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        faults.append(SettingFault(str(file), f"is not TOML: {error}", "as: port = 8765"))
    return {}


def _from_file(table: Mapping[str, Any], file: Path, faults: list[SettingFault]) -> dict[str, _Given]:
    given = {}
    for key, value in table.items():
        place = f"{key if key in _BY_NAME else shown(key)} in {file}"
        text = _text_of(value)
        if key not in _BY_NAME:
            faults.append(_unknown(place, key.lower().removeprefix(PREFIX.lower()), (*_BY_NAME, RUNNERS)))
        elif text is None:
            faults.append(SettingFault(place, f"is {_kind_of(value)}", "a text, a number or a list of texts"))
        elif text or isinstance(value, list):
            given[key] = _Given(place, text, file.absolute().parent)
    return given


def _from_environment(environ: Mapping[str, str], faults: list[SettingFault]) -> dict[str, _Given]:
    given = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable.startswith(STEP_PREFIX) or variable in CLIENT_VARIABLES:
            continue
        if is_runner_variable(variable):
            continue
        setting = _BY_VARIABLE.get(variable)
        if setting is None:
            faults.append(_unknown(variable, variable.upper(), (*_BY_VARIABLE, *CLIENT_VARIABLES)))
        elif text.strip():
            given[setting.name] = _Given(variable, text.strip(), Path.cwd())
    return given


def _unknown(place: str, name: str, known: Iterable[str]) -> SettingFault:
    nearest = closest(name, known, PREFIX)
    hint = f"did you mean {nearest}?" if nearest else "docs/reference/settings.md lists every setting"
    return SettingFault(place, "is not a setting", hint)


def _text_of(value: object) -> str | None:
    match value:
        case bool() | dict():
            return None
        case str():
            return value.strip()
        case int() | float():
            return str(value)
        case list() if all(isinstance(item, str) and "," not in item for item in value):
            return ",".join(value)
        case _:
            return None


def _kind_of(value: object) -> str:
    kinds = {bool: "true or false", dict: "a table", list: "a list that holds more than plain texts"}
    return kinds.get(type(value), "a date or time")


def _conflicts(values: Mapping[str, Any], *, key_given: bool) -> list[SettingFault]:
    """What two settings that are each in order make wrong together; those with a fault of their own are left out."""
    faults = []
    if str(values.get("database_url", "")).startswith("postgresql") and not key_given:
        faults.append(
            SettingFault(
                f"{PREFIX}SECRET_KEY",
                "must be set with Postgres, the same for every process of the service",
                MAKE_A_KEY,
            )
        )
    data_dir, work_dir = values.get("data_dir"), values.get("work_dir")
    if data_dir and work_dir and (work_dir.is_relative_to(data_dir) or data_dir.is_relative_to(work_dir)):
        faults.append(
            SettingFault(
                f"{PREFIX}WORK_DIR",
                f"{work_dir} and the data folder {data_dir} lie in one another",
                "tasks must not reach the data folder: name a folder outside it",
            )
        )
    return faults


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    """The values with those that follow from others, and None where there is nothing to follow from."""
    data_dir: Path = values["data_dir"]
    derived: dict[str, Any] = {
        "database_url": f"sqlite:///{data_dir / 'loops.db'}",
        "public_url": _local_address(values["host"], values["port"]),
        "secret_key": SecretText(""),
        "model_api_key": SecretText(""),
        "work_dir": data_dir.with_name(f"{data_dir.name}-work"),
        "log_format": "text" if sys.stderr.isatty() else "json",
    }
    absent = dict.fromkeys(_WITHOUT_DEFAULT)
    return absent | derived | values


def _local_address(host: str, port: int) -> str:
    """An address that works on this machine; one that means "every interface" is no place to go to."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of the reference."""

    variable: str
    key: str
    default: str
    meaning: str


def describe_settings() -> list[SettingRow]:
    """Every setting as an operator reads about it."""
    return [
        SettingRow(setting.variable, setting.name, setting.default_shown or f"`{setting.default}`", setting.meaning)
        for setting in SETTINGS
    ]


def settings_reference() -> str:
    """docs/reference/settings.md."""
    rows = [f"| `{row.variable}` | `{row.key}` | {row.default} | {row.meaning} |" for row in describe_settings()]
    return "\n".join([*_REFERENCE_HEAD, *rows, "", *runners_reference(), ""])


_REFERENCE_HEAD = (
    "# Settings",
    "",
    "<!-- Printed by `python -m config.settings`; a test compares the two. -->",
    "",
    "Loops reads `loops.toml` in the working folder (or the file that `--config` or `LOOPS_CONFIG` names) and the",
    "environment; the environment wins. Every fault is listed at start, and nothing is clamped. An empty variable",
    "counts as not set. Relative paths in the file start at the file's folder, those in the environment at the working",
    "folder. `LOOPS_URL` and `LOOPS_TOKEN` are for commands that address a running service.",
    "",
    "```toml",
    "# loops.toml",
    'data_dir = "/srv/loops"',
    "port = 8765",
    'allowed_hosts = ["git.internal", "10.1.0.0/16"]',
    "```",
    "",
    "| variable | key in `loops.toml` | default | meaning |",
    "|---|---|---|---|",
)


if __name__ == "__main__":
    sys.stdout.write(settings_reference())
