"""What tasks asked to have written, as the API shows it."""

from typing import Any

from loops.store.outputs import OutputRow

MOST_PATCH = 200_000


def output_item(row: OutputRow, most: int = MOST_PATCH) -> dict[str, Any]:
    """An output; of its patch at most so many characters. `reason` says why it was not written, `body` what the agent
    said, `branch` where its change was to be pushed."""
    text = None if row.patch is None else row.patch.decode("utf-8", "replace")
    return {
        "number": row.number,
        "turn": row.turn,
        "kind": row.kind,
        "repository": row.repository,
        "status": row.status,
        "reason": row.reason,
        "url": row.url or None,
        "branch": row.branch,
        "body": row.body,
        "patch": None if text is None else text[:most],
        "patch_cut": text is not None and len(text) > most,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }
