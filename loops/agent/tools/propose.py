"""propose_pull_request, propose_comment, propose_labels, propose_issue: what is written once the agent has ended.

They write nothing: the service holds each proposal against its rules, and writes it after that under its own name.
"""

from collections.abc import Awaitable, Callable, Sequence

from pydantic import Field

from loops.agent.proposals import ProposalKind, Proposals, TooMany
from loops.agent.sanitise import sanitised
from loops.agent.tools.tool import Arguments, CallContext, Tool, ToolError, TypedTool
from loops.event import JsonValue

LONGEST_TITLE = 200
LONGEST_BODY = 60_000
MOST_LABELS = 10
_LONGEST_LABEL = 50
_AFTER = "It is written after you have finished, once it passed the checks of the service."


class _PullRequest(Arguments):
    title: str = Field(description="One line.")
    body: str = Field(description="What was changed and why, in Markdown. Whoever reviews it sees nothing else.")
    commit_message: str = Field(
        default="", description="The message of the commit; without one the title and the body."
    )


class _Comment(Arguments):
    body: str = Field(description="The whole comment, in Markdown.")


class _Labels(Arguments):
    labels: list[str] = Field(description=f"Labels that the repository has, {MOST_LABELS} at most.")


class _Issue(Arguments):
    title: str = Field(description="One line.")
    body: str = Field(description="The whole text, in Markdown.")


def propose_tools(proposals: Proposals) -> Sequence[Tool]:
    """The tools over the proposals of one task; comments and labels only where there is a subject to put them to."""
    tools = [_pull_request(proposals), _issue(proposals)]
    if proposals.subject is not None:
        tools += [_comment(proposals, proposals.subject), _labels(proposals, proposals.subject)]
    return [tool for tool in tools if proposals.most.get(_kind(tool), 0) > 0]


def _kind(tool: Tool) -> ProposalKind:
    kind: ProposalKind = tool.spec.name.removeprefix("propose_")  # type: ignore[assignment]
    return kind


def _pull_request(proposals: Proposals) -> Tool:
    async def propose(given: _PullRequest, context: CallContext) -> JsonValue:
        title, body = _line("title", given.title), _text("body", given.body)
        message = given.commit_message.strip()
        if len(message) > LONGEST_BODY:
            raise _too_long("commit_message", len(message), LONGEST_BODY)
        return await _added(proposals, "pull_request", {"title": title, "body": body, "message": message}, context)

    return _tool(
        "pull_request",
        f"Propose a draft pull request to {proposals.repository} with all that you changed in the checkout, up to the "
        f"moment when you finish. {_AFTER} Files of CI, instructions of agents, settings of git and secrets are not "
        "taken.",
        _PullRequest,
        propose,
    )


def _comment(proposals: Proposals, number: int) -> Tool:
    async def propose(given: _Comment, context: CallContext) -> JsonValue:
        return await _added(proposals, "comment", {"body": _text("body", given.body)}, context)

    return _tool("comment", f"Propose a comment under #{number} of {proposals.repository}. {_AFTER}", _Comment, propose)


def _labels(proposals: Proposals, number: int) -> Tool:
    async def propose(given: _Labels, context: CallContext) -> JsonValue:
        labels = [_line("labels", one, _LONGEST_LABEL) for one in given.labels]
        if not 1 <= len(labels) <= MOST_LABELS:
            raise ToolError("PROPOSE_LABELS", f"{len(labels)} labels are given", f"give 1 to {MOST_LABELS}")
        return await _added(proposals, "labels", {"labels": list(labels)}, context)

    return _tool("labels", f"Propose labels for #{number} of {proposals.repository}. {_AFTER}", _Labels, propose)


def _issue(proposals: Proposals) -> Tool:
    async def propose(given: _Issue, context: CallContext) -> JsonValue:
        body: dict[str, JsonValue] = {"title": _line("title", given.title), "body": _text("body", given.body)}
        return await _added(proposals, "issue", body, context)

    return _tool("issue", f"Propose a new issue in {proposals.repository}. {_AFTER}", _Issue, propose)


def _tool(
    kind: ProposalKind,
    description: str,
    arguments: type[Arguments],
    run: Callable[..., Awaitable[JsonValue]],
) -> Tool:
    return TypedTool(f"propose_{kind}", description, arguments, run, "keyed_write")


async def _added(
    proposals: Proposals, kind: ProposalKind, body: dict[str, JsonValue], context: CallContext
) -> JsonValue:
    added = await proposals.add(kind, body, context.key)
    if isinstance(added, TooMany):
        hint = "put all of it into the one that is there; it cannot be changed any more"
        raise ToolError("PROPOSE_TOO_MANY", f"{added.most} of this kind at most for one task", hint)
    return {"proposed": added.number, "written": False}


def _line(name: str, text: str, most: int = LONGEST_TITLE) -> str:
    line = " ".join(sanitised(text).split())
    if not line:
        raise ToolError("PROPOSE_EMPTY", f"{name} is empty", "write what it is about")
    if len(line) > most:
        raise _too_long(name, len(line), most)
    return line


def _text(name: str, text: str) -> str:
    if not sanitised(text).strip():
        raise ToolError("PROPOSE_EMPTY", f"{name} is empty", "write what people are to read")
    if len(text) > LONGEST_BODY:
        raise _too_long(name, len(text), LONGEST_BODY)
    return text.strip()


def _too_long(name: str, size: int, most: int) -> ToolError:
    return ToolError("PROPOSE_TOO_LONG", f"{name} has {size} characters, {most} at most", "shorten it")
