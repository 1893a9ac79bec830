"""How large a workflow may be. It is asked first: every other check takes the longer the larger a document is."""

from collections.abc import Mapping

from loops.definition.findings import Findings
from loops.definition.plain import SERVER_KEYS

MOST_ACTIONS = 200
MOST_EDGES = 1_000
MOST_VARIABLES = 500
MOST_TEXT = 200_000

_MOST_ENTRIES: Mapping[str, int] = {"actions": MOST_ACTIONS, "edges": MOST_EDGES, "variables": MOST_VARIABLES}


def inspect_size(document: object, findings: Findings) -> None:
    """Refuse a document that is over a limit, with one fault for each limit."""
    if not isinstance(document, dict):
        return
    for key, most in _MOST_ENTRIES.items():
        entries = document.get(key)
        if isinstance(entries, list) and len(entries) > most:
            findings.refuse(key, f"holds {len(entries)} entries", f"at most {most}; split the workflow")
    characters = _characters(document)
    if characters > MOST_TEXT:
        findings.refuse(
            "", f"the workflow holds {characters} characters of text", f"at most {MOST_TEXT} in all its values together"
        )


def _characters(document: Mapping[str, object]) -> int:
    """The length of all texts in the values, but for what belongs to the server and is dropped. Without recursion,
    since nothing has looked yet at how deep the document is nested."""
    waiting = [value for key, value in document.items() if key not in SERVER_KEYS]
    total = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return total
