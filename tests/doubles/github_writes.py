"""A GitHub that takes what an installation writes with a personal token, and tells its hook of it, as GitHub does."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.doubles.github import GitHubDouble

LOGIN = "loops-bot"
"""Whose the token is: a person's account, for all that GitHub knows."""
REPOSITORY_ID = 990017
_REPOSITORY = {"id": REPOSITORY_ID, "node_id": "R_990017", "full_name": "Acme/Widgets", "private": False}
_AUTHOR = {"login": LOGIN, "id": 4711, "type": "User"}
_TIME = "2026-11-30T12:00:00Z"

Tell = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Sends a webhook: GitHub's name of the event, and its payload."""


class WritableGitHub(GitHubDouble):
    """Comments, issues, pull requests and branches of one repository. `tell` gets every webhook of what is written."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell
        self._numbers = itertools.count(100)
        self._comments: dict[int, tuple[int, str]] = {}

    def routes(self) -> list[web.RouteDef]:
        repo = "/api/v3/repos/{owner}/{name}"
        return [
            *super().routes(),
            web.post(f"{repo}/issues", self.open_issue),
            web.post(f"{repo}/issues/{{number}}/comments", self.comment),
            web.patch(f"{repo}/issues/comments/{{id}}", self.edit_comment),
            web.post(f"{repo}/git/refs", self.push_branch),
            web.post(f"{repo}/pulls", self.open_pull_request),
        ]

    async def comment(self, request: web.Request) -> web.Response:
        asked, number = await request.json(), next(self._numbers)
        self._comments[number] = int(request.match_info["number"]), asked["body"]
        return await self._commented(request, number, "created")

    async def edit_comment(self, request: web.Request) -> web.Response:
        asked, number = await request.json(), int(request.match_info["id"])
        self._comments[number] = self._comments[number][0], asked["body"]
        return await self._commented(request, number, "edited")

    async def _commented(self, request: web.Request, number: int, action: str) -> web.Response:
        under, body = self._comments[number]
        comment = {**_written("IC", number), "id": number, "body": body}
        return await self._wrote(
            request, comment, ("issue_comment", {"action": action, "comment": comment, "issue": _subject(under)})
        )

    async def open_issue(self, request: web.Request) -> web.Response:
        asked, number = await request.json(), next(self._numbers)
        issue = {**_subject(number), **asked, "user": _AUTHOR}
        return await self._wrote(request, issue, ("issues", {"action": "opened", "issue": issue}))

    async def push_branch(self, request: web.Request) -> web.Response:
        asked = await request.json()
        made = {"ref": asked["ref"].removeprefix("refs/heads/"), "ref_type": "branch", "master_branch": "main"}
        push = {"ref": asked["ref"], "before": "0" * 40, "after": asked["sha"], "created": True, "commits": []}
        return await self._wrote(request, asked, ("create", made), ("push", push))

    async def open_pull_request(self, request: web.Request) -> web.Response:
        asked, number = await request.json(), next(self._numbers)
        head = {"ref": asked["head"], "sha": "a" * 40, "repo": _REPOSITORY}
        pull = {**_subject(number), "title": asked["title"], "body": asked["body"], "user": _AUTHOR, "head": head}
        return await self._wrote(request, pull, ("pull_request", {"action": "opened", "pull_request": pull}))

    async def _wrote(
        self, request: web.Request, made: dict[str, Any], *told: tuple[str, dict[str, Any]]
    ) -> web.Response:
        refusal = self._refusal(request, as_app=False)
        if refusal is not None:
            return refusal
        for event, payload in told:
            await self._tell(event, {**payload, "repository": _REPOSITORY, "sender": _AUTHOR})
        return self._json(made, 201)


def _written(prefix: str, number: int) -> dict[str, Any]:
    return {"node_id": f"{prefix}_{number}", "user": _AUTHOR, "author_association": "MEMBER", "updated_at": _TIME}


def _subject(number: int) -> dict[str, Any]:
    user = {"login": "ada", "id": 1, "type": "User"}
    return {**_written("I", number), "number": number, "title": "It burns", "user": user}


@asynccontextmanager
async def writable_github(tell: Tell) -> AsyncIterator[WritableGitHub]:
    """On loopback, for as long as it is used."""
    double, application = WritableGitHub(tell), web.Application()
    application.add_routes(double.routes())
    async with TestServer(application) as server:
        double.root = str(server.make_url("/")).rstrip("/")
        yield double
