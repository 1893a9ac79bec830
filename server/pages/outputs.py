"""What a task asked to have written, on the page of its run: what became of each, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.store.outputs import OutputRow
from loops.tasks.outputs.answers import sendable
from server.pages.inert import Shown, shown_value
from server.rounds import ANSWERS

MOST_PATCH = 60_000
_KINDS = {"pull_request": "Pull request", "comment": "Comment", "labels": "Labels", "issue": "Issue"}


@dataclass(frozen=True, slots=True)
class OutputShown:
    """One output. `title` is its line, `text` what the agent wrote for it, `patch` the change that it was to hold."""

    id: str
    kind: str
    status: str
    reason: str
    url: str
    title: str
    text: Shown | None
    patch: Shown | None
    task_id: str = ""
    number: int = 0
    turn: int = 1
    answers: Sequence[Mapping[str, Any]] = ()
    can_send: bool = False

    @property
    def path(self) -> str:
        """Where its forms go, below the page of its run."""
        return f"outputs/{self.task_id}/{self.number}"

    @property
    def can_settle(self) -> bool:
        """Whether a person may say that it was written."""
        return self.status == "uncertain"

    @property
    def said(self) -> Sequence[str]:
        """What people said of it, a line each."""
        return [
            f"{one['by']} {ANSWERS[one['did']]} at {one['at'][:19]}, when it was {one['was']}" for one in self.answers
        ]


def shown_outputs(rows: Sequence[OutputRow]) -> tuple[OutputShown, ...]:
    """The outputs of a task, in their order."""
    return tuple(_shown(row) for row in rows)


def _shown(row: OutputRow) -> OutputShown:
    body = row.body.get("body")
    labels = row.body.get("labels")
    patch = None if row.patch is None else row.patch.decode("utf-8", "replace")
    return OutputShown(
        id=f"output-{row.task_id}-{row.number}",
        kind=_KINDS.get(row.kind, row.kind),
        status=row.status,
        reason=row.reason,
        url=row.url,
        title=str(row.body.get("title") or "") or (", ".join(map(str, labels)) if isinstance(labels, list) else ""),
        text=shown_value(body, MOST_PATCH) if isinstance(body, str) and body else None,
        patch=shown_value(patch, MOST_PATCH) if patch else None,
        task_id=row.task_id,
        number=row.number,
        turn=row.turn,
        answers=row.answers,
        can_send=sendable(row),
    )
