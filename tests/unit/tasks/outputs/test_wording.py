"""What an agent says, as it stands on GitHub."""

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.invisible import without_invisible
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
    assert acting(written) == []
    assert without_invisible(written).replace("@", "") == PLACES[place](f"Fine. {mention} end".replace("@", ""))


def test_what_calls_nobody_stays_as_it_is():
    for text in (
        "me@example.org", "npm i react@18.2.0", "1 / 2", "see src/a.py", "#3 and **#4**", "</details>", "a | b\n/ c",
        "https://github.com/acme/widgets/blob/main/README.md#L12", "Fixes #1.", "[x] done, [ ] not", "`a[skip]`",
    ):  # fmt: skip
        assert said(text) == text
        assert title_line(text) == " ".join(text.split())


def test_no_line_is_an_order_and_no_other_repository_hears_of_it():
    written = said("/deploy now\n  /approve\n> /close\nfine /ok")
    assert written.split("\n") == ["\u200b/deploy now", "  \u200b/approve", "> \u200b/close", "fine /ok"]
    assert said("as in acme/other#12 and #3") == "as in acme/other#\u200b12 and #3"
    for address in ("https://github.com/acme/other/issues/5", "www.GitHub.com/acme/other/pull/5#x"):
        assert said(f"see [it]({address}).").startswith("see [it](")
        assert f"redirect.github.com/acme/other/{address.split('/')[-2]}/5" in said(f"see [it]({address}).")


ACTING = {
    "mention": re.compile(r"(?<![A-Za-z0-9])@[A-Za-z0-9]"),
    "order": re.compile(r"^\s*/[a-z]", re.MULTILINE | re.IGNORECASE),
    "elsewhere": re.compile(r"[\w.-]/[\w.-]+#\d|(?<![\w.-])github\.com/\w+/\w+/(?:issues|pull)/"),
    "skip": re.compile(
        r"\[(?:skip ci|ci skip|no ci|skip actions)\]|\*{3}NO_CI|^skip-checks:", re.MULTILINE | re.IGNORECASE
    ),
    "author": re.compile(r"^[a-z-]+-by\s*:", re.MULTILINE | re.IGNORECASE),
}


def acting(written: str) -> list[str]:
    """What would act in a text, however a reader takes its entities and backslashes."""
    rendered = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", html.unescape(written))
    read = (written, html.unescape(written), rendered)
    return [name for name, pattern in ACTING.items() if any(pattern.search(one) for one in read)]


TRICKS = [
    "hello ``` @octocat", "a ~~~ @octocat", "a ~~~\n/close", "\\@octocat", "x ` @octocat", "\\`@octocat\\`",
    ".@octocat", "@@octocat", "@octocat@ hi", "&#64;octocat", "&commat;octocat", "&#0064octocat",
    "&#&#54;4;octocat", "```\n/approve\n```", "x `` @octocat", "[@octocat](https://x.example)", "é@octocat",
    "_@octocat_", "https://x.example/@octocat", "- /close", "other/repo#5 ` acme/w#1", "acme/w\\#1",
    "acme/w&#35;1", "acme/w&num;&#49;", "https://github.com/other/repo/issues/5",
    "[x](https://github.com/other/repo\\/issues/5)", "https://github&#46;com/other/repo/pull/5", "[[skip ci]]",
    "[ no ci ]", "***NO_CI***", "Fine.\nskip-checks: true", "Co-authored-by: L <l@example.org>",
    "x\nSigned-off-by : : L <l@example.org>",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("trick", TRICKS)
def test_what_would_act_does_not_wherever_it_stands_and_however_it_is_spelled(trick, place):
    written = PLACES[place](trick)
    assert acting(written) == []
    assert len(written) >= 4


PIECES = st.sampled_from(
    ["@", "octocat", "`", "```", "~~~", "\n", "/close", "\\", "&#64;", "&", "#", "64;", "&#54;", "4;", "acme/w",
    "#12", "[", "]", "skip ci", "https://", "github.com/acme/w/issues/5", "Acked-by", ":", " ", ".", "<b>",
    "<!--", "-->", "é", "x"]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_whatever_is_put_together_acts_nowhere_and_said_again_it_stays(text):
    for write in (said, title_line):
        written = write(text)
        assert acting(written) == []
        assert write(written) == written
    assert acting(commit_message("Fine.", text)) == []


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
