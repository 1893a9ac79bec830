"""What an agent says, as it stands on GitHub."""

import html
import re
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.invisible import without_invisible
from loops.tasks.outputs.code import certain_code
from loops.tasks.outputs.wording import branch_name, commit_message, said, title_line, with_footer
from tests.contract.test_agent_outputs import HIDDEN


def body(text: str) -> str:
    return said(text, becomes_commit=True)


PLACES = {
    "comment": said,
    "body": body,
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


HOME = "git.acme.example:8443"


@pytest.mark.parametrize("place", ["issues/12", "pull/12", "discussions/12", "commit/1a2b3c", "pull/12#discussion_r1"])
def test_nothing_on_another_github_hears_of_links_to_it_and_they_lead_there_all_the_same(place):
    link = f"https://{HOME}/acme/other/{place}"
    written = said(f"see [it]({link}) and {link.upper()}.", HOME)
    assert f"{HOME}/acme/other/{place.partition('/')[0]}/%31" in written
    assert not re.search(rf"{HOME}/acme/other/[a-z]+/1", written, re.IGNORECASE)
    assert unquote(written) == f"see [it]({link}) and {link.upper()}."
    assert said(written, HOME) == written
    assert said(f"see {link}") == f"see {link}"
    assert said("https://github.com/a/b/pull/1", HOME) == "https://redirect.github.com/a/b/pull/1"
    assert "/%31" in commit_message("Fine.", link, HOME)
    # However it is spelled.
    assert "/%31" in said(link.replace(".", "&#46;").replace("/acme", "\\/acme"), HOME)


CODE = [
    "run `npm i @types/node` or `@app.route`",
    "```python\n@pytest.fixture\ndef it():\n    return 'acme/w#1'\n```\n\nand (`a@b @c`) is fine",
    "# Fix\n\n- as `@octocat` says\n- so\n\n~~~~\n/usr/bin/env python\n```\n@octocat\n~~~~",
    "```\nsee https://github.com/acme/w/issues/1 &#64;x <b>\n```",
]


@pytest.mark.parametrize("text", CODE)
def test_what_is_code_beyond_doubt_stays_as_it_is_so_that_it_can_be_copied(text):
    assert said(text) == text
    assert "\u200b" in body(text) or "redirect" in body(text)  # what may become a commit has no code


@pytest.mark.parametrize(
    "text",
    [
        "`@octocat", "``@octocat``", "\\`@octocat`", "a`@octocat`", "`a\n@octocat`", "| `a | @octocat` |",
        "``` @octocat ```", "```\n@octocat", "x\n ```\n@octocat\n```", "> ```\n@octocat\n```",
        "- x\n  ```\n  @octocat\n  ```", "```\na\n ```\n@octocat\n```", "<pre>\n\n```\n</pre> @octocat\n```",
        "$`@octocat`$ `@octocat`", "`x\n`@octocat`", "https://x.example/` `@octocat`",
        "$$\n```\n@octocat\n```\n$$", "```a`b\n@octocat\n```", "\ue0000\ue001 `@octocat`",
    ],
)  # fmt: skip
def test_where_anything_speaks_against_code_nobody_is_called(text):
    assert "@octocat" not in said(text)


def test_an_order_is_none_in_code_either_and_a_path_is_no_order():
    assert (
        said("```\n/approve\n/merge now\n/usr/bin/x\n```") == "```\n\u200b/approve\n\u200b/merge now\n/usr/bin/x\n```"
    )


ACTING = {
    "mention": re.compile(r"(?<![A-Za-z0-9])@[A-Za-z0-9]"),
    "order": re.compile(r"^\s*/[a-z][^/\s]*(?:\s|$)", re.MULTILINE | re.IGNORECASE),
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


def around_code(written: str) -> str:
    """A text in which code is a word."""
    for one in reversed(certain_code(written)):
        written = f"{written[: one.start]}code{written[one.end :]}"
    return written


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
    for write in (said, body, title_line):
        written = write(text)
        assert acting(around_code(written) if write is said else written) == []
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
