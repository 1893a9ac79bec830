"""Ids as people give them: whole, or as much of their beginning as tells them apart."""

from typing import TYPE_CHECKING

from loops.errors import Conflict, NotFound

if TYPE_CHECKING:
    from server.cli.client import Client

SHORTEST = 6
_MOST_NAMED = 5


def run_id(client: "Client", wanted: str) -> str:
    """The id of the run that has this id, or alone begins with it. Raises NotFound or Conflict."""
    return _found(client, "run", wanted)


def delivery_id(client: "Client", wanted: str) -> str:
    """The id of the delivery that has this id (ours or the sender's), or alone begins with it. Raises NotFound or
    Conflict."""
    return _found(client, "delivery", wanted)


def _found(client: "Client", what: str, wanted: str) -> str:
    plural = {"run": "runs", "delivery": "deliveries"}[what]
    try:
        return str(client.get(plural, wanted)["id"])
    except NotFound:
        if len(wanted) < SHORTEST:
            raise
        listed = client.get(plural, prefix=wanted, limit=_MOST_NAMED)
        same = [str(one["id"]) for one in listed["items"]]
        if not same:
            raise
    if len(same) > 1:
        count = f"more than {_MOST_NAMED}" if listed["next"] else str(len(same))
        raise Conflict(
            f"{count} {plural} have an id that begins with {wanted!r}", hint=f"give more of it: {', '.join(same)}"
        )
    return same[0]
