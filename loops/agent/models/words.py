"""What went wrong with a request to a provider, in words for whoever set it up."""

from collections.abc import Mapping

from loops.agent.model import FaultKind

_LONGEST = 300
_SAID: Mapping[FaultKind, str] = {
    "auth": "the provider refuses the key",
    "quota": "the account has nothing left to spend",
    "rate_limit": "the provider asks for fewer requests",
    "overloaded": "the provider is overloaded",
    "server": "the provider failed",
    "network": "the provider could not be reached, or broke the answer off",
    "context_overflow": "the conversation is longer than the model takes",
    "refused": "the provider refuses the request",
    "filtered": "the provider's content filter withheld the answer",
}
_MEND: Mapping[FaultKind, str] = {
    "auth": "check LOOPS_MODEL_API_KEY",
    "quota": "add credit, or choose another model",
}
_UNKNOWN = "check LOOPS_MODEL, and LOOPS_MODEL_BASE_URL where one is set: most end in /v1"


def fault_words(kind: FaultKind, detail: str, status: int | None, address: str | None) -> str:
    """One line: what it is, the provider's own words, what mends it. `address` is where an own server is."""
    said = "the provider does not know this model or path" if status == 404 else _SAID[kind]
    number = f" ({status})" if status is not None else ""
    place = f" at {address}" if address and kind == "network" else ""
    own = f": {detail[:_LONGEST]}" if detail and detail not in said else ""
    mend = _UNKNOWN if status == 404 else _MEND.get(kind, "")
    if "tool" in detail.lower() and "support" in detail.lower():
        mend = "choose a model that can call tools"
    return f"{said}{number}{place}{own}" + (f"; {mend}" if mend else "")


def detail_of(body: object, message: str) -> str:
    """What the provider itself says: the message inside its error body, else the whole message on one line."""
    inner = body
    while isinstance(inner, Mapping):
        found = inner.get("message") or inner.get("detail")
        if isinstance(found, str):
            return " ".join(found.split())
        inner = inner.get("error")
    return " ".join((inner if isinstance(inner, str) else message).split())
