"""A model that is a coding agent: how one is named, and what is said of one that is not set up."""

from decimal import Decimal
from pathlib import Path

import pytest

from config.runner_settings import RunnerSettings
from config.secret_text import SecretText
from config.setting_values import TokenPrice
from loops.agent.models.choice import Models
from loops.agent.models.runners import Chosen
from loops.errors import ConfigError

CLAUDE = RunnerSettings("claude-code", Path("/opt/claude"), api_key=SecretText("k"))
AIDER = RunnerSettings("aider", Path("/opt/aider"))
FREE = RunnerSettings("free", Path("/opt/free"), price=TokenPrice(Decimal(0), Decimal(0)))
RUNNERS = {one.name: one for one in (CLAUDE, AIDER, FREE)}


def models(default: str | None = "anthropic:claude-sonnet-5") -> Models:
    return Models(default, SecretText("key"), runners=RUNNERS)


@pytest.mark.parametrize(
    ("choice", "default", "runner", "name"),
    [
        ("claude-code:sonnet", None, Chosen("claude-code", "sonnet"), "claude-code:sonnet"),
        ("claude-code:a:b", "openai:gpt-5", Chosen("claude-code", "a:b"), "claude-code:a:b"),
        ("command:aider", None, Chosen("aider", ""), "command:aider"),
        ("command:aider:gpt-5", None, Chosen("aider", "gpt-5"), "command:aider:gpt-5"),
        ("", "claude-code:sonnet", Chosen("claude-code", "sonnet"), "claude-code:sonnet"),
        ("opus", "claude-code:sonnet", Chosen("claude-code", "opus"), "claude-code:opus"),
        ("gpt-5", "command:aider", Chosen("aider", "gpt-5"), "command:aider:gpt-5"),
        ("", "anthropic:claude-sonnet-5", None, "anthropic:claude-sonnet-5"),
        ("claude-haiku-5", "anthropic:claude-sonnet-5", None, "anthropic:claude-haiku-5"),
        ("qwen:7b", "ollama:llama3", None, "ollama:qwen:7b"),
    ],
)
def test_a_choice_names_a_runner_or_a_model(choice, default, runner, name):
    found = models(default).runner_of(choice)
    assert (None if found is None else found[0]) == runner
    assert models(default).name_of(choice) == name


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (
            "codex:gpt-5",
            r"there is no runner 'codex'.*\[runners\.codex\].*command:aider, claude-code:<name>, command:free",
        ),
        ("command:goose", "there is no runner 'goose'"),
        ("command:", "there is no runner ''"),
        ("command:claude-code", "claude-code is given no model"),
        ("claude-code:", "claude-code is given no model"),
    ],
)
def test_a_runner_that_is_not_set_up_is_refused_and_the_others_are_named(choice, words):
    with pytest.raises(ConfigError, match=words):
        models().name_of(choice)


def test_an_installation_whose_model_is_a_runner_that_is_not_set_up_does_not_start():
    models("claude-code:sonnet").check()
    with pytest.raises(ConfigError, match="there is no runner 'codex'"):
        models("codex:gpt-5").check()


def test_a_limit_in_money_needs_a_price_for_what_the_runner_uses():
    models("claude-code:claude-sonnet-4-6").check(needs_price=True)
    models("command:free").check(needs_price=True)
    with pytest.raises(ConfigError, match="no price is known for command:aider"):
        models("command:aider").check(needs_price=True)
