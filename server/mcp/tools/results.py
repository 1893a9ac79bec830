"""Tools that look at what came of runs: messages, notes, spaces, and how much of the quotas is used."""

from server.api.notifications import STATUSES
from server.mcp.schemas import PAGE, choice, identity, number_or_text, takes, text
from server.mcp.tool import ENDS, READS, STARTS, Tool, route

_MESSAGE = identity("The message's id, from notifications-list.")

TOOLS = (
    Tool(
        "notifications-list",
        READS,
        route("GET", "/notifications"),
        "List the messages that loops send, the newest first: where each goes, how it stands, and what mends it.",
        takes(
            run=identity("Only messages of this run."),
            status=choice("Only those of this status.", *STATUSES),
            **PAGE,
        ),
        outside=True,
    ),
    Tool(
        "notifications-get",
        READS,
        route("GET", "/notifications/{id}"),
        "Read one message with what it says.",
        takes("id", id=_MESSAGE),
        outside=True,
    ),
    Tool(
        "notifications-resend",
        STARTS,
        route("POST", "/notifications/{id}/resend"),
        "Send a message again that was refused, is uncertain or was only shown. An uncertain one may arrive twice.",
        takes("id", id=_MESSAGE, connection=number_or_text("Send it over this connection from now on.")),
        outside=True,
    ),
    Tool(
        "notes-list",
        READS,
        route("GET", "/notes"),
        "List the notes that agents leave for the next run of their loop on the same subject.",
        takes(
            workflow=identity("Only notes of this workflow."),
            status=choice("Only those of this status.", "open", "closed"),
            **PAGE,
        ),
        outside=True,
    ),
    Tool(
        "notes-close",
        ENDS,
        route("POST", "/notes/{id}/close"),
        "Close an open note, with the reason: no agent is shown it any more.",
        takes("id", "reason", id=identity("The note's id."), reason=text("Why it is closed.")),
        outside=True,
    ),
    Tool(
        "quotas-get",
        READS,
        route("GET", "/quotas"),
        "How many AI tasks the project and each of its workflows created in the last 24 hours, of how many, and when "
        "the next slot frees.",
        takes(),
    ),
    Tool(
        "spaces-list",
        READS,
        route("GET", "/spaces"),
        "List the spaces of the project, where runs of loops are listed together, with the loops of each.",
        takes(),
        outside=True,
    ),
    Tool(
        "spaces-get",
        READS,
        route("GET", "/spaces/{id}"),
        "Read one space: its loops, and the runs that are listed there, the newest first.",
        takes("id", id=identity("The space's id, from spaces-list."), **PAGE),
        outside=True,
    ),
)
