"""What people say to an agent while it works."""

from dataclasses import dataclass, replace
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Heard:
    """What the agent is told before its next round, and the keys of the messages in it; both empty for nothing."""

    text: str = ""
    keys: tuple[str, ...] = ()


NOTHING_HEARD = Heard()


class Inbox(Protocol):
    """Holds messages until a round that tells of them is journalled: they are told again where that never comes."""

    async def heard(self) -> Heard:
        """What nobody has told the agent yet."""


class BeginsWith:
    """An inbox whose first message is told after a text of the service's own."""

    def __init__(self, text: str, inbox: Inbox) -> None:
        self._text = text
        self._inbox = inbox

    async def heard(self) -> Heard:
        """See Inbox."""
        text, self._text = self._text, ""
        heard = await self._inbox.heard()
        return replace(heard, text="\n\n".join(one for one in (text, heard.text) if one))


class NobodySpeaks:
    """Nobody can say anything."""

    async def heard(self) -> Heard:
        """See Inbox."""
        return NOTHING_HEARD
