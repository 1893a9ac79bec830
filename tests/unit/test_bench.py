"""What the benches print where a machine gives them nothing to print."""

import pytest

from tests.bench.load import Tally
from tests.bench.receive import show


def test_a_bench_without_a_round_that_could_be_kept_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([]) == {}
    assert capsys.readouterr().out.startswith("no round was kept")


def test_a_bench_with_a_round_tells_its_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = [{"bare": Tally(1.0, {200: 100}, [0.001]), "accept": Tally(1.0, {200: 50}, [0.002])}]
    assert show(rounds) == {"bare": 1.0, "accept": 0.5}
    assert "0.500" in capsys.readouterr().out
