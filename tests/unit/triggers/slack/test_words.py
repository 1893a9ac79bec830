"""A message's whole text, from its text, blocks and attachments: SL-15."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.slack.words import MOST_CHARACTERS, message_text


def rich(*elements: Any) -> dict[str, Any]:
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": list(elements)}]}


def plain(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (rich(plain("a "), {"type": "text", "text": "b", "style": {"bold": True}}), "a b"),
        (rich({"type": "user", "user_id": "U1"}, plain(" hi")), "<@U1> hi"),
        (rich({"type": "channel", "channel_id": "C1"}), "<#C1>"),
        (rich({"type": "usergroup", "usergroup_id": "S1"}), "<!subteam^S1>"),
        (rich({"type": "broadcast", "range": "here"}), "<!here>"),
        (rich({"type": "emoji", "name": "fire"}), ":fire:"),
        (rich({"type": "link", "url": "https://x.example"}), "<https://x.example>"),
        (rich({"type": "link", "url": "https://x.example", "text": "x"}), "<https://x.example|x>"),
        (rich({"type": "date", "timestamp": 1, "fallback": "today"}), "today"),
        (rich({"type": "of tomorrow", "text": "new"}), "new"),
        (
            {"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [plain("x = 1")]}]},
            "x = 1",
        ),
        (
            {
                "type": "rich_text",
                "elements": [
                    {
                        "type": "rich_text_list",
                        "elements": [
                            {"type": "rich_text_section", "elements": [plain("one")]},
                            {"type": "rich_text_section", "elements": [plain("two")]},
                        ],
                    }
                ],
            },
            "one\ntwo",
        ),
        ({"type": "header", "text": {"type": "plain_text", "text": "Alarm"}}, "Alarm"),
        ({"type": "section", "text": {"type": "mrkdwn", "text": "*full*"}}, "*full*"),
        ({"type": "section", "fields": [plain("a"), plain("b")]}, "a\nb"),
        ({"type": "markdown", "text": "# head"}, "# head"),
        ({"type": "context", "elements": [{"type": "image", "alt_text": "logo"}, plain("by watch")]}, "logo by watch"),
        ({"type": "image", "alt_text": "a graph", "title": plain("load")}, "a graph\nload"),
        ({"type": "table", "rows": [[{"type": "raw_text", "text": "h"}, rich(plain("i"))], "x"]}, "h | i"),
        ({"type": "divider"}, ""),
        ({"type": "actions", "elements": [{"type": "button", "text": plain("Press")}]}, ""),
        ({"type": "of tomorrow", "text": "new"}, ""),
        ("no block", ""),
    ],
)
def test_a_block_is_read_as_people_read_it(block: Any, found: str) -> None:
    assert message_text({"text": "", "blocks": [block]}) == found


@pytest.mark.parametrize(
    ("attachment", "found"),
    [
        ({"fallback": "CRITICAL db"}, "CRITICAL db"),
        ({"pretext": "p", "author_name": "n", "title": "t", "text": "x", "footer": "f"}, "p\nn\nt\nx\nf"),
        ({"fields": [{"title": "Host", "value": "db1"}, {"value": "v"}, {"title": "t"}, 5]}, "Host: db1\nv\nt"),
        ({"blocks": [rich(plain("inside"))]}, "inside"),
        ({"message_blocks": [{"message": {"blocks": [rich(plain("shared"))]}}]}, "shared"),
        ({"text": "disk full on db1", "fallback": "disk full"}, "disk full on db1"),
        (None, ""),
    ],
)
def test_an_attachment_is_read_as_people_read_it(attachment: Any, found: str) -> None:
    assert message_text({"attachments": [attachment]}) == found


def test_what_a_client_repeats_is_said_once() -> None:
    said = "look at <@U1> &amp; *this* :fire:"
    block = rich(
        plain("look at "), {"type": "user", "user_id": "U1"}, plain(" & this "), {"type": "emoji", "name": "fire"}
    )
    assert message_text({"text": said, "blocks": [block], "attachments": [{"fallback": "look at"}]}) == said


def test_a_word_that_stands_inside_of_another_is_said() -> None:
    assert message_text({"text": "tokens", "attachments": [{"title": "ok"}]}) == "tokens\nok"


def test_signs_without_words_are_said() -> None:
    assert message_text({"text": "!!!", "attachments": [{"title": "???"}]}) == "!!!\n???"


@pytest.mark.parametrize("length", [MOST_CHARACTERS - 1, MOST_CHARACTERS])
def test_a_text_of_12_000_characters_is_whole(length: int) -> None:
    assert message_text({"text": "x" * length}) == "x" * length


@pytest.mark.parametrize("length", [MOST_CHARACTERS + 1, 5 * MOST_CHARACTERS])
def test_a_longer_text_is_cut_and_says_so(length: int) -> None:
    found = message_text({"text": "x" * length})
    assert len(found) == MOST_CHARACTERS
    assert found.endswith("x [truncated]")


def test_many_parts_together_are_cut_too() -> None:
    found = message_text({"attachments": [{"title": f"part {number} {'y' * 500}"} for number in range(100)]})
    assert len(found) == MOST_CHARACTERS
    assert found.endswith(" [truncated]")


things = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "elements",
                    "fields",
                    "blocks",
                    "attachments",
                    "title",
                    "rows",
                    "message_blocks",
                    "message",
                ]
            ),
            inner | st.sampled_from(["rich_text", "section", "table", "context", "rich_text_list", "link", "image"]),
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(["text", "blocks", "attachments"]), things))
def test_whatever_stands_there_is_a_text(message: Any) -> None:
    assert isinstance(message_text(message), str)
