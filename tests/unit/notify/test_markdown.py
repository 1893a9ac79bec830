import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notify.markdown import to_mrkdwn

PINGS = re.compile(r"<[@!#][^>]*>")


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("***both***", "*_both_*"),
        ("**bold _and_ italic**", "*bold _and_ italic*"),
        ("*a **b** c*", "_a *b* c_"),
        ("**bold *it***", "*bold _it_*"),
        ("~~gone~~", "~gone~"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        (r"\*not italic\* \<", "*not italic* &lt;"),
        ("# Heading", "*Heading*"),
        ("### A **bold** one ###", "*A bold one*"),
        ("#no heading", "#no heading"),
        ("- one\n* two\n  + three", "• one\n• two\n  • three"),
        ("1. one\n2. two", "1. one\n2. two"),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done"),
        (">>> deep\n> > - item\n>>\n>", "> > > deep\n> > • item\n> >\n>"),
        ("## Heading ## with # marks ##  ", "*Heading ## with # marks*"),
        ("# C#", "*C#*"),
        ("a|b|c\n-|:-:|-:\n1||3|4", "```\na  b  c\n-  -  -  -\n1     3  4\n```"),
        ("a|b\n-|", "a|b\n-|"),
        ("> quoted **text**\n>\n> - item", "> quoted *text*\n>\n> • item"),
        ("---", "────────────"),
        ("`a < b` and ``c`d``", "`a &lt; b` and `cˋd`"),  # noqa: RUF001
        ("`**raw**`", "`**raw**`"),
        ("```python\nif a < b:\n    **x**\n```", "```\nif a &lt; b:\n    **x**\n```"),
        ("~~~\nx ``` y\n~~~", "```\nx ``\u200b` y\n```"),
        ("````\n```\n````", "```\n``\u200b`\n```"),
        ("```\nnever closed", "```\nnever closed\n```"),
        ("a\r\nb", "a\nb"),
        ("| a | long |\n|---|:-:|\n| 1 \\| 2 | x |", "```\na      long\n-----  ----\n1 | 2  x\n```"),
        ("a | b\nno table", "a | b\nno table"),
    ],
)
def test_sl_27_markdown_becomes_what_slack_shows(markdown: str, mrkdwn: str):
    assert to_mrkdwn(markdown) == mrkdwn


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("[t](https://x.org/?a=1&b=2)", "<https://x.org/?a=1&b=2|t>"),
        ("[**t** & u](https://x.org)", "<https://x.org|*t* &amp; u>"),
        ('[t](https://x.org "title")', "<https://x.org|t>"),
        ("[wiki](https://x.org/a_(b))", "<https://x.org/a_(b)|wiki>"),
        ("![alt](https://x.org/i.png)", "<https://x.org/i.png|alt>"),
        ("[t](<https://x.org/a b|c>)", "<https://x.org/a%20b%7Cc|t>"),
        ("see https://x.org/a?b=1&c=2.", "see <https://x.org/a?b=1&c=2>."),
        ("(https://x.org/a)", "(<https://x.org/a>)"),
        ("https://x.org/a_(b))).", "<https://x.org/a_(b)>))."),
        ("<https://x.org>", "<https://x.org>"),
        ("[https://x.org](https://x.org)", "<https://x.org|x.org>"),
        ("[mail](mailto:ada@example.org)", "<mailto:ada@example.org|mail>"),
        ("[bad](javascript:alert(1))", "bad (javascript:alert(1))"),
        ("[docs](docs/a.md)", "docs (docs/a.md)"),
    ],
)
def test_links_are_kept_with_their_ampersands(markdown: str, mrkdwn: str):
    assert to_mrkdwn(markdown) == mrkdwn


def test_sl_26_agent_text_is_escaped_once_pings_nobody_and_keeps_its_links():
    shown = to_mrkdwn("a<b & <!here> <https://x?a=1&b=2|t>")
    assert shown == "a&lt;b &amp; &lt;!here&gt; <https://x?a=1&b=2|t>"


def test_what_was_escaped_before_is_not_escaped_again():
    assert to_mrkdwn("&lt;!channel&gt; &amp; &quot;") == '&lt;!channel&gt; &amp; "'


