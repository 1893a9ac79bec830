"""What is written to a repository of GitHub's on behalf of a task, and found again after a crash."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

from loops.connections.github_answer import Answer
from loops.connections.github_reach import SECONDS, Reached
from loops.errors import ExternalError
from loops.event import JsonValue

_PAGE = 100
_MOST_PAGES = 10


PullState = Literal["open", "closed", "merged"]


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request: `head` is the commit that it shows, also once its branch is gone. What merges `by_itself` waits
    for no person."""

    url: str
    state: PullState
    head: str
    by_itself: bool = False


@dataclass(frozen=True, slots=True)
class Desk:
    """Writes to one repository, under the name of its connection. Every call raises ExternalError: Unreached where
    nobody knows whether GitHub got it."""

    at: Reached

    async def open_pull_request(self, branch: str, title: str, body: str) -> str:
        """A draft from a branch of the repository's own; its address. One that is there already is that."""
        asked: Mapping[str, JsonValue] = {
            "title": title,
            "body": body,
            "head": branch,
            "base": self.at.branch,
            "draft": True,
            "maintainer_can_modify": True,
        }
        try:
            return _address(await self._call("POST", "/pulls", asked))
        except ExternalError as error:
            found = await self.pull_request(branch) if error.status == 422 else None
            if found is None:
                raise
            return found

    async def pull_request(self, branch: str) -> str | None:
        """The address of the pull request from a branch, whatever became of it; None where there is none."""
        found = await self.pull_of(branch)
        return None if found is None else found.url

    async def pull_of(self, branch: str) -> Pull | None:
        """The pull request from a branch: the open one, else the newest; None where there is none."""
        owner = self.at.full_name.partition("/")[0]
        answer = await self._call("GET", f"/pulls?head={quote(f'{owner}:{branch}')}&state=all&per_page=30")
        found = [_pull(one) for one in answer.items()]
        return next((one for one in found if one.state == "open"), found[0] if found else None)

    async def holds(self, branch: str, sha: str) -> bool:
        """Whether a branch has a commit; False where either is not there."""
        try:
            answer = await self._call("GET", f"/compare/{quote(sha)}...{quote(branch)}?per_page=1")
        except ExternalError as error:
            if error.status == 404:
                return False
            raise
        return answer.text("status") in {"ahead", "identical"}

    async def comment(self, number: int, body: str) -> str:
        """Under an issue or a pull request; its address."""
        return _address(await self._call("POST", f"/issues/{number}/comments", {"body": body}))

    async def label(self, number: int, labels: Sequence[str]) -> str:
        """Add labels, those that are there already too; the address of what has them now."""
        await self._call("POST", f"/issues/{number}/labels", {"labels": list(labels)})
        return _address(await self._call("GET", f"/issues/{number}"))

    async def open_issue(self, title: str, body: str) -> str:
        """A new issue; its address."""
        return _address(await self._call("POST", "/issues", {"title": title, "body": body}))

    async def label_names(self) -> set[str]:
        """The labels that the repository has, in lower case."""
        return {str(one.get("name") or "").lower() async for one in self._listed("/labels?")}

    async def found_comment(self, number: int, marker: str, since: datetime) -> str | None:
        """The address of a comment of ours that holds a text; None where there is none."""
        return await self._found(f"/issues/{number}/comments?since={_moment(since)}", marker)

    async def found_issue(self, marker: str, since: datetime) -> str | None:
        """The address of an issue of ours that holds a text; None where there is none."""
        return await self._found(f"/issues?state=all&sort=created&direction=desc&since={_moment(since)}", marker)

    async def _found(self, path: str, marker: str) -> str | None:
        async for one in self._listed(path):
            user = one.get("user")
            login = user.get("login") if isinstance(user, dict) else None
            if isinstance(login, str) and login.lower() == self.at.login.lower() and marker in str(one.get("body")):
                return str(one.get("html_url") or "")
        return None

    async def _listed(self, path: str) -> AsyncIterator[Mapping[str, Any]]:
        for page in range(1, _MOST_PAGES + 1):
            answer = await self._call("GET", f"{path}&per_page={_PAGE}&page={page}".replace("?&", "?"))
            for one in answer.items():
                yield one
            if not answer.goes_on:
                return

    async def _call(self, verb: str, path: str, body: Mapping[str, JsonValue] | None = None) -> Answer:
        whole = f"{self.at.path}{path}"
        return await self.at.client.call(verb, whole, body=body, repository=self.at.full_name, seconds=SECONDS)


def _pull(told: Mapping[str, Any]) -> Pull:
    state: PullState = "merged" if told.get("merged_at") else "open" if told.get("state") == "open" else "closed"
    head = told.get("head")
    sha = str(head.get("sha") or "") if isinstance(head, dict) else ""
    return Pull(str(told.get("html_url") or ""), state, sha, by_itself=bool(told.get("auto_merge")))


def _address(answer: Answer) -> str:
    """Where what was written stands. Raises ExternalError for an answer that names no such place: a redirected write
    comes back as a success with nothing written."""
    address = answer.text("html_url")
    if not address:
        raise ExternalError("GitHub", "it answered a write with nothing that was written", status=answer.status)
    return address


def _moment(since: datetime) -> str:
    return since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
