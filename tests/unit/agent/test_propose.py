"""What an agent may propose, and what it is told of proposals that cannot be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from loops.agent.proposals import ProposalKind, Proposed, TooMany
from loops.agent.tools import Resources, toolbox
from loops.agent.tools.propose import LONGEST_BODY, LONGEST_TITLE
from loops.agent.tools.tool import CallContext, ToolError
from loops.event import JsonValue

CONTEXT = CallContext("t", 1, 0)
EVERY: Mapping[ProposalKind, int] = {"pull_request": 1, "comment": 1, "labels": 1, "issue": 1}


@dataclass
class Kept:
    """Proposals in memory."""

    repository: str = "acme/widgets"
    subject: int | None = 7
    most: Mapping[ProposalKind, int] = field(default_factory=lambda: EVERY)
    added: dict[str, tuple[ProposalKind, Mapping[str, JsonValue]]] = field(default_factory=dict)

    async def add(self, kind: ProposalKind, body: Mapping[str, JsonValue], key: str) -> Proposed | TooMany:
        if key not in self.added and sum(one == kind for one, _ in self.added.values()) >= self.most[kind]:
            return TooMany(self.most[kind])
        self.added.setdefault(key, (kind, body))
        return Proposed(list(self.added).index(key) + 1)


def offered(kept: Kept | None) -> list[str]:
    return [name for name in toolbox(Resources(proposals=kept)).tools if name.startswith("propose")]


async def told(kept: Kept, name: str, context: CallContext = CONTEXT, **arguments: Any) -> JsonValue:
    return await toolbox(Resources(proposals=kept)).tools[f"propose_{name}"].call(arguments, context)


def test_what_is_offered_depends_on_the_task() -> None:
    every = ["propose_comment", "propose_issue", "propose_labels", "propose_pull_request"]
    assert offered(None) == []
    assert offered(Kept()) == every
    assert offered(Kept(subject=None)) == ["propose_issue", "propose_pull_request"]
    assert offered(Kept(most={**EVERY, "comment": 0, "issue": 0})) == ["propose_labels", "propose_pull_request"]


async def test_a_proposal_is_taken_down_and_says_that_nothing_is_written_yet() -> None:
    kept = Kept()
    assert await told(kept, "pull_request", title=" Raise\nit ", body="All of it.") == {"proposed": 1, "written": False}
    assert kept.added[CONTEXT.key] == (
        "pull_request",
        {"title": "Raise it", "body": "All of it.", "message": ""},
    )
    assert await told(kept, "pull_request", title="Raise it", body="All of it.") == {"proposed": 1, "written": False}


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("comment", {"body": " \u200b<!-- hidden -->"}, "PROPOSE_EMPTY"),
        ("comment", {"body": "x" * (LONGEST_BODY + 1)}, "PROPOSE_TOO_LONG"),
        ("issue", {"title": "", "body": "x"}, "PROPOSE_EMPTY"),
        ("issue", {"title": "x" * (LONGEST_TITLE + 1), "body": "x"}, "PROPOSE_TOO_LONG"),
        ("labels", {"labels": []}, "PROPOSE_LABELS"),
        ("labels", {"labels": ["a"] * 11}, "PROPOSE_LABELS"),
        ("labels", {"labels": [""]}, "PROPOSE_EMPTY"),
        ("comment", {"body": "x", "repository": "other/place"}, "BAD_ARGUMENTS"),
        ("comment", {"body": "x", "number": 3}, "BAD_ARGUMENTS"),
    ],
)
async def test_what_cannot_be_proposed_is_told_and_not_taken_down(name, arguments, code):
    kept = Kept()
    with pytest.raises(ToolError) as refused:
        await told(kept, name, **arguments)
    assert refused.value.code == code
    assert kept.added == {}


async def test_a_second_one_of_a_kind_is_refused_with_how_many_there_may_be():
    kept = Kept()
    await told(kept, "comment", body="One.")
    with pytest.raises(ToolError, match="1 of this kind at most") as refused:
        await told(kept, "comment", CallContext("t", 2, 0), body="Two.")
    assert refused.value.code == "PROPOSE_TOO_MANY"
