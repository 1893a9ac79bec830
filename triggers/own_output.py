"""Whether an event tells of what this installation did itself."""

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from loops.event import Event, JsonValue
from loops.own_output import BRANCHES, Marks, OwnMark, Place, own_words
from loops.store.github import LARGEST_ID, pushed_by

OWN_APP = "this installation's own app wrote it: own output never starts a loop"
_COMMENTS = frozenset(
    {
        "commit_comment",
        "discussion_comment",
        "issue_comment",
        "pull_request_review",
        "pull_request_review_comment",
    }
)
# Who acts otherwise on what we wrote, as who labels it, did not write it.
_WRITING = frozenset({None, "opened", "created", "submitted", "edited"})
_PUSHING = frozenset({"opened", "synchronize"})
# What comes of a push by itself, under the name of whoever runs it: never a person's doing, even with an app.
_CHECKING = frozenset({"check_run", "check_suite", "status", "workflow_job", "workflow_run"})
_HEADS = "refs/heads/"


def says_own_app(event: Event) -> bool:
    """Whether an event says that this installation's own app wrote it; what a webhook says of that is not heard."""
    return event.properties.get("own_app") is True and event.source != "webhook"


class OwnOutput:
    """Knows an app by its name, and what was written with a personal token by our marks, branches and commits."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def words(self, connection: sa.Connection, event: Event, *, by_token: bool) -> str | None:
        """Why the event is own output; None where it is not. `by_token`: its connection writes as a person."""
        get = event.properties.get
        if says_own_app(event):
            return OWN_APP
        if event.source != "github":
            return None
        mark = self._mark(event)
        if mark is not None:
            return own_words("it carries the mark of this installation", mark)
        return self._pushed(connection, event) if by_token or get("event_type") in _CHECKING else None

    def _mark(self, event: Event) -> OwnMark | None:
        get = event.properties.get
        body, repository, sender, number = get("body"), get("repository_id"), get("sender"), get("number")
        if not isinstance(body, str) or not isinstance(repository, int) or not isinstance(sender, str):
            return None
        if get("action") not in _WRITING:
            return None
        under = number if get("event_type") in _COMMENTS and isinstance(number, int) else None
        return self._marks.find(body, Place(repository, under, sender))

    def _pushed(self, connection: sa.Connection, event: Event) -> str | None:
        get = event.properties.get
        kind, repository = get("event_type"), get("repository_id")
        if kind not in _PUSHED or (kind == "pull_request" and get("action") not in _PUSHING):
            return None
        payload = get("github_event")
        if not isinstance(payload, dict) or not isinstance(repository, int) or not 0 < repository <= LARGEST_ID:
            return None
        branch, sha = _PUSHED[str(kind)](payload, repository)
        mark = pushed_by(connection, repository, sha) if sha else None
        if mark is not None:
            return own_words(f"this installation pushed the commit {sha[:12]}", mark)
        return own_words(f"the branch {branch} is this installation's", None) if branch.startswith(BRANCHES) else None


def _pushed_by_push(payload: Mapping[str, JsonValue], _repository: int) -> tuple[str, str]:
    ref = _text(payload, "ref")
    return (ref.removeprefix(_HEADS) if ref.startswith(_HEADS) else ""), _text(payload, "after")


def _created_by_push(payload: Mapping[str, JsonValue], _repository: int) -> tuple[str, str]:
    """The branch that the first push to it made: GitHub tells of that besides, and names no commit."""
    return (_text(payload, "ref") if payload.get("ref_type") == "branch" else ""), ""


def _pushed_to_pull_request(payload: Mapping[str, JsonValue], repository: int) -> tuple[str, str]:
    """Branch and commit of a pull request; none where it comes from a fork, whose owner names branches as he likes."""
    pull = payload.get("pull_request")
    head = pull.get("head") if isinstance(pull, dict) else None
    if not isinstance(head, dict):
        return "", ""
    home = head.get("repo")
    ours = isinstance(home, dict) and home.get("id") == repository
    return (_text(head, "ref") if ours else ""), (_text(head, "sha") if ours else "")


def _checked_run(payload: Mapping[str, JsonValue], repository: int) -> tuple[str, str]:
    run = _object(payload, "workflow_run")
    ours = _object(run, "head_repository").get("id") == repository
    return (_text(run, "head_branch") if ours else ""), _text(run, "head_sha")


def _checked_suite(payload: Mapping[str, JsonValue], _repository: int) -> tuple[str, str]:
    """GitHub tells no branch where a suite is about a fork."""
    suite = _object(payload, "check_suite") or _object(_object(payload, "check_run"), "check_suite")
    return _text(suite, "head_branch"), _text(suite, "head_sha") or _text(_object(payload, "check_run"), "head_sha")


def _checked_job(payload: Mapping[str, JsonValue], _repository: int) -> tuple[str, str]:
    """The commit alone: nothing says whose branch it is."""
    return "", _text(_object(payload, "workflow_job"), "head_sha") or _text(payload, "sha")


def _object(found: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def _text(found: Mapping[str, JsonValue], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


# What GitHub tells of a push, and of what comes of one: how its branch and its commit are read.
_PUSHED: Mapping[str, Callable[[Mapping[str, JsonValue], int], tuple[str, str]]] = {
    "push": _pushed_by_push,
    "create": _created_by_push,
    "pull_request": _pushed_to_pull_request,
    "workflow_run": _checked_run,
    "workflow_job": _checked_job,
    "check_suite": _checked_suite,
    "check_run": _checked_suite,
    "status": _checked_job,
}
