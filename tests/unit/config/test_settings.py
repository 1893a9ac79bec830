import json
import stat
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.secret_text import SecretText
from config.setting_table import SETTINGS
from config.setting_values import TokenPrice
from config.settings import (
    SettingFault,
    Settings,
    describe_settings,
    ensure_secret_key,
    read_settings,
    settings_reference,
)
from loops.connections.slack import SCOPES

ROOT = Path(__file__).parents[3]
KEY = "k" * 32
OTHER_KEY = "o" * 40


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(environ: Mapping[str, str] | None = None, file: Path | None = None) -> Settings:
    read = read_settings(file, environ or {})
    assert isinstance(read, Settings), read
    return read


def faults(environ: Mapping[str, str], file: Path | None = None) -> tuple[SettingFault, ...]:
    read = read_settings(file, environ)
    assert isinstance(read, tuple), read
    assert read
    return read


def toml(folder: Path, text: str, name: str = "loops.toml") -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def test_without_a_file_and_variables_every_default_holds(tmp_path: Path) -> None:
    read = settings()
    assert read.data_dir == tmp_path / ".loops"
    assert read.work_dir == tmp_path / ".loops-work"
    assert read.database_url == f"sqlite:///{tmp_path}/.loops/loops.db"
    assert (read.host, read.port, read.public_url) == ("127.0.0.1", 8765, "http://127.0.0.1:8765")
    assert (read.tasks, read.runs, read.workflow_daily_tasks, read.project_daily_tasks) == (4, 8, 100, 500)
    assert (read.model, read.model_base_url, read.price, read.allowed_hosts) == (None, None, None, ())
    assert (read.sandbox, read.keep_days, read.log_level, read.drain_seconds) == ("bwrap", 30, "info", 20)
    assert read.max_body_bytes_in_flight == 268_435_456
    assert not read.secret_key
    assert read.secret_keys == ()
    assert not read.uses_postgres


def test_the_fields_and_the_rows_of_the_table_are_the_same() -> None:
    assert {setting.name for setting in SETTINGS} | {"runners"} == set(Settings.__dataclass_fields__)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    toml(tmp_path, 'port = 9000\ntasks = 2\nmodel = "openai:gpt-5"\nallowed_hosts = ["GIT.internal", "10.1.0.0/16"]\n')
    read = settings({"LOOPS_PORT": "9001", "PATH": "/bin", "LOOPS_TASKS": ""})
    assert (read.port, read.tasks, read.model) == (9001, 2, "openai:gpt-5")
    assert read.allowed_hosts == ("git.internal", "10.1.0.0/16")


def test_relative_paths_start_at_the_file_or_at_the_working_folder(tmp_path: Path) -> None:
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    file = toml(elsewhere, 'data_dir = "state"\n', "service.toml")
    assert settings(file=file).data_dir == elsewhere / "state"
    assert settings({"LOOPS_CONFIG": str(file)}).data_dir == elsewhere / "state"
    assert settings({"LOOPS_DATA_DIR": "state"}, file).data_dir == tmp_path / "state"
    assert settings({"LOOPS_DATABASE_URL": "sqlite:///a/b.db"}).database_url == f"sqlite:///{tmp_path}/a/b.db"


def test_all_faults_are_listed_at_once_and_none_shows_a_secret(tmp_path: Path) -> None:
    toml(tmp_path, 'prot = 1\ntasks = 0\nrunz = true\n[sandbox]\nkind = "x"\n')
    found = faults(
        {
            "LOOPS_PORT": "70000",
            "LOOPS_SECRET_KEY": "hunter2",
            "LOOPS_DATABASE_URL": "mysql://me:hunter3@db/loops",
            "LOOPS_MODLE": "x",
            "LOOPS_WORK_DIR": ".loops/work",
        }
    )
    by_setting = {fault.setting: fault for fault in found}
    assert set(by_setting) == {
        "'prot' in loops.toml",
        "tasks in loops.toml",
        "'runz' in loops.toml",
        "sandbox in loops.toml",
        "LOOPS_PORT",
        "LOOPS_SECRET_KEY",
        "LOOPS_DATABASE_URL",
        "LOOPS_MODLE",
        "LOOPS_WORK_DIR",
    }
    assert by_setting["'prot' in loops.toml"].hint == "did you mean port?"
    assert by_setting["LOOPS_MODLE"].hint == "did you mean LOOPS_MODEL?"
    assert by_setting["LOOPS_PORT"] == SettingFault("LOOPS_PORT", "70000 is out of range", "from 0 to 65535")
    assert "hunter" not in repr(found)


