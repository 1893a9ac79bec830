"""What is said of a cost that nobody knows, or that is none: for the pages, the command line and the demonstration."""

from collections.abc import Sequence

NO_PRICE = "no price is known for this model; LOOPS_PRICE sets one (dollars a million tokens, input/output, as 3/15)"
UNKNOWN = f"cost unknown: {NO_PRICE}"
PART_UNKNOWN = f"and an unknown part: {NO_PRICE}"
OF_THE_SETTING = "at the price of LOOPS_PRICE: the model is a script, which costs nothing"


def is_scripted(model: str) -> bool:
    """Whether a script speaks in a model's place; it has no price but the one that is set."""
    return model.partition(":")[0] == "scripted"


def with_source(words: str, models: Sequence[str], cost: float | None) -> str:
    """A cost in words, and where its price comes from if all of it is a script's."""
    if not cost or not models or not all(is_scripted(model) for model in models):
        return words
    return f"{words}, {OF_THE_SETTING}"
