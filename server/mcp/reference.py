"""`python -m server.mcp.reference` prints docs/reference/mcp.md, from the table of tools."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from server.mcp.tool import Effect, Tool
from server.mcp.tools import TOOLS

_HEAD = (
    "# MCP tools",
    "",
    "<!-- Printed by `python -m server.mcp.reference`; a test compares the two. -->",
    "",
    "What agents call over the Model Context Protocol; [the guide](../guides/mcp.md) says how they are connected. Each",
    "tool is a path of the [REST API](api.md) under another name: what it answers is what the path answers, with the",
    "same checks and the same roles.",
    "",
    "A result is one JSON object, as structured content and as text. Results of tools marked `outside` hold texts that",
    'people outside wrote, so they come as `{"notice": …, "result": …}`. An answer of over 100,000 characters has its',
    "long texts cut, and is refused where that does not help. A failing call gives a result with `isError` and",
    '`{"error": {"code", "message", "path"?, "hint"?, "faults"?}}`, as over REST.',
    "",
    "Lists have `limit` (20 where nothing is said) and go on with `cursor`, the `next` of the page before, or with",
    "`offset` where GitHub or Slack gave them.",
    "",
    "| tool | role | what it may do | path of the API |",
    "|---|---|---|---|",
)


def mcp_reference() -> str:
    """docs/reference/mcp.md."""
    rows = [f"| [`{tool.name}`](#{tool.name}) | {tool.route.role} | {_may(tool)} | {_path(tool)} |" for tool in TOOLS]
    sections = [line for tool in TOOLS for line in _section(tool)]
    return "\n".join([*_HEAD, *rows, *sections, ""])


def _may(tool: Tool) -> str:
    effect: Effect = tool.effect
    words = ["reads" if effect.read_only else "changes"]
    words += ["destructive"] if effect.destructive else []
    words += ["repeatable"] if effect.repeatable and not effect.read_only else []
    words += ["asks or tells other services"] if effect.outward else []
    words += ["`outside`"] if tool.outside else []
    return ", ".join(words)


def _path(tool: Tool) -> str:
    return f"{tool.route.method} `{tool.route.path.removeprefix('/projects/{project}/')}`"


def _section(tool: Tool) -> Iterator[str]:
    first, _, rest = tool.does.partition("\n")
    yield from ("", f"## {tool.name}", "", _plain(first), "")
    if rest:
        yield from ("```text", rest, "```", "")
    properties: Mapping[str, Mapping[str, Any]] = tool.takes["properties"]
    if not properties:
        yield "It takes nothing."
        return
    yield from ("| argument | type | required | meaning |", "|---|---|---|---|")
    for name, schema in properties.items():
        needed = "yes" if name in tool.takes.get("required", ()) else ""
        yield f"| `{name}` | {_type(schema)} | {needed} | {_plain(schema['description'])} |"
    if tool.takes["additionalProperties"]:
        yield from ("", "Other keys of a workflow may stand beside them ([workflows](workflow.md)).")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    kind = schema["type"]
    words = kind if isinstance(kind, str) else " or ".join(kind)
    if "minimum" in schema:
        words += f", {schema['minimum']} to {schema['maximum']}"
    if "default" in schema:
        words += f", {schema['default']} where nothing is said"
    return words


def _plain(text: str) -> str:
    """Text that no word of Markdown in it changes."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


if __name__ == "__main__":
    sys.stdout.write(mcp_reference())
