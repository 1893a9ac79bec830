import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notify.message import Message, SlackTarget
from notify.slack_blocks import faults, parts


def message(text: str = "", **other) -> Message:
    return Message(SlackTarget(1, "C1"), "key", text, **other)


def sections(text: str) -> list[str]:
    return [block["text"]["text"] for part in parts(message(text)) for block in part.blocks]


@pytest.mark.parametrize("size", [3000, 3001, 4001, 40_001, 65_536])
def test_sl_25_a_report_of_any_size_is_posted_whole(size: int):
    words = [f"word{number}" for number in range(size)]
    text = " ".join(words)[:size]
    made = parts(message(text))
    assert all(len(block["text"]["text"]) <= 3000 for part in made for block in part.blocks)
    assert all(1 <= len(part.blocks) <= 50 for part in made)
    assert "".join(sections(text)) == text
    assert len(made) == -(-len(sections(text)) // 4)


def test_sl_25_a_block_of_code_across_all_parts_is_closed_in_each():
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


def words(message: Message) -> str:
    return "".join(block["text"]["text"] for part in parts(message) for block in part.blocks)


def test_a_text_that_is_too_long_ends_with_how_much_is_left_out():
    text = "lorem ipsum dolor\n" * 50_000
    made = parts(message(text))
    assert len(made) == 20
    assert [part.kept for part in made[:-1]] == [""] * 19
    shown = words(message(text))
    assert text.startswith(shown)
    assert len(shown) > 200_000
    assert made[-1].kept == f"{len(shown):,} of its {len(text):,} characters"
    last = made[-1].with_whole_at("https://loops.example.org/outbox/0a")
    assert last.blocks[:-1] == made[-1].blocks
    told = last.blocks[-1]["text"]["text"]
    assert made[-1].kept in told
    assert "<https://loops.example.org/outbox/0a>" in told
    assert len(last.blocks) == 4


@pytest.mark.parametrize("text", ["x" * 236_000, "word " * 40_000, "word\n" * 40_000 + "\n" * 300_000])
def test_a_text_that_fits_is_not_said_to_be_cut(text: str):
    made = parts(message(text))
    assert len(made) <= 20
    assert {part.kept for part in made} == {""}
    assert made[-1].with_whole_at("/outbox/0a") == made[-1]


@pytest.mark.parametrize("blank", ["\n", " ", "\xa0"])
def test_a_blank_beginning_takes_no_posts(blank: str):
    (part,) = parts(message(blank * 400_000 + "here", format="plain"))
    assert (part.text.strip(), part.kept) == ("here", "")


@pytest.mark.parametrize("written", ["markdown", "mrkdwn", "plain"])
@given(
    text=st.text(alphabet=st.sampled_from("|-a&<>`*_\n \u3000#[](:/https.)"), max_size=60), times=st.integers(1, 3000)
)
@settings(max_examples=30, deadline=None)
def test_no_text_makes_more_posts_than_may_be(written, text: str, times: int):
    made = parts(message(text * times, format=written))
    assert len(made) <= 20
    assert all(len(block["text"]["text"]) <= 3000 for part in made for block in part.blocks)
    assert sum(len(part.blocks) for part in made) <= 79


def test_blocks_that_are_too_many_end_with_how_many_are_left_out():
    made = parts(message(blocks=tuple({"type": "divider"} for _number in range(1200))))
    assert [len(part.blocks) for part in made] == [50] * 19 + [49]
    assert made[-1].kept == "999 of its 1,200 blocks"
    assert len(made[-1].with_whole_at("/outbox/0a").blocks) == 50


def test_a_long_markdown_block_is_shown_whole():
    text = " ".join(f"word{number}" for number in range(2000))
    (part,) = parts(message(blocks=({"type": "markdown", "text": text}, {"type": "divider"})))
    assert "".join(block["text"]["text"] for block in part.blocks[:-1]) == text
    assert part.blocks[-1] == {"type": "divider"}
