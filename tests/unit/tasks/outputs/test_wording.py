"""What an agent says, as it stands on GitHub."""

import re

import pytest

from loops.tasks.outputs.wording import branch_name, commit_message, said, title_line, with_footer
from tests.contract.test_agent_outputs import HIDDEN

PLACES = {
    "comment": said,
    "body": said,
    "title": title_line,
    "commit": lambda text: commit_message("Fine.", text),
    "subject": lambda text: commit_message(text, "Fine."),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("trick", HIDDEN)
def test_ag_13_nothing_that_is_written_hides_or_leads_anywhere(trick, place):
    text, unwanted = HIDDEN[trick]
    written = PLACES[place](text)
    assert "Fine." in written
    assert unwanted not in written


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mention", ["@ada", "@acme/team", "(@ada)", "cc @a-b-c:", "@ada.", "**@ada**"])
def test_ag_13_nobody_is_called(mention, place):
    written = PLACES[place](f"Fine. {mention} end")
    outside = re.sub(r"`[^`\n]*`", "", written)
    assert "@" not in outside
    assert "ada" in written or "a-b-c" in written or "team" in written


def test_addresses_and_code_stay_as_they_are():
    for text in ("me@example.org", "`@ada`", "```\n@decorator\n/deploy\n```", "see https://github.com/@x/y", "1 / 2"):
        assert said(text) == text


def test_no_line_is_an_order_and_no_other_repository_hears_of_it():
    assert said("/deploy now\n  /approve\nfine /ok") == "\\/deploy now\n  \\/approve\nfine /ok"
    assert said("as in acme/other#12 and #3") == "as in `acme/other#12` and #3"


@pytest.mark.parametrize("skip", ["[skip ci]", "[ci skip]", "[NO CI]", "[skip actions]", "[ actions skip ]"])
def test_a_commit_never_skips_the_checks(skip):
    assert "[" not in commit_message(f"Raise it {skip}", f"All {skip} of it")
    assert "skip" not in commit_message("Raise it", "x\n\nskip-checks: true\n")


def test_a_branch_is_named_for_its_title_and_is_its_tasks_alone():
    name = branch_name("Raise the Límit: 50 000!", "t1")
    assert re.fullmatch(r"loops/raise-the-limit-50-000-[0-9a-f]{12}", name)
    assert name == branch_name("Raise the Límit: 50 000!", "t1") != branch_name("Raise the Límit: 50 000!", "t2")
    assert re.fullmatch(r"loops/task-[0-9a-f]{12}", branch_name("漢字 ../..", "t1"))
    assert len(branch_name("x" * 300, "t1")) < 64


def test_a_footer_says_whose_it_is_and_long_texts_leave_room_for_it():
    whole = with_footer(said("x" * 100_000), "https://loops.example/runs/1", "<!-- m -->", "<!-- k -->", "Written")
    assert len(whole) < 65_536
    assert whole.endswith("_Written by [a run of Loops](https://loops.example/runs/1)._\n<!-- m -->\n<!-- k -->")
