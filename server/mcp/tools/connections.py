"""Tools that look at what a project is connected to, and at what a task may be given."""

from loops.connections.kinds import KINDS
from server.mcp.schemas import OFFSETS, PAGE, Schema, choice, identity, number_or_text, takes, text
from server.mcp.tool import ADDS, ASKS_OUTSIDE, OVERWRITES, READS, Tool, route

_SKILL = identity("The skill's exact name, from skill-list.")
_TEXT = text("The SKILL.md: ---, name: …, description: …, ---, and then the guidance in Markdown.", 64_000)
_FILES: Schema = {
    "type": "object",
    "description": "Further files of the skill's folder, as {path: text}.",
    "additionalProperties": {"type": "string"},
}
_CONNECTION = number_or_text("The connection's id, from integrations-list.")

TOOLS = (
    Tool(
        "integrations-list",
        READS,
        route("GET", "/integrations"),
        "List the stored connections (GitHub, Slack, SMTP, PostHog, MCP). A Slack notify step names one as "
        "slack_workspace, an email step as from.integrationId. Secrets are never shown, only which are set.",
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
        "List the MCP connections that a task may be given: it names them by their ids in its input connectors. Only "
        "connections that are shared with the project and enabled are here.",
        takes(search=text("Part of the name.", 300), **PAGE),
    ),
    Tool(
        "skill-list",
        READS,
        route("GET", "/skills"),
        "List the skills that a task may be given: it names up to ten by their exact names in its input skills.",
        takes(search=text("Words of a name or description.", 300), **PAGE),
    ),
    Tool(
        "skill-get",
        READS,
        route("GET", "/skills/{id}"),
        "Read one skill whole: its SKILL.md and the further files of its folder.",
        takes("name", name=_SKILL),
        renamed={"name": "id"},
    ),
    Tool(
        "skill-create",
        ADDS,
        route("POST", "/skills"),
        "Store a skill, which tasks may then name. Agents choose it by its description.",
        takes("text", text=_TEXT, files=_FILES),
    ),
    Tool(
        "skill-update",
        OVERWRITES,
        route("PUT", "/skills/{id}"),
        "Replace a skill by another text and other files; those that are left out are gone.",
        takes("name", "text", name=_SKILL, text=_TEXT, files=_FILES),
        renamed={"name": "id"},
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
