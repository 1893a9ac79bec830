"""What can be told of a model before any task asks for it."""

from decimal import Decimal

import pytest

from config.secret_text import SecretText
from loops.agent.models.choice import Models
from loops.agent.models.words import detail_of, fault_words
from loops.agent.prices import Price
from loops.agent.transcript import Usage
from loops.errors import ConfigError

KEY = SecretText("key-1")


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (Models("openai:gpt-5"), "LOOPS_MODEL_API_KEY"),
        (Models("anthropic:claude-sonnet-5"), "LOOPS_MODEL_API_KEY"),
        (Models("ollama:qwen3"), "LOOPS_MODEL_BASE_URL"),
        (Models("scripted:unheard-of"), "LOOPS_MODEL: there is no script 'unheard-of'"),
    ],
)
def test_a_model_that_cannot_be_reached_is_refused_before_any_task_and_names_its_setting(models, names):
    with pytest.raises(ConfigError, match=names):
        models.check()


def test_no_model_at_all_is_no_fault_of_the_settings():
    Models().check(needs_price=True)


def test_a_limit_in_money_needs_a_price_that_is_known():
    local = Models("ollama:qwen3", None, "http://127.0.0.1:11434/v1")
    local.check()
    with pytest.raises(ConfigError, match="LOOPS_PRICE"):
        local.check(needs_price=True)
    Models("ollama:qwen3", None, "http://127.0.0.1:11434/v1", Price(Decimal(1), Decimal(2))).check(needs_price=True)
    Models("openai:gpt-4o", KEY).check(needs_price=True)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (("auth", "Incorrect API key provided", 401, None), ["refuses the key (401)", "LOOPS_MODEL_API_KEY"]),
        (("refused", "model not found", 404, None), ["(404): model not found", "LOOPS_MODEL_BASE_URL", "/v1"]),
        (("network", "Connection error.", None, "http://127.0.0.1:9/v1"), ["at http://127.0.0.1:9/v1"]),
        (("refused", "llama2 does not support tools", 400, None), ["choose a model that can call tools"]),
        (("quota", "You exceeded your quota", 429, None), ["nothing left to spend (429)", "add credit"]),
    ],
)
def test_a_fault_of_a_provider_says_what_it_is_and_what_mends_it_on_one_line(fault, words):
    told = fault_words(*fault)
    assert all(word in told for word in words), told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"error": {"message": "Wrong\nkey", "type": "x"}}, "Wrong key"),
        ({"message": "plain"}, "plain"),
        ({"error": "text alone"}, "text alone"),
        (None, "the whole message"),
        ({"error": {"code": 5}}, "the whole message"),
        (["odd"], "the whole message"),
    ],
)
def test_the_providers_own_words_are_found_in_whatever_it_answers(body, detail):
    assert detail_of(body, "the  whole\nmessage") == detail


def test_a_list_price_is_there_for_a_known_model_alone():
    from loops.agent.prices import list_price, priced

    assert priced("openai", "gpt-4o")
    assert not priced("openai", "no-such-model-at-all")
    assert list_price("openai", "no-such-model-at-all")(Usage(1, 1)) is None