def test_variables_for_commands_and_for_steps_are_no_faults() -> None:
    settings(
        {"LOOPS_TOKEN": "loops_x", "LOOPS_URL": "http://x", "LOOPS_WHILE_STATE": "{}", "LOOPS_WHILE_TIMEOUT_MS": "1"}
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("port = ", "is not TOML"),
        ("port = true", "is true or false"),
        ("port = 2026-01-01", "is a date or time"),
        ("port = 1.5", "'1.5' is not a whole number"),
        ("allowed_hosts = [1]", "more than plain texts"),
        ("PORT = 1", "is not a setting"),
    ],
)
def test_a_value_of_the_wrong_kind_in_the_file_is_a_fault(tmp_path: Path, text: str, part: str) -> None:
    (fault,) = faults({}, toml(tmp_path, text))
    assert part in fault.message


def test_a_file_that_is_not_there_or_no_text_is_a_fault(tmp_path: Path) -> None:
    assert "cannot be read" in faults({}, tmp_path / "none.toml")[0].message
    assert "cannot be read" in faults({"LOOPS_CONFIG": "none.toml"})[0].message
    (tmp_path / "raw.toml").write_bytes(b"\xff\xfe")
    assert "is not TOML" in faults({}, tmp_path / "raw.toml")[0].message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "-1"),
        ("PORT", "٣"),
        ("PORT", "80 80"),
        ("TASKS", "0"),
        ("TASKS", "257"),
        ("KEEP_DAYS", "0"),
        ("MAX_BODY_BYTES_IN_FLIGHT", "1000"),
        ("DRAIN_SECONDS", "601"),
        ("HOST", "http://127.0.0.1"),
        ("HOST", "127.0.0.1:80"),
        ("PUBLIC_URL", "ftp://x"),
        ("PUBLIC_URL", "https://x/path"),
        ("PUBLIC_URL", "https://x?q=1"),
        ("PUBLIC_URL", "https://me:pw@x"),
        ("PUBLIC_URL", "https://x:99999"),
        ("PUBLIC_URL", "https://"),
        ("PUBLIC_URL", "https://[::1"),
        ("MODEL", "gpt-5"),
        ("MODEL", "openai:"),
        ("MODEL_BASE_URL", "localhost:11434"),
        ("PRICE", "3"),
        ("PRICE", "-3/15"),
        ("SANDBOX", "docker"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("ALLOWED_HOSTS", "http://x"),
        ("ALLOWED_HOSTS", "10.1.0.5/16"),
        ("DATA_DIR", "/"),
        ("DATA_DIR", "what?"),
        ("DATABASE_URL", "sqlite://"),
        ("DATABASE_URL", "sqlite:///:memory:"),
        ("DATABASE_URL", "sqlite://loops.db"),
        ("DATABASE_URL", "loops.db"),
        ("DATABASE_URL", "postgresql+asyncpg://h/d"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_clamped(name: str, text: str) -> None:
    (fault,) = faults({f"LOOPS_{name}": text})
    assert fault.setting == f"LOOPS_{name}"
    assert fault.message
    assert fault.hint


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PORT", "0", 0),
        ("PORT", "65535", 65535),
        ("WORKFLOW_DAILY_TASKS", "0", 0),
        ("PUBLIC_URL", "https://Loops.example.org:8443/", "https://loops.example.org:8443"),
        ("PUBLIC_URL", "http://[::1]:80", "http://[::1]:80"),
        ("MODEL", "ollama:qwen3:8b", "ollama:qwen3:8b"),
        ("MODEL_BASE_URL", "http://10.0.0.2:11434/v1/", "http://10.0.0.2:11434/v1"),
        ("PRICE", "0.25/1.25", TokenPrice(Decimal("0.25"), Decimal("1.25"))),
        ("SANDBOX", "NONE", "none"),
        ("LOG_LEVEL", "WARNING", "warning"),
        ("HOST", "::", "::"),
        ("ALLOWED_HOSTS", " a.internal , fd00::/8,", ("a.internal", "fd00::/8")),
    ],
)
def test_what_fits_is_taken_in_its_normal_form(name: str, text: str, value: object) -> None:
    assert getattr(settings({f"LOOPS_{name}": text}), name.lower()) == value


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "http://127.0.0.1:8765"), ("::", "http://[::1]:8765"), ("git.lan", "http://git.lan:8765")],
)
def test_the_public_address_is_derived_from_what_can_be_reached(host: str, address: str) -> None:
    assert settings({"LOOPS_HOST": host}).public_url == address


