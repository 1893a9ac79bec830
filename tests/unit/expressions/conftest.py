import pytest


@pytest.fixture
def tenth_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rendering may do a tenth of the work: values of a tenth of the size and a tenth of the turns run into it."""
    monkeypatch.setattr("loops.expressions.evaluation._WORK", 1_000_000)
