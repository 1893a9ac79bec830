"""Tools that look at what a project is connected to, and at what a task may be given."""

from loops.connections.kinds import KINDS
from server.mcp.schemas import OFFSETS, PAGE, choice, identity, number_or_text, takes, text
from server.mcp.tool import ASKS_OUTSIDE, READS, Tool, route

_CONNECTION = number_or_text("The connection's id, from integrations-list.")

TOOLS = (
    Tool(
        "integrations-list",
        READS,
        route("GET", "/integrations"),
        "List the stored connections (GitHub, Slack, SMTP, PostHog). A Slack notify step names one as slack_workspace, "
        "an email step as from.integrationId. Secrets are never shown, only which are set.",
        takes(kind=choice("Only those of this kind.", *KINDS), **PAGE),
    ),
    Tool(
        "integrations-check",
        ASKS_OUTSIDE,
        route("GET", "/integrations/{id}/check"),
        "Ask the service behind a connection whether its credentials work, what they lack that active loops need, and "
        "whether the Slack app is in the channels that they post to. Nothing is sent.",
        takes("id", id=_CONNECTION),
        outside=True,
    ),
    Tool(
        "integrations-channels-retrieve",
        ASKS_OUTSIDE,
        route("GET", "/integrations/{id}/channels"),
        "List the channels of a Slack connection. Look up the id of a channel here, never guess it. Where is_member is "
        "false the app has to be invited first (/invite in the channel): it hears nothing there, and cannot post where "
        "takes_posts is false either. Tell the person before you build a loop on such a channel.",
        takes("id", id=_CONNECTION, search=text("Part of the name, or an id.", 300), **OFFSETS),
        outside=True,
    ),
    Tool(
        "integrations-github-repos-retrieve",
        ASKS_OUTSIDE,
        route("GET", "/integrations/{id}/github_repos"),
        "List the repositories that a GitHub connection sees. Look up the exact owner/name here before a loop names "
        "it: a trigger of a repository that sends nothing here never fires.",
        takes("id", id=_CONNECTION, search=text("Part of owner/name.", 300), **OFFSETS),
        outside=True,
    ),
    Tool(
        "mcp-connections-list",
        READS,
        route("GET", "/mcp-connections"),
        "List the MCP connections that a task may be given as connectors. This release has none, and says so.",
        takes(**PAGE),
    ),
    Tool(
        "skill-list",
        READS,
        route("GET", "/skills"),
        "List the skills that a task may be given. This release has none, and says so.",
        takes(**PAGE),
    ),
    Tool(
        "cdp-function-templates-list",
        READS,
        route("GET", "/function-templates"),
        "List what a step of type function or function_email may do.",
        takes(),
    ),
    Tool(
        "cdp-function-templates-retrieve",
        READS,
        route("GET", "/function-templates/{id}"),
        "Read which inputs a function template takes: schema, whether it is required, language of its templates.",
        takes("id", id=identity("The template_id, as template-slack.")),
    ),
)