def test_a_derived_public_address_follows_the_port_and_a_given_one_stays() -> None:
    assert settings({"LOOPS_PORT": "0"}).with_port(41234).public_url == "http://127.0.0.1:41234"
    given_one = settings({"LOOPS_PORT": "0", "LOOPS_PUBLIC_URL": "https://loops.example.org"}).with_port(41234)
    assert (given_one.port, given_one.public_url) == (41234, "https://loops.example.org")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgres_is_normalised_and_needs_a_key(scheme: str) -> None:
    address = {"LOOPS_DATABASE_URL": f"{scheme}://me:pa%2Fss@db:5432/loops?sslmode=require"}
    (fault,) = faults(address)
    assert fault.setting == "LOOPS_SECRET_KEY"
    assert "secrets.token_urlsafe" in fault.hint
    read = settings({**address, "LOOPS_SECRET_KEY": KEY})
    assert read.database_url == "postgresql+psycopg://me:pa%2Fss@db:5432/loops?sslmode=require"
    assert read.uses_postgres
    assert set(read.secret_values) == {KEY, "pa/ss"}


@pytest.mark.parametrize("rest", ["db", "me:hunter2@db:port/x", "[::1/x", "me:hunter2#1@db/loops"])
def test_a_postgres_address_that_cannot_be_used_is_refused_without_being_repeated(rest: str) -> None:
    (fault,) = faults({"LOOPS_DATABASE_URL": f"postgresql://{rest}", "LOOPS_SECRET_KEY": KEY})
    assert fault.setting == "LOOPS_DATABASE_URL"
    assert "hunter2" not in str(fault)


def test_the_settings_never_show_a_secret() -> None:
    read = settings({"LOOPS_SECRET_KEY": KEY, "LOOPS_DATABASE_URL": "postgres://me:hunter2@db/loops"})
    assert read.secret_key.reveal() == KEY
    shown = f"{read!r} {read} {read.secret_key} {read.secret_key!r} {[read.secret_key]}"
    assert KEY not in shown
    assert "hunter2" not in shown
    with pytest.raises(TypeError):
        json.dumps(read.secret_key)


def test_secret_texts_are_equal_by_value_and_to_nothing_else() -> None:
    assert SecretText("a") == SecretText("a")
    assert hash(SecretText("a")) == hash(SecretText("a"))
    assert SecretText("a") != SecretText("b")
    assert SecretText("a") != "a"


def test_keys_are_rotated_by_a_list_and_each_must_be_long_enough() -> None:
    assert settings({"LOOPS_SECRET_KEY": f"{KEY}, {OTHER_KEY}"}).secret_keys == (KEY, OTHER_KEY)
    (fault,) = faults({"LOOPS_SECRET_KEY": f"{KEY},short"})
    assert fault.message == "key 2 of 2 has 5 characters, at least 32 are needed"


def test_the_first_start_makes_a_private_key_and_later_ones_keep_it() -> None:
    first = ensure_secret_key(settings())
    assert isinstance(first, Settings)
    assert len(first.secret_keys[0]) >= 32
    file = first.data_dir / "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.data_dir.stat().st_mode) == 0o700
    assert ensure_secret_key(settings()) == first
    assert [one.name for one in first.data_dir.iterdir()] == ["secret.key"]


def test_a_key_that_is_set_leaves_the_data_folder_alone() -> None:
    read = settings({"LOOPS_SECRET_KEY": KEY})
    assert ensure_secret_key(read) is read
    assert not read.data_dir.exists()


