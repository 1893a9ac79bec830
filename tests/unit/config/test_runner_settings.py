from collections.abc import Mapping
from pathlib import Path

import pytest

from config.runner_settings import RunnerSettings
from config.secret_text import SecretText
from config.settings import SettingFault, Settings, read_settings

MINIMAL = '[runners.claude-code]\nprogram = "bin/claude"\napi_key = "env:THE_KEY"\n'


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(folder: Path, text: str = "", **environ: str) -> Settings | tuple[SettingFault, ...]:
    file = folder / "loops.toml"
    file.write_text(text, "utf-8")
    return read_settings(file, environ)


def runners(folder: Path, text: str = "", **environ: str) -> Mapping[str, RunnerSettings]:
    settings = read(folder, text, **environ)
    assert isinstance(settings, Settings), settings
    return {runner.name: runner for runner in settings.runners}


def the_fault(folder: Path, text: str = "", **environ: str) -> SettingFault:
    faults = read(folder, text, **environ)
    assert isinstance(faults, tuple)
    assert len(faults) == 1, faults
    return faults[0]


def test_without_a_table_there_are_no_runners(tmp_path):
    assert runners(tmp_path, "port = 9000\n") == {}


def test_a_table_is_a_runner_and_its_paths_start_at_the_file(tmp_path):
    found = runners(tmp_path, MINIMAL, THE_KEY="sk-secret")["claude-code"]
    assert found == RunnerSettings("claude-code", tmp_path / "bin/claude", api_key=SecretText("sk-secret"))
    assert (found.seconds, found.idle_seconds, found.is_command) == (1_800, 600, False)
    assert "sk-secret" not in repr(found)


def test_a_command_has_its_words_its_hosts_and_its_api(tmp_path):
    text = (
        '[runners.aider]\nprogram = "/opt/aider/run"\narguments = ["--yes", "two words"]\nhosts = ["PyPI.org:443"]\n'
        'api = "openai"\nbase_url = "http://127.0.0.1:11434/v1"\nreadable = ["/opt/shared"]\n'
        'price = "0/0"\nseconds = 60\n'
    )
    found = runners(tmp_path, text)["aider"]
    assert found.arguments == ("--yes", "two words")
    assert (found.hosts, found.readable, found.seconds) == (("pypi.org:443",), (Path("/opt/shared"),), 60)
    assert (found.is_command, found.api, found.base_url) == (True, "openai", "http://127.0.0.1:11434/v1")


def test_variables_win_and_may_be_all_that_there_is(tmp_path):
    environ = {
        "LOOPS_RUNNER_CLAUDE_CODE_API_KEY": "sk-other",
        "LOOPS_RUNNER_CLAUDE_CODE_VERSION": "2.1.332",
        "LOOPS_RUNNER_MY_API_PROGRAM": "/opt/mine",
        "LOOPS_RUNNER_MY_API_ARGUMENTS": "--model '{model}' --yes",
    }
    found = runners(tmp_path, MINIMAL, THE_KEY="sk-secret", **environ)
    assert found["claude-code"].api_key.reveal() == "sk-other"
    assert found["claude-code"].version == "2.1.332"
    assert found["my-api"].arguments == ("--model", "{model}", "--yes")


def test_the_key_of_a_runner_is_among_the_secrets_that_are_masked(tmp_path):
    key = tmp_path / "key"
    key.write_text("sk-in-a-file\n")
    settings = read(tmp_path, MINIMAL.replace("env:THE_KEY", "file:key"))
    assert isinstance(settings, Settings)
    assert "sk-in-a-file" in settings.secret_values


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("runners = 3\n", "runners in", "no table"),
        ('[runners.Claude]\nprogram = "x"\n', "runners.'Claude'", "not a runner"),
        ('[runners.claude-code]\napi_key = "env:THE_KEY"\n', "runners.claude-code", "has no program"),
        (MINIMAL + "colour = 1\n", "runners.claude-code.'colour'", "not a setting of a runner"),
        (MINIMAL + 'arguments = "--yes"\n', "runners.claude-code.arguments", "wrong kind"),
        (MINIMAL + "seconds = true\n", "runners.claude-code.seconds", "wrong kind"),
        (MINIMAL + "seconds = 2\n", "runners.claude-code.seconds", "out of range"),
        (MINIMAL + 'hosts = ["pypi.org"]\n', "runners.claude-code.hosts", "not a host with a port"),
        (MINIMAL + 'api = "openai"\n', "runners.claude-code", "speaks only one"),
        ('[runners.codex]\nprogram = "x"\n', "runners.codex", "no key"),
        ('[runners.mine]\nprogram = "x"\nbase_url = "http://h"\n', "runners.mine", "no api"),
        (MINIMAL.replace("env:THE_KEY", "env:NOT_SET"), "runners.claude-code.api_key", "NOT_SET"),
        (MINIMAL.replace("env:THE_KEY", "file:/not/there"), "runners.claude-code.api_key", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_a_fault_that_names_its_place(tmp_path, text, place, words):
    fault = the_fault(tmp_path, text, THE_KEY="sk-secret")
    assert fault.setting.startswith(place)
    assert words in fault.message
    assert fault.hint


def test_a_key_that_stands_in_the_file_is_refused_and_not_repeated(tmp_path):
    fault = the_fault(tmp_path, MINIMAL.replace("env:THE_KEY", "sk-ant-abc"))
    assert "sk-ant-abc" not in f"{fault.setting} {fault.message} {fault.hint}"


def test_a_variable_that_names_no_key_of_a_runner_is_a_fault(tmp_path):
    assert the_fault(tmp_path, LOOPS_RUNNER_CLAUDE_CODE_COLOUR="blue").setting == "LOOPS_RUNNER_CLAUDE_CODE_COLOUR"
