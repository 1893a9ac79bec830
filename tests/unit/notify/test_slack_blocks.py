import json

import pytest

from notify.message import Message, SlackTarget
from notify.slack_blocks import faults, parts


def message(text: str = "", **other) -> Message:
    return Message(SlackTarget(1, "C1"), "key", text, **other)


def sections(text: str) -> list[str]:
    return [block["text"]["text"] for part in parts(message(text)) for block in part.blocks]


@pytest.mark.parametrize("size", [3000, 3001, 4001, 40_001, 65_536])
def test_a_report_of_any_size_is_posted_whole(size: int):
    words = [f"word{number}" for number in range(size)]
    text = " ".join(words)[:size]
    made = parts(message(text))
    assert all(len(block["text"]["text"]) <= 3000 for part in made for block in part.blocks)
    assert all(1 <= len(part.blocks) <= 50 for part in made)
    assert "".join(sections(text)) == text
    assert len(made) == -(-len(sections(text)) // 4)


def test_a_block_of_code_across_all_parts_is_closed_in_each():
    code = "\n".join(f"emoji 🎉 {number} & <tag>" for number in range(3000))
    made = sections(f"Report\n```python\n{code}\n```\nEnd")
    assert len(made) > 20
    assert all(text.count("```") == 2 for text in made)
    lines = [line for text in made for line in text.replace("```", "").splitlines() if line.startswith("emoji")]
    assert lines == [f"emoji 🎉 {number} &amp; &lt;tag&gt;" for number in range(3000)]


def test_slack_is_told_to_parse_nothing_by_itself():
    (part,) = parts(message("ping @here"))
    assert part.blocks[0]["text"] == {"type": "mrkdwn", "text": "ping @here", "verbatim": True}


@pytest.mark.parametrize(("written", "shown"), [("markdown", "*b*"), ("mrkdwn", "**b**"), ("plain", "**b**")])
def test_the_text_is_read_as_it_is_written(written, shown: str):
    assert parts(message("**b**", format=written))[0].text == shown


@pytest.mark.parametrize("text", ["", " \n\n ", "\n" * 9000])
def test_what_says_nothing_is_no_part(text: str):
    assert parts(message(text)) == ()


def test_a_writers_blocks_are_kept_and_their_mentions_are_inert():
    blocks = (
        {"type": "header", "text": {"type": "plain_text", "text": "<!here> & you"}},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "<!channel> *a* & <https://x.org?a=1&b=2|t>"}]},
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
            {"type": "broadcast", "range": "channel"},
            {"type": "user", "user_id": "U1"}, {"type": "user", "user_id": "U2"},
        ]}]},
        {"type": "markdown", "text": "**b** <!here>"},
    )  # fmt: skip
    (part,) = parts(message("fallback", blocks=blocks, mentions=frozenset({"<@U1>"})))
    assert part.text == "fallback"
    header, section, rich, markdown = part.blocks
    assert header == blocks[0]
    assert section["fields"][0]["text"] == "&lt;!channel&gt; *a* &amp; <https://x.org?a=1&b=2|t>"
    assert section["fields"][0]["verbatim"] is True
    assert [one["type"] for one in rich["elements"][0]["elements"]] == ["text", "user", "text"]
    assert markdown["text"]["text"] == "*b* &lt;!here&gt;"
    assert "<!" not in json.dumps([section, rich["elements"][0]["elements"][1:], markdown])


def test_more_than_fifty_blocks_are_several_messages():
    blocks = tuple({"type": "divider", "block_id": str(number)} for number in range(120))
    made = parts(message(blocks=blocks))
    assert [len(part.blocks) for part in made] == [50, 50, 20]
    assert [block["block_id"] for part in made for block in part.blocks] == [str(number) for number in range(120)]


def test_what_is_no_block_is_named():
    assert faults([{"type": "divider"}, "text"]) == "blocks[1] is no block: it must be an object with a type"
    assert faults([{"type": "divider"}]) == ""
