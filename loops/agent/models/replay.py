"""A model that answers as a recorded one did, as long as the conversation is the recorded one."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from loops.agent.elision import ELIDED
from loops.agent.model import ModelError, ModelSettings, ToolSpec
from loops.agent.transcript import Assistant, Message, Reply, System, ToolReturn, Transcript, User

_AROUND = 40


class ReplayModel:
    """Answers from a recording. Where the conversation diverges it refuses, and says where."""

    name = "replay"

    def __init__(self, recorded: Transcript) -> None:
        self._recorded = recorded
        self._rounds = [one for one in recorded.rounds if one.reply.finish not in ("error", "expired", "cancelled")]

    async def request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],  # noqa: ARG002 - a recording does not hold them
        settings: ModelSettings,  # noqa: ARG002
        on_text: Callable[[str], None],
    ) -> Reply:
        """See Model."""
        number = sum(isinstance(message, Assistant) for message in messages)
        answering = [one for one in self._rounds if one.reply.text or one.reply.calls]
        if number >= len(answering):
            raise ModelError(self.name, "refused", f"the recording ends after {len(answering)} rounds")
        recorded = answering[number]
        before = tuple(one for one in self._recorded.rounds if one.number < recorded.number)
        expected = replace(self._recorded, rounds=before).messages(recorded.notice)
        _compare(expected, messages, recorded.number)
        if recorded.reply.text:
            on_text(recorded.reply.text)
        return recorded.reply


def _compare(expected: Sequence[Message], given: Sequence[Message], number: int) -> None:
    for index, (recorded, now) in enumerate(zip(expected, given, strict=False)):
        if not _same(recorded, now):
            words = f"round {number}: {_what(recorded, index)} differs: {_difference(recorded, now)}"
            raise ModelError("replay", "refused", words)
    if len(expected) != len(given):
        words = f"round {number}: the recording has {len(expected)} messages before it, this conversation {len(given)}"
        raise ModelError("replay", "refused", words)


def _same(recorded: Message, now: Message) -> bool:
    if isinstance(recorded, ToolReturn) and isinstance(now, ToolReturn):
        texts = {recorded.text, now.text}
        return recorded.call_id == now.call_id and (len(texts) == 1 or ELIDED in texts)
    if isinstance(recorded, Assistant) and isinstance(now, Assistant):
        return recorded.text == now.text and recorded.calls == now.calls
    return recorded == now


def _what(message: Message, index: int) -> str:
    match message:
        case System():
            return "the system text"
        case User():
            return "the first message" if index <= 1 else f"what the service said (message {index + 1})"
        case Assistant():
            return f"the answer (message {index + 1})"
        case ToolReturn(_, name, _):
            return f"the result of {name} (message {index + 1})"


def _difference(recorded: Message, now: Message) -> str:
    if type(recorded) is not type(now):
        return f"recorded a {type(recorded).__name__}, now a {type(now).__name__}"
    if recorded.text == now.text:
        return "its calls are others"
    pairs = enumerate(zip(recorded.text, now.text, strict=False))
    place = next((index for index, (a, b) in pairs if a != b), min(len(recorded.text), len(now.text)))
    piece = slice(max(0, place - _AROUND // 2), place + _AROUND)
    return f"from character {place + 1} on: recorded {recorded.text[piece]!r}, now {now.text[piece]!r}"
