"""What is said of a cost that nobody knows, or that is none: for the pages, the command line and the demonstration."""

from collections.abc import Sequence

from config.runner_settings import KINDS
from loops.agent.models.runners import COMMAND

NO_PRICE = "no price is known for this model; LOOPS_PRICE sets one (dollars a million tokens, input/output, as 3/15)"
NO_API = "unknown: this runner has no api, so nobody counts what it uses"
_NO_RUNNER_PRICE = "no price is known for this model; `price` of its runner in loops.toml sets one"
OF_THE_SETTING = "at the price of LOOPS_PRICE: the model is a script, which costs nothing"


def is_scripted(model: str) -> bool:
    """Whether a script speaks in a model's place; it has no price but the one that is set."""
    return model.partition(":")[0] == "scripted"


def is_runner(model: str) -> bool:
    """Whether a coding agent that was started as a command stands in for a model."""
    first = model.partition(":")[0]
    return first in KINDS or first == COMMAND


def is_uncounted(model: str, tokens: int) -> bool:
    """Whether nobody counts what a task of this model uses: its runner is a command without an api."""
    return model.partition(":")[0] == COMMAND and tokens == 0


def unknown_words(models: Sequence[str], tokens: int, known: str = "") -> str:
    """That nobody knows what tasks of these models cost, why, and what mends it; `known` is the part that is known."""
    if models and not known and all(is_uncounted(model, tokens) for model in models):
        return NO_API
    why = _NO_RUNNER_PRICE if models and all(map(is_runner, models)) else NO_PRICE
    return f"{known} and an unknown part: {why}" if known else f"cost unknown: {why}"


def with_source(words: str, models: Sequence[str], cost: float | None) -> str:
    """A cost in words, and where its price comes from if all of it is a script's."""
    if not cost or not models or not all(is_scripted(model) for model in models):
        return words
    return f"{words}, {OF_THE_SETTING}"
