"""Whatever a server sends is made fit to be kept, and to be sent back."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.agent.arguments import read_arguments
from loops.agent.tools.tool import ToolError
from loops.agent.transcript import MOST_TOKENS, Call, Reply, Usage, cleaned


@given(st.lists(st.sampled_from(["", "a", "call_1_0", "call_1_1", "call_1_1_0", "\0"]), max_size=8))
def test_call_ids_are_unique_whatever_comes(ids):
    reply = cleaned(Reply(calls=tuple(Call(one, "look", "{}") for one in ids)), ["a"], 1)
    found = [call.id for call in reply.calls]
    assert len(set(found)) == len(found)
    assert "a" not in found
    assert all(found)


@pytest.mark.parametrize(
    ("usage", "kept"),
    [
        (Usage(-5, 2**40, -1, 3), Usage(0, MOST_TOKENS, 0, 3, estimated=True)),
        (Usage(12.7, 1, 0, 0), Usage(12, 1, 0, 0, estimated=True)),  # type: ignore[arg-type]
        (Usage(5, 6, 1, 2), Usage(5, 6, 1, 2)),
    ],
)
def test_counts_are_whole_and_never_below_nothing(usage, kept):
    assert cleaned(Reply(usage=usage), (), 1).usage == kept


def test_the_providers_own_form_is_storable_or_left_out():
    deep: list[object] = []
    for _level in range(5_000):
        deep = [deep]
    assert cleaned(Reply(native={"text": "a\0b"}), (), 1).native == {"text": "a\ufffdb"}
    assert cleaned(Reply(native=deep), (), 1).native is None  # type: ignore[arg-type]


def test_arguments_that_are_nested_too_deep_are_sent_back_and_never_break_the_agent():
    for depth in (300, 700, 900, 5_000):
        text = '{"a": 1, "b": ' + "[" * depth + "]" * depth + "}"
        with suppress(ToolError):
            assert read_arguments(text)["a"] == 1
    with pytest.raises(ToolError, match="nested too deep"):
        read_arguments('{"b": ' + "[" * 50_000 + "]" * 50_000 + "}")
