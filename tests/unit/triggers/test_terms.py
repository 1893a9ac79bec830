"""What is lifted for a replay, against what people are told of it."""

import re
from pathlib import Path

from triggers.terms import LIVE, ONE, PERIOD, WORDS

_GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "why-did-it-not-fire.md"


def test_the_guide_has_every_stage_that_is_lifted_for_a_replay_and_no_other() -> None:
    told = _GUIDE.read_text(encoding="utf-8").split("## Play it again")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", told, re.MULTILINE)
    one, period = (
        {stage for names, *said in rows if said[place].startswith("lifted") for stage in re.findall(r"`(\w+)`", names)}
        for place in (0, 1)
    )
    assert one == ONE.lifted
    assert period == PERIOD.lifted
    assert set(WORDS) == one | period
    assert not LIVE.lifted


def test_what_a_person_did_not_look_at_is_lifted_no_stage_that_holds_back_on_purpose() -> None:
    assert PERIOD.lifted == {"enabled"}
    assert not ONE.lifted & {"filters", "own_output", "unverified", "definition", "overlap"}