@pytest.mark.parametrize(
    ("content", "mode", "part"),
    [(f"{KEY}\n", 0o644, "can be read by other users"), ("short", 0o600, "does not hold a key"), ("é" * 40, 0o600, "")],
)
def test_a_key_file_that_cannot_be_trusted_is_a_fault(content: str, mode: int, part: str) -> None:
    read = settings()
    read.data_dir.mkdir()
    file = read.data_dir / "secret.key"
    file.write_text(content, "utf-8")
    file.chmod(mode)
    faults_found = ensure_secret_key(read)
    assert isinstance(faults_found, tuple)
    assert part in faults_found[0].message
    assert faults_found[0].hint


def test_a_data_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    faults_found = ensure_secret_key(settings({"LOOPS_DATA_DIR": "file/loops"}))
    assert isinstance(faults_found, tuple)
    assert faults_found[0].setting == "LOOPS_SECRET_KEY"


@given(st.dictionaries(st.sampled_from([setting.variable for setting in SETTINGS]), st.text(max_size=40)))
def test_any_text_gives_settings_or_faults_and_never_an_error(environ: dict[str, str]) -> None:
    read = read_settings(None, environ)
    assert isinstance(read, Settings) or all(fault.message for fault in read)


def test_the_reference_page_is_what_the_code_says() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    assert page == settings_reference(), "run: python -m config.settings > docs/reference/settings.md"


def test_every_setting_is_described() -> None:
    rows = describe_settings()
    assert [row.key for row in rows] == [setting.name for setting in SETTINGS]
    assert all(row.default and row.meaning.endswith((".", ")")) for row in rows)


def test_the_slack_app_manifest_asks_for_what_its_events_and_the_service_need() -> None:
    manifest = yaml.safe_load((ROOT / "config" / "slack-app.yaml").read_text("utf-8"))
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == set(SCOPES)
    needs = {
        "app_mention": "app_mentions:read",
        "message.channels": "channels:history",
        "message.groups": "groups:history",
        "message.im": "im:history",
        "message.mpim": "mpim:history",
        "app_uninstalled": None,
        "tokens_revoked": None,
    }
    subscribed = manifest["settings"]["event_subscriptions"]["bot_events"]
    assert {needs[event] for event in subscribed} - {None} <= set(SCOPES)
    assert set(subscribed) == set(needs)
    assert manifest["settings"]["socket_mode_enabled"] is True
    # A token that changes twice a day could not be kept in a connection.
    assert manifest["settings"]["token_rotation_enabled"] is False


def test_the_github_app_manifest_asks_for_what_its_events_need() -> None:
    manifest = json.loads((ROOT / "config" / "github-app.json").read_text("utf-8"))
    needs = {
        "check_run": "checks",
        "discussion": "discussions",
        "discussion_comment": "discussions",
        "issue_comment": "issues",
        "issues": "issues",
        "member": "members",
        "membership": "members",
        "organization": "members",
        "pull_request": "pull_requests",
        "pull_request_review": "pull_requests",
        "pull_request_review_comment": "pull_requests",
        "push": "contents",
        "release": "contents",
        "repository": "metadata",
        "workflow_run": "actions",
    }
    assert {needs[event] for event in manifest["default_events"]} == set(manifest["default_permissions"])
    assert manifest["hook_attributes"]["url"].endswith("/hooks/github/CONNECTION")
    assert manifest["public"] is False


def test_commands_of_mcp_servers_are_named_and_read_as_a_shell_would(tmp_path: Path) -> None:
    line = "files=/usr/bin/files --root '/srv/my docs', wiki = wiki-mcp"
    wanted = {"files": ("/usr/bin/files", "--root", "/srv/my docs"), "wiki": ("wiki-mcp",)}
    assert settings({"LOOPS_MCP_COMMANDS": line}).mcp_commands == wanted
    assert settings().mcp_commands == {}
    given = toml(tmp_path, 'mcp_commands = ["files=/usr/bin/files --root \'/srv/my docs\'", "wiki=wiki-mcp"]')
    assert settings({}, given).mcp_commands == wanted


@pytest.mark.parametrize("text", ["files", "files=", "Files=x", "../x=y", "files='", "a=x,a=y"])
def test_what_is_no_named_command_is_refused(text: str) -> None:
    (fault,) = faults({"LOOPS_MCP_COMMANDS": text})
    assert fault.hint
