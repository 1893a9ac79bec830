"""Where a turn of a task begins, and where its change goes: a task that goes on in its thread goes on on its branch.

no turn before it pushed              -> the newest commit of the default branch, a branch of its own
its branch is there, and unmerged     -> that branch as it is now, whoever moved it, and onto it
merged, closed, or the branch is gone -> as if nothing was pushed; the agent is told which of them
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loops.connections.github_desk import Desk
from loops.expressions.quoting import quoted
from loops.store.outputs import OutputRow
from loops.tasks.workspace.cache import Base, Caches, Remote

_ONTO = (
    "You have a fresh checkout of the branch {branch}, as it is now: with what you changed before and what others "
    "pushed there. Once you finish, what is changed then is pushed there as one more commit{pull}. What "
    "propose_pull_request is given as title and body becomes the message of that commit."
)
_ANEW = (
    "You have a fresh checkout at the newest commit of the default branch. {why} Once you finish, what is changed then "
    "becomes a draft pull request of its own."
)
_NONE = "What you changed before was not pushed, and is not in it{why}."
_GONE = (
    "The branch {branch}, which you pushed before, is not there any more; what was on it is here only if it was merged."
)
_ENDED = "The pull request {url}, which you opened before, was {how}"
_ENDS = {
    "merged": "merged: what was in it is in the checkout.",
    "closed": "closed by somebody without being merged: what was in it is not in the checkout.",
}


@dataclass(frozen=True, slots=True)
class Start:
    """What a turn begins with: the commit, the branch of the task that its change goes `onto` (empty for a new one),
    and what its agent is told of that."""

    base: Base
    onto: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The branches that a task has pushed to, the newest last."""

    rows: Sequence[OutputRow]
    """What earlier turns asked for."""

    @property
    def branches(self) -> list[str]:
        """Also those for which the push failed: whether one is there has to be looked at."""
        return [row.branch for row in sorted(self.rows, key=lambda row: row.turn) if row.branch]

    @property
    def why_not(self) -> str:
        """Why the newest change was not pushed, where one is there; as data, since it names files of the agent's."""
        told = [row.reason for row in self.rows if row.kind == "pull_request" and row.status in {"refused", "staged"}]
        return f": {quoted(told[-1])}" if told else ""


async def first_start(caches: Caches, remote: Remote) -> Start:
    """Of a task. Raises RepositoryError."""
    return Start(await caches.fresh(remote))


async def later_start(caches: Caches, remote: Remote, desk: Desk, pushed: Pushed) -> Start:
    """Of a turn after others. Raises RepositoryError or ExternalError."""
    branches = pushed.branches
    if not branches:
        return await _anew(caches, remote, _NONE.format(why=pushed.why_not))
    branch = branches[-1]
    pull = await desk.pull_of(branch)
    if pull is not None and pull.state != "open":
        return await _anew(caches, remote, _ENDED.format(url=pull.url, how=_ENDS[pull.state]))
    if await caches.head(remote, branch) is None:
        return await _anew(caches, remote, _GONE.format(branch=branch))
    base = await caches.fresh(replace(remote, branch=branch))
    return Start(base, branch, _ONTO.format(branch=branch, pull="" if pull is None else f" of {pull.url}"))


async def kept_base(caches: Caches, remote: Remote, branch: str, sha: str) -> Base:
    """What a change was made on that is kept already. Raises RepositoryError."""
    is_there = branch == remote.branch or await caches.head(remote, branch) is not None
    base = await caches.fresh(replace(remote, branch=branch) if is_there else remote)
    return replace(base, branch=branch, sha=sha)


async def _anew(caches: Caches, remote: Remote, why: str) -> Start:
    return Start(await caches.fresh(remote), told=_ANEW.format(why=why))
