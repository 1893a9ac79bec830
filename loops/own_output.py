"""Our mark on what a run writes where its author's name proves nothing, as with a personal token: an HTML comment.

A mark holds the run, how many runs led to it (`hop`), where it stands and under whose name, and an HMAC over all of
it. Nobody can make one without the key; one that is pasted elsewhere, or by somebody else, is none there. A mark
therefore mutes nothing but our own words in their own place.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_HOPS = 5
PURPOSE = "own output"
"""What the key is derived for."""
BRANCHES = "loops/"
"""What the names of our branches begin with."""

_MARK = re.compile(
    r"<!-- loops run=([0-9A-Za-z-]{1,64}) hop=([0-9]{1,3}) mac=([0-9a-f]{32}) -->",
)
_MOST_TRIED = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands: in a repository, by its number, under an issue or pull request; `number` is None for the
    text of a new issue or pull request itself, which has no number yet when it is written. `author` is the login that
    it is written with."""

    repository_id: int
    number: int | None
    author: str


@dataclass(frozen=True, slots=True)
class OwnMark:
    """What a mark says: the run that wrote, and how many runs led here, itself included."""

    run_id: str
    hop: int


class Marks:
    """Makes and knows marks. The first key makes them, every key knows its own."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    def make(self, mark: OwnMark, place: Place) -> str:
        """The mark as it is put into a text. A run id holds letters, digits and hyphens alone."""
        made = f"<!-- loops run={mark.run_id} hop={mark.hop} mac={_mac(self._keys[0], mark, place)} -->"
        if _MARK.fullmatch(made) is None:
            raise ValueError(f"{mark} is none that a mark can hold")
        return made

    def find(self, text: str, place: Place) -> OwnMark | None:
        """The mark of ours in a text that stands in this place; None where it has none."""
        if "<!-- loops run=" not in text:
            return None
        for number, found in enumerate(_MARK.finditer(text)):
            if number >= _MOST_TRIED:
                return None
            mark = OwnMark(found[1], int(found[2]))
            if any(hmac.compare_digest(found[3], _mac(key, mark, place)) for key in self._keys):
                return mark
        return None


def own_words(what: str, mark: OwnMark | None, most_hops: int = MOST_HOPS) -> str:
    """Why what this installation wrote starts nothing; `what` says how it is known."""
    if mark is not None and mark.hop >= most_hops:
        return f"hop limit: {mark.hop} runs in a row led to it, {most_hops} at most ({what}, run {mark.run_id})"
    run = "" if mark is None else f" (run {mark.run_id}, hop {mark.hop} of {most_hops} at most)"
    return f"{what}{run}: own output never starts a loop"


def _mac(key: bytes, mark: OwnMark, place: Place) -> str:
    number = "new" if place.number is None else place.number
    # No part can hold the separator: a login has letters, digits, hyphens and brackets alone.
    text = f"{mark.run_id}\n{mark.hop}\n{place.repository_id}\n{number}\n{place.author.lower()}"
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:32]
