"""Values as a terminal may show them: text from outside cannot act on it, instants are in this machine's time zone."""

import re
from datetime import datetime

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: object) -> str:
    """A value as one line of text."""
    text = "" if value is None else str(value)
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def when(instant: str | None) -> str:
    """An instant of the API, in this machine's time zone."""
    if instant is None:
        return ""
    return datetime.fromisoformat(instant).astimezone().strftime("%Y-%m-%d %H:%M:%S")