@pytest.mark.parametrize("mention", ["<!channel>", "<!here|here>", "<@U12345>", "<#C123|general>", "<!subteam^S1>"])
@pytest.mark.parametrize(
    "around", ["{}", "**{}**", "[{}](https://x.org)", "> {}", "- {}", "# {}", "`{}`", "| {} |\n|-|"]
)
def test_mentions_are_inert_wherever_they_stand(mention: str, around: str):
    assert not PINGS.search(to_mrkdwn(around.format(mention)))


def test_only_what_may_ping_does():
    shown = to_mrkdwn("**<@U1>** <@U2> <!here>", frozenset({"<@U1>"}))
    assert shown == "*<@U1>* &lt;@U2&gt; &lt;!here&gt;"


@given(st.text(alphabet=st.sampled_from("<>!@#U1|&;amp`*_~[]()\\ \n-httpsx:/."), max_size=200))
def test_no_text_whatever_pings(text: str):
    shown = to_mrkdwn(text)
    assert not PINGS.search(shown)
    # Every < that is left begins a link of ours.
    assert all(re.match(r"<(https?://|mailto:)", shown[at.start() :]) for at in re.finditer("<", shown))


@pytest.mark.parametrize(
    "text",
    [
        "*a " * 9000,
        "**a " * 9000,
        "_a " * 9000,
        "~~a " * 9000,
        "[a](" * 9000,
        "[" * 30000,
        "`a ``b " * 5000,
        "<" * 30000,
        "|" * 9000 + "\n" + "|-" * 9000,
        "https://" * 4000,
        "*a **b " * 5000,
        "***a " * 7000,
        "http://a" + ")" * 400_000,
        "http://a" + ".)" * 200_000,
        ">" * 400_000,
        "> " * 200_000 + "x",
        "# a" + " " * 200_000 + "b",
        "# a" + " #" * 200_000,
        "a|\n" + " " * 200_000 + "|",
        "a|b\n-|-\n" + "a|b\n" * 5000 + "|" * 50_000,
        ">" * 500 + "[" * 30_000,
        "[" + "[x]" * 60_000,
        "[a](" + "(x)" * 60_000,
        "|\n|-\n" * 20_000,
        "\n" * 200_000,
    ],
    ids=lambda text: text[:6],
)
@pytest.mark.timeout(10)
def test_marks_that_never_end_take_linear_time(text: str):
    assert to_mrkdwn(text)


# Escaping takes one letter to five, a column that is aligned is padded to a few times the table's size.
FACTOR = 12


TABLES = ["|", "\n|-|-|\n", "-|-\n", "a|b\n", "x" * 500 + "|", "\\|"]
BLOCKS = ["\n", "---\n", "***\n", ">", "> ", "# ", "- ", "```", "~~~\n"]
MARKS = ["a", "&", "<", "x" * 50, "`", "[a](https://e.org/ )", "<https://e.org/|\u3000>", "**", "_", " ", "&amp;"]


@given(st.lists(st.sampled_from([*TABLES, *BLOCKS, *MARKS]), max_size=80).map("".join), st.integers(1, 60))
def test_what_is_shown_is_at_most_a_few_times_what_was_written(text: str, times: int):
    assert len(to_mrkdwn(text * times)) <= FACTOR * len(text * times) + 20


@pytest.mark.parametrize(("wide", "rows"), [(3000, 750), (16_000, 4000), (100_000, 25_000)])
@pytest.mark.parametrize("row", ["a|b", "|b", "a|", "a|b|c|d"])
def test_one_long_cell_does_not_pad_every_row(wide: int, rows: int, row: str):
    text = "x" * wide + "|b\n-|-\n" + f"{row}\n" * rows
    shown = to_mrkdwn(text)
    assert len(shown) < 6 * len(text)
    assert shown.count("\n") == rows + 4


def test_a_column_with_a_long_cell_is_aligned_beside_it():
    shown = to_mrkdwn(f"| k | what |\n|---|---|\n| {'x' * 60} | a long one, longer than all |\n| b | short |")
    assert shown.splitlines()[1] == "k" + " " * 39 + "  what"
    assert shown.splitlines()[4] == "b" + " " * 39 + "  short"


@pytest.mark.parametrize("depth", [1, 1000, 20_000])
def test_quotes_may_lie_in_each_other_however_deep(depth: int):
    assert to_mrkdwn(">" * depth + " **a**") == "> " * depth + "*a*"
