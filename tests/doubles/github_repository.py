"""A GitHub whose repository is a real one: what is pushed is there, and pull requests are opened from its branches.

What is written is told to the hook, as GitHub does.
"""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.doubles.git_remote import GitRemote, git
from tests.doubles.github import TOKEN, Fault
from tests.doubles.github_writes import LOGIN, Tell, WritableGitHub

NAME = "acme/widgets"


async def nobody(_event: str, _payload: dict[str, Any]) -> None:
    """Hears nothing."""


class RepositoryGitHub(WritableGitHub):
    """`fault` is asked before each write, and `lost` after it: what it answers then is what the caller gets."""

    def __init__(self, folder: Path, tell: Tell = nobody) -> None:
        super().__init__(tell)
        self.git = GitRemote(folder, lambda token: token in {TOKEN, *self.tokens})
        self.permissions_told: dict[str, bool] = {"push": True}
        self.archived = False
        self.size = 10
        self.pulls: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.labels = {"bug", "triaged"}
        self.labelled: dict[int, list[str]] = {}
        self.fault: Fault | None = None
        self.lost: Fault | None = None

    def routes(self) -> list[web.RouteDef]:
        repo = "/api/v3/repos/{owner}/{name}"
        mine = [
            web.get(repo, self.repository),
            web.get(f"{repo}/pulls", self.listed_pulls),
            web.get(f"{repo}/compare/{{between:.+}}", self.compared),
            web.get(f"{repo}/labels", self.listed_labels),
            web.get(f"{repo}/issues", self.listed_issues),
            web.get(f"{repo}/issues/{{number}}", self.one_issue),
            web.get(f"{repo}/issues/{{number}}/comments", self.listed_comments),
            web.post(f"{repo}/issues/{{number}}/labels", self.label),
            *self.git.routes(),
        ]
        return [*mine, *super().routes()]

    @property
    def login(self) -> str:
        return LOGIN

    async def repository(self, request: web.Request) -> web.Response:
        refusal = self._refusal(request, as_app=False)
        if refusal is not None:
            return refusal
        name = f"{request.match_info['owner']}/{request.match_info['name']}".lower()
        if not self.git.bare(name).is_dir():
            return self._json({"message": "Not Found"}, 404)
        return self._json(
            {
                "id": zlib.crc32(name.encode()),
                "full_name": name,
                "clone_url": f"{self.root}/{name}.git",
                "default_branch": "main",
                "size": self.size,
                "archived": self.archived,
                "permissions": self.permissions_told,
            }
        )

    async def open_pull_request(self, request: web.Request) -> web.Response:
        asked = await request.json()
        name, head = _name(request), asked["head"]
        if head not in self.git.branches(name):
            return self._json({"message": "Validation Failed: head does not exist"}, 422)
        if any(one["head"]["ref"] == head and one["state"] == "open" for one in self.pulls):
            return self._json({"message": f"A pull request already exists for acme:{head}"}, 422)
        number = next(self._numbers)
        sha = git("rev-parse", head, folder=self.git.bare(name))
        there = {"number": number, "html_url": f"{self.root}/pull/{number}", "state": "open", "merged_at": None}
        made = {**asked, **there, "head": {"ref": head, "sha": sha}}
        return await self._write(request, made, self.pulls)

    async def comment(self, request: web.Request) -> web.Response:
        asked, number = await request.json(), int(request.match_info["number"])
        there = f"{self.root}/issues/{number}#c{len(self.comments)}"
        return await self._write(request, {**asked, "under": number, "html_url": there}, self.comments)

    async def open_issue(self, request: web.Request) -> web.Response:
        asked, number = await request.json(), next(self._numbers)
        return await self._write(request, {**asked, "number": number, "html_url": f"{self.root}/{number}"}, self.issues)

    async def label(self, request: web.Request) -> web.Response:
        asked = await request.json()
        number = int(request.match_info["number"])
        self.labelled[number] = sorted({*self.labelled.get(number, []), *asked["labels"]})
        return self._json([{"name": one} for one in self.labelled[number]])

    async def _write(self, request: web.Request, made: dict[str, Any], kept: list[dict[str, Any]]) -> web.Response:
        refusal = self._refusal(request, as_app=False)
        answer = await self.fault(request) if self.fault is not None else None
        if refusal is not None or answer is not None:
            return refusal or answer  # type: ignore[return-value]
        kept.append({**made, "user": {"login": self.login}})
        lost = await self.lost(request) if self.lost is not None else None
        return lost or self._json(kept[-1], 201)  # type: ignore[return-value]

    async def listed_pulls(self, request: web.Request) -> web.Response:
        head, name = request.query["head"].partition(":")[2], _name(request)
        found = [one for one in self.pulls if one["head"]["ref"] == head]
        for one in found:  # an open one follows its branch
            if one["state"] == "open" and head in self.git.branches(name):
                one["head"]["sha"] = git("rev-parse", head, folder=self.git.bare(name))
        return self._json(found[::-1])

    async def compared(self, request: web.Request) -> web.Response:
        base, _, head = request.match_info["between"].partition("...")
        bare = self.git.bare(_name(request))
        try:
            between = git("rev-list", "--left-right", "--count", f"{base}...{head}", "--", folder=bare).split()
        except AssertionError:
            return self._json({"message": "Not Found"}, 404)
        words = {(True, True): "identical", (True, False): "ahead", (False, True): "behind"}
        return self._json({"status": words.get((between[0] == "0", between[1] == "0"), "diverged")})

    async def listed_labels(self, request: web.Request) -> web.Response:
        return self._json([{"name": one} for one in sorted(self.labels)])

    async def listed_issues(self, request: web.Request) -> web.Response:
        return self._json(self.issues)

    async def listed_comments(self, request: web.Request) -> web.Response:
        return self._json([one for one in self.comments if one["under"] == int(request.match_info["number"])])

    async def one_issue(self, request: web.Request) -> web.Response:
        return self._json({"html_url": f"{self.root}/issues/{request.match_info['number']}"})


def _name(request: web.Request) -> str:
    return f"{request.match_info['owner']}/{request.match_info['name']}".lower()


@asynccontextmanager
async def repository_github(
    folder: Path, tell: Tell = nobody, port: int | None = None
) -> AsyncIterator[RepositoryGitHub]:
    """On loopback, for as long as it is used."""
    double, application = RepositoryGitHub(folder, tell), web.Application(client_max_size=64 << 20)
    application.add_routes(double.routes())
    async with TestServer(application, port=port) as server:
        double.root = str(server.make_url("/")).rstrip("/")
        yield double
