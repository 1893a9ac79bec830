"""Tools that look at what a project is connected to."""

from loops.connections.kinds import KINDS
from server.mcp.schemas import PAGE, choice, takes
from server.mcp.tool import READS, Tool, route

TOOLS = (
    Tool(
        "integrations-list",
        READS,
        route("GET", "/integrations"),
        "List the stored connections (GitHub, Slack, SMTP, PostHog). A Slack notify step names one as slack_workspace, "
        "an email step as from.integrationId. Secrets are never shown, only which are set.",
        takes(kind=choice("Only those of this kind.", *KINDS), **PAGE),
    ),
)
