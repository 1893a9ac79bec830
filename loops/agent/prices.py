"""What tokens cost in USD: a price that an operator gives, or the public list price of a known model."""

from dataclasses import dataclass
from decimal import Decimal

from loops.agent.budget import Pricing
from loops.agent.transcript import Usage

_MILLION = Decimal(1_000_000)
_PROVIDERS = {"claude-code": "anthropic", "codex": "openai"}
"""Whose models the runners work with that are known by name."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD a million tokens. What is read from or written to a cache costs as much as input where nothing is said."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None

    def __call__(self, usage: Usage) -> Decimal:
        """The cost of a usage."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        plain = max(0, usage.input - usage.cache_read - usage.cache_write)
        cost = plain * self.input + usage.output * self.output
        return (cost + usage.cache_read * read + usage.cache_write * write) / _MILLION


def priced(provider: str, model: str) -> bool:
    """Whether the list has a price for this model."""
    return list_price(provider, model)(Usage(1_000, 1_000)) is not None


def list_price(provider: str, model: str) -> Pricing:
    """The list price of `model` at `provider` (openai, anthropic, …), from the tables of genai-prices.

    The tables lie in the package: nothing is fetched. A model that they do not have costs None.
    """
    # Loading the tables takes a fifth of a second, and only workers ask.
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    def price(usage: Usage) -> Decimal | None:
        counted = Counted(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
        )
        try:
            found = calc_price(counted, model_ref=model, provider_id=_PROVIDERS.get(provider, provider))
            return found.total_price
        except (LookupError, ValueError):  # a model without a price, or numbers that no request has
            return None

    return price
