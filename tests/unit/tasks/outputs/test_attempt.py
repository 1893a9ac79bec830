"""What becomes of a write whose answer is lost."""

import pytest

from loops.errors import ExternalError, RepositoryError, RunFenced, Unreached
from loops.tasks.outputs.attempt import Unsettled, Writing, attempted

LOST = Unreached("GitHub", "a call", "ReadTimeout", sent=True)
DOWN = Unreached("GitHub", "a call", "ConnectTimeout", sent=False)
BROKEN = ExternalError("GitHub", "broken", status=502)
BUSY = ExternalError("GitHub", "busy", status=503, retry_after=0.0)
REFUSED = ExternalError("GitHub", "no", status=403)
REJECTED = RepositoryError("git push failed")
PAUSES = (0.0, 0.0)


async def still() -> None:
    """It is."""


class Outside:
    """Answers in this order, and counts what it is asked."""

    def __init__(self, *answers: object, found: str | None = None) -> None:
        self.answers = list(answers)
        self.found = found
        self.writes = self.looks = 0

    async def write(self) -> str:
        self.writes += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    async def find(self) -> str | None:
        self.looks += 1
        return self.found

    def writing(self, *, repeatable: bool = False) -> Writing:
        return Writing(self.write, self.find, repeatable)


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("error", [DOWN, BUSY, REJECTED])
async def test_what_surely_did_not_arrive_is_sent_again(error, repeatable):
    outside = Outside(error, error, "there")
    assert await attempted(outside.writing(repeatable=repeatable), PAUSES, still) == "there"
    outside = Outside(error, error, error)
    with pytest.raises(type(error)):
        await attempted(outside.writing(repeatable=repeatable), PAUSES, still)
    assert outside.writes == 3


@pytest.mark.parametrize("error", [LOST, BROKEN])
async def test_what_may_have_arrived_is_looked_for_and_never_sent_again(error):
    outside = Outside(error, "twice", found="there")
    assert await attempted(outside.writing(), PAUSES, still) == "there"
    assert outside.writes == 1
    outside = Outside(error, "twice")
    with pytest.raises(Unsettled):
        await attempted(outside.writing(), PAUSES, still)
    assert (outside.writes, outside.looks) == (1, 2)


@pytest.mark.parametrize("error", [LOST, BROKEN])
async def test_what_is_there_once_however_often_it_is_asked_for_is_asked_for_again(error):
    outside = Outside(error, "there")
    assert await attempted(outside.writing(repeatable=True), PAUSES, still) == "there"
    with pytest.raises(Unsettled):
        await attempted(Outside(error, error, error).writing(repeatable=True), PAUSES, still)


async def test_a_refusal_is_final():
    outside = Outside(REFUSED, "there")
    with pytest.raises(ExternalError):
        await attempted(outside.writing(repeatable=True), PAUSES, still)
    assert (outside.writes, outside.looks) == (1, 0)


async def test_who_has_it_no_more_after_a_pause_does_not_send_it_again():
    async def lost() -> None:
        raise RunFenced("another worker sends it")

    outside = Outside(BUSY, "there")
    with pytest.raises(RunFenced):
        await attempted(outside.writing(repeatable=True), PAUSES, lost)
    assert outside.writes == 1
