"""GitHub connections with credentials, loops that ask who may do what, and what people do, for a running service."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from loops.store import connections
from tests.doubles.github import GitHubDouble
from tests.integration.running import PROJECT, SECRET, Running, log_action, workflow

REPOSITORY = "acme/widgets"
REPOSITORY_ID = 990017


def exact(key: str, *values: str, operator: str = "exact") -> dict[str, Any]:
    """A property filter."""
    return {"key": key, "value": [*values], "operator": operator, "type": "event"}


CHECKS = ("workflow_run", "workflow_job", "check_suite", "check_run", "status")
KINDS = exact("event_type", "issues", "issue_comment", "pull_request", "pull_request_review", "push", "create", *CHECKS)
WRITERS = exact("actor_access", "write")


def listening(
    *properties: Mapping[str, Any], repository: str = REPOSITORY, events: Sequence[Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """A loop that notes what fits; `events` are the alternatives that it listens to."""
    document = workflow(f"loop {uuid.uuid4().hex[:8]}", log_action("note", "noted"))
    document["actions"][0]["config"]["filters"] = {
        "source": "internal-events",
        "events": [*(events or [{"id": "$github_event_received", "type": "events"}])],
        "properties": [exact("repository", repository), KINDS, *properties],
    }
    return document


def comment(login: str = "ada", **more: Any) -> dict[str, Any]:
    """A comment under an issue; a key with `issue__` or `comment__` before it goes there."""
    subject: dict[str, Any] = {
        "node_id": f"IC_{uuid.uuid4().hex}",
        "body": "please look",
        "user": {"login": login, "type": "User"},
        "author_association": "CONTRIBUTOR",
        "updated_at": "2026-11-30T12:00:00Z",
    }
    issue: dict[str, Any] = {"number": 42, "title": "It burns", "user": {"login": "bob", "type": "User"}}
    rest: dict[str, Any] = {}
    for key, value in more.items():
        place, _, name = key.rpartition("__")
        {"comment": subject, "issue": issue, "": rest}[place][name] = value
    return {
        "action": "created",
        "comment": subject,
        "issue": issue,
        "repository": {"id": REPOSITORY_ID, "full_name": "Acme/Widgets", "private": False},
        "sender": {"login": login, "type": "User"},
        **rest,
    }


def review(login: str) -> dict[str, Any]:
    """A review of a pull request."""
    made = comment(login)
    pull = {**made.pop("issue"), "head": {"ref": "topic"}}
    return {**made, "action": "submitted", "review": {**made.pop("comment"), "state": "approved"}, "pull_request": pull}


def push(**more: Any) -> dict[str, Any]:
    """A push to a branch."""
    return {
        "ref": "refs/heads/main",
        "before": "1" * 40,
        "after": uuid.uuid4().hex + "0" * 8,
        "commits": [],
        "repository": {"id": REPOSITORY_ID, "full_name": "Acme/Widgets", "private": False},
        "sender": {"login": "ada", "type": "User"},
        **more,
    }


async def connect(live: Running, **settings: str) -> Running:
    """The same service by way of a new GitHub connection with these settings."""
    secrets = {"webhook_secret": SECRET} | {
        key: value for key, value in settings.items() if key in {"token", "app_id", "private_key"}
    }
    config = {key: value for key, value in settings.items() if key not in secrets}
    sealed, now = live.services.box.seal(dict(secrets)), live.services.clock.now()

    def put(connection: sa.Connection) -> int:
        return connections.insert(
            connection, project_id=PROJECT, kind="github", name=uuid.uuid4().hex, config=config, secrets=sealed, now=now
        )

    return Running(live.service, await live.write(put))


async def connected(live: Running, hub: GitHubDouble) -> Running:
    """By way of a connection with a personal token."""
    return await connect(live, **hub.token_settings())


async def sent(live: Running, payload: Mapping[str, Any], event: str = "issue_comment") -> str:
    """Deliver it; our id once it is settled."""
    answer = await live.post(payload, event=event)
    assert answer["http"] in {200, 202}, answer
    await live.settled(answer["delivery"])
    return str(answer["delivery"])


async def verdict_of(live: Running, delivery: str, workflow_id: str) -> Mapping[str, Any]:
    """The stored verdict on a loop."""
    return next(one for one in await live.verdicts(delivery) if one["workflow"] == workflow_id)
