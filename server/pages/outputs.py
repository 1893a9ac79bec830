"""What a task asked to have written, on the page of its run: what became of each, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from loops.store.outputs import OutputRow
from server.pages.inert import Shown, shown_value

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
    )
