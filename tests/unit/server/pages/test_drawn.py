"""Markdown on a page."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.pages.drawn import MOST_DRAWN, drawn

TAGS = {"p", "blockquote", "pre", "code", "strong", "em", "s", "span"}
ATTRIBUTES = {("dir", "auto"), ("class", "address")}


class Read(HTMLParser):
    """The elements and the text of what is drawn."""

    def __init__(self, drawing: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""
        self.feed(drawing)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "# Done\n\nAll **well**.",
            '<p dir="auto"><strong>Done</strong></p><p dir="auto">All <strong>well</strong>.</p>',
        ),
        ("a *b* ~~c~~ `d*e*`", '<p dir="auto">a <em>b</em> <s>c</s> <code>d*e*</code></p>'),
        ("- one\n- [x] two", '<p dir="auto">• one\n☑ two</p>'),
        ("> said\n> so\n\nno", '<blockquote dir="auto">said\nso</blockquote><p dir="auto">no</p>'),
        ("```py\na = '<b>' # ```\n```", "<pre><code>a = &#39;&lt;b&gt;&#39; # ```</code></pre>"),
        ("my_own_name 2 * 3 * 4", '<p dir="auto">my_own_name 2 * 3 * 4</p>'),
        ("<b>&amp;</b>", '<p dir="auto">&lt;b&gt;&amp;&lt;/b&gt;</p>'),
        (
            "see [the *page*](https://x.example/?a=1&b=2)",
            '<p dir="auto">see the <em>page</em> (<span class="address">https://x.example/?a=1&amp;b=2</span>)</p>',
        ),
        ("https://x.example.", '<p dir="auto"><span class="address">https://x.example</span>.</p>'),
        ("[x](javascript:alert)", '<p dir="auto">x (javascript:alert)</p>'),
    ],
)
def test_markdown_is_drawn_as_slack_would_show_it_and_leads_nowhere(written: str, shown: str) -> None:
    assert drawn(written) == shown


def test_a_mention_that_pings_is_shown_without_its_brackets() -> None:
    assert (
        drawn("<@U1> <!here>", frozenset({"<@U1>"}))
        == """<p dir="auto"><span class="address">@U1</span> &lt;!here&gt;</p>"""
    )


def test_what_cannot_be_seen_is_written_out_and_what_is_too_long_is_not_drawn() -> None:
    assert "a\\u202eb" in str(drawn("a\u202eb"))
    assert drawn("x" * (MOST_DRAWN + 1)) is None


PIECES = st.sampled_from(
    ["<script>", "</p>", '"', "'", "`", "```", "\n", "*", "_", "~", "[", "](", ")", "https://x.example", "<", ">", "&",
     "&lt;", "&#60;", "|", "onclick=", "<!--", "<@U1>", " ", "x", "javascript:", "\u200b"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join) | st.text())
def test_nothing_that_is_drawn_is_an_element_of_the_writers(text: str) -> None:
    read = Read(str(drawn(text)))
    assert {*read.tags} <= TAGS
    assert read.attributes <= ATTRIBUTES
