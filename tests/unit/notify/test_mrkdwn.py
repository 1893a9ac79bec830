import pytest

from notify.mrkdwn import from_mrkdwn, from_plain, link, mentions_in


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('a & "b" <c>', 'a &amp; "b" &lt;c&gt;'),
        ("&amp;", "&amp;amp;"),
        ("*no bold* <!here>", "*no bold* &lt;!here&gt;"),
        ("at https://x.org/?a=1&b=2, or", "at <https://x.org/?a=1&b=2>, or"),
    ],
)
def test_plain_text_shows_every_character(text: str, shown: str):
    assert from_plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("*bold* <https://x.org/?a=1&b=2|t>", "*bold* <https://x.org/?a=1&b=2|t>"),
        ("<https://x.org/?a=1&amp;b=2|t &amp; u>", "<https://x.org/?a=1&b=2|t &amp; u>"),
        ("a & b &amp; c &lt;", "a &amp; b &amp; c &lt;"),
        ("> quote\na > b", "> quote\na &gt; b"),
        ("<!channel> <@U1>", "&lt;!channel&gt; &lt;@U1&gt;"),
        ("`<!here> & https://x.org`", "`&lt;!here&gt; &amp; https://x.org`"),
        ("```\n<@U1> &lt;\n```", "```\n&lt;@U1&gt; &lt;\n```"),
        ("see https://x.org.", "see <https://x.org>."),
        ("<javascript:alert(1)|x>", "&lt;javascript:alert(1)|x&gt;"),
    ],
)
def test_slacks_own_notation_is_kept_and_made_safe(text: str, shown: str):
    assert from_mrkdwn(text) == shown


def test_mentions_that_a_person_wrote_into_a_loop_may_ping():
    written = "<@U1> and <!subteam^S1> look at {event.title}: a<b"
    allowed = mentions_in(written)
    assert allowed == {"<@U1>", "<!subteam^S1>"}
    rendered = written.replace("{event.title}", "<!channel>")
    assert from_mrkdwn(rendered, allowed) == "<@U1> and <!subteam^S1> look at &lt;!channel&gt;: a&lt;b"


def test_an_address_too_long_to_be_cut_around_is_text():
    assert link("https://x.org/" + "a" * 3000, "t").startswith("t (https://")
