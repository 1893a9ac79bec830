from decimal import Decimal

import pytest

from loops.agent.prices import Price, list_price
from loops.agent.transcript import Usage


def test_a_price_counts_cached_tokens_apart():
    price = Price(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75"))
    usage = Usage(1_000_000, 100_000, cache_read=400_000, cache_write=200_000)
    assert price(usage) == Decimal("1.2") + Decimal("1.5") + Decimal("0.12") + Decimal("0.75")
    assert Price(Decimal(3), Decimal(15))(usage) == Decimal("4.5")


def test_the_list_price_of_a_known_model_and_of_an_unknown_one():
    pytest.importorskip("genai_prices", reason="genai-prices, the table of list prices, is not installed")
    known = list_price("openai", "gpt-4o")
    assert known(Usage(1_000_000, 0)) == Decimal("2.5")
    assert known(Usage(1_000_000, 0, cache_read=1_000_000)) == Decimal("1.25")
    assert list_price("openai", "no-such-model")(Usage(10, 10)) is None
