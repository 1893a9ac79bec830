"""Tools that look at what arrived and why it did or did not start a loop, and that play it again."""

from server.mcp.schemas import PAGE, choice, identity, takes
from server.mcp.tool import READS, STARTS, Tool, route

_DELIVERY = identity("The delivery's id: ours, from deliveries-list, or the sender's, also as github:ID.")

TOOLS = (
    Tool(
        "deliveries-list",
        READS,
        route("GET", "/deliveries"),
        "List what arrived (webhooks, messages, captures), the newest first, and how many runs each started.",
        takes(
            status=choice(
                "Only those of this status. quarantined: it failed three times and is held.",
                "accepted",
                "dispatched",
                "ignored",
                "quarantined",
            ),
            **PAGE,
        ),
        outside=True,
    ),
    Tool(
        "deliveries-explain",
        READS,
        route("GET", "/deliveries/{id}/verdicts"),
        "Why a delivery did or did not start each loop: the stage that stopped it, the reason and the compared values.",
        takes("id", id=_DELIVERY, workflow=identity("Only the verdict of this workflow.")),
        outside=True,
    ),
    Tool(
        "deliveries-replay",
        STARTS,
        route("POST", "/deliveries/{id}/replay"),
        "Play a delivery again, for one workflow or for every enabled one whose filters it passes now. Runs that it "
        "starts do their real work.",
        takes("id", id=_DELIVERY, workflow=identity("Only for this workflow.")),
        outside=True,
    ),
)
