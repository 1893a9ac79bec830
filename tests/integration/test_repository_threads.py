"""A task that changed a repository, and goes on in its Slack thread: on its branch, as somebody left that meanwhile."""

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio

from loops.agent.models.scripted import ScriptedTurn
from loops.store.outputs import OutputRow
from loops.tasks.outputs.answers import Person, again
from server.app import Wiring
from tests.doubles.github_repository import RepositoryGitHub, repository_github
from tests.doubles.plain_sandbox import PlainSandboxes
from tests.doubles.slack_socket import SlackSocketDouble, slack_sockets, until
from tests.integration import github_loops
from tests.integration.guarded import by_prompt
from tests.integration.repository_tasks import FILES, PULL, WRITING, edits, outputs_of
from tests.integration.running import PROJECT, Running, eventually, running
from tests.integration.tasking import calls, ends, rounds_of, scripted
from tests.integration.test_slack_sockets import FAST
from tests.integration.threading import Gate, Thread, connected, waits

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATE = Gate()
LIMITS = {"title": "Tell of the limit", "body": "As asked."}
SEES = "grep -q 50_000 src/export.py"
BLIND = "grep -q 10_000 src/export.py"
"""What a checkout says that holds the change before, and one that does not; a failing command would end the task."""
_numbers = itertools.count(1)


def opens() -> list[ScriptedTurn]:
    return [edits(), calls("propose_pull_request", PULL), ends("Raised.")]


def adds(sees: str, name: str = "LIMITS.md") -> list[ScriptedTurn]:
    command = f"{sees} && echo 'There is one.' > {name}"
    return [edits(command), calls("propose_pull_request", LIMITS), ends("Told of it.")]


CI = "mkdir -p .github && echo x > .github/CODEOWNERS"
SCRIPTS: Mapping[str, Sequence[ScriptedTurn]] = {
    "on": [*opens(), *adds(SEES), calls("event_read"), ends("It is in there.")],
    "anew": [*opens(), *adds(BLIND)],
    "merged": [*opens(), *adds(SEES), *adds("grep -q one LIMITS.md", "MORE.md")],
    "moving": [*opens(), waits("moving"), *adds(SEES), *adds(SEES, "MORE.md")],
    "refused": [edits(CI), ends("Owned."), *adds(BLIND)],
    "reading": [calls("event_read"), ends("It has a limit."), *adds(BLIND)],
}


def words(name: str) -> tuple[Sequence[ScriptedTurn], ScriptedTurn]:
    return SCRIPTS[name], ScriptedTurn("I do not.")


@dataclass
class Talk:
    """A thread of a task that works on a repository of its own."""

    thread: Thread
    hub: RepositoryGitHub
    name: str

    async def begin(self, word: str) -> None:
        """The first turn, once it is over."""
        self.hub.pulls.clear()
        self.hub.git.create(self.name, FILES)
        await self.thread.listen(word, repository=self.name)
        await self.thread.begin()
        await self.thread.is_("listening")

    async def says(self, turn: int) -> list[OutputRow]:
        """Somebody speaks, and the outputs of that turn once it is over."""
        await self.thread.say("And more.")
        return await self.over(turn)

    async def over(self, turn: int) -> list[OutputRow]:
        await self.thread.is_("listening", turn)
        return [row for row in await outputs_of(self.thread.live, self.thread.task_id) if row.turn == turn]

    async def told(self, turn: int) -> str:
        """What the agent was told as a turn began."""
        rounds = await rounds_of(self.thread.live, self.thread.task_id)
        return str(next(one["said"] for one in rounds if one["turn"] == turn))

    async def send(self, row: OutputRow) -> OutputRow:
        """Somebody has it sent; how it stands once that came to something."""
        live, this = self.thread.live, (row.task_id, row.number)
        who, now = Person(PROJECT, "1", "Ada"), live.services.clock.now()
        await live.write(lambda connection: again(connection, who, this, now))

        async def found() -> OutputRow:
            return next(one for one in await outputs_of(live, row.task_id) if one.number == row.number)

        return await eventually(found, lambda one: one.status != "waiting" and one.due_at is None)

    async def waiting(self, at: str) -> None:
        await until(lambda: at in GATE.waiting)

    @property
    def branch(self) -> str:
        """Of the first pull request."""
        return str(self.hub.pulls[0]["head"]["ref"])

    def branches(self) -> list[str]:
        return [one for one in self.hub.git.branches(self.name) if one != "main"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slack() -> AsyncIterator[SlackSocketDouble]:
    async with slack_sockets() as double:
        yield double


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RepositoryGitHub]:
    async with repository_github(tmp_path_factory.mktemp("remote")) as double:
        yield double


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(
    module_database_url: str, hub: RepositoryGitHub, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    wiring = scripted(by_prompt(words), Wiring(slack=FAST, sandboxes=PlainSandboxes(), writing=WRITING, tools=(GATE,)))
    async with running(tmp_path_factory.mktemp("talks"), module_database_url, wiring=wiring) as started:
        await github_loops.connect(started, **hub.token_settings())
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connection(live: Running, slack: SlackSocketDouble) -> int:
    return await connected(live, slack)


@pytest.fixture
def talk(live: Running, slack: SlackSocketDouble, connection: int, hub: RepositoryGitHub) -> Talk:
    GATE.gates.clear()
    GATE.waiting.clear()
    return Talk(Thread(live, slack, connection), hub, f"acme/r{next(_numbers)}")


async def test_a_later_turn_goes_on_on_its_branch_with_what_others_pushed_and_pushes_what_it_changed(
    talk: Talk,
) -> None:
    await talk.begin("on")
    (pull,) = talk.hub.pulls
    talk.hub.git.moved(talk.name, talk.branch)
    (output,) = await talk.says(2)
    assert (output.status, output.url, output.branch) == ("written", pull["html_url"], talk.branch), output.reason
    there = [PULL["title"], "By somebody else", LIMITS["title"]]
    assert talk.hub.git.subjects(talk.name, talk.branch) == there
    assert talk.hub.git.changed(talk.name, talk.branch) == ["A LIMITS.md", "M src/export.py"]
    assert (talk.branches(), talk.hub.pulls) == ([talk.branch], [pull])
    told = await talk.told(2)
    assert f"the branch {talk.branch}, as it is now" in told
    assert f"one more commit of {pull['html_url']}" in told
    assert told.index("fresh checkout") < told.index("<message_from")
    assert await talk.says(3) == []
    assert talk.hub.git.subjects(talk.name, talk.branch) == there
    link = f"<{pull['html_url']}>"
    await talk.thread.answered(f"Raised.\n{link}", f"Told of it.\n{link}", "It is in there.")
    assert (await talk.thread.is_("listening", 3)).turns[1]["pr_urls"] == [pull["html_url"]]


async def test_after_a_merge_a_turn_begins_anew_and_nothing_goes_where_it_would_be_merged_by_itself(talk: Talk) -> None:
    await talk.begin("merged")
    (pull,) = talk.hub.pulls
    first = talk.branch
    talk.hub.git.advance(talk.name, first)
    pull.update(state="closed", merged_at="2026-11-30T12:00:00Z")
    (output,) = await talk.says(2)
    assert output.status == "written", output.reason
    assert f"{pull['html_url']}, which you opened before, was merged" in await talk.told(2)
    assert output.branch in talk.branches()
    assert output.branch != first
    assert [one["html_url"] for one in talk.hub.pulls] == [pull["html_url"], output.url]
    assert talk.hub.git.changed(talk.name, str(output.branch)) == ["A LIMITS.md"]
    talk.hub.pulls[-1]["auto_merge"] = {"merge_method": "squash"}
    (third,) = await talk.says(3)
    assert f"the branch {output.branch}, as it is now" in await talk.told(3)
    assert (third.status, "is set to be merged by itself" in third.reason) == ("refused", True), third.reason


@pytest.mark.parametrize("how", ["closed", "removed"])
async def test_what_somebody_closed_or_removed_is_not_pushed_to_again(talk: Talk, how: str) -> None:
    await talk.begin("anew")
    (pull,) = talk.hub.pulls
    first, there = talk.branch, talk.hub.git.subjects(talk.name, talk.branch)
    if how == "closed":
        pull["state"] = "closed"
    else:
        talk.hub.pulls.clear()
        talk.hub.git.removed(talk.name, first)
    (output,) = await talk.says(2)
    assert (output.status, output.branch != first) == ("written", True), output.reason
    assert talk.hub.pulls[-1]["draft"] is True
    assert talk.hub.git.changed(talk.name, str(output.branch)) == ["A LIMITS.md"]
    told = await talk.told(2)
    if how == "closed":
        assert "closed by somebody without being merged" in told
        assert talk.hub.git.subjects(talk.name, first) == there
    else:
        assert f"The branch {first}, which you pushed before, is not there any more" in told
        assert first not in talk.branches()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("moved", "was moved or removed while this was worked on"),
        ("removed", "was moved or removed while this was worked on"),
        ("merged", "was merged while this was worked on"),
    ],
)
async def test_what_happens_to_the_branch_during_a_turn_refuses_its_change_which_a_person_may_send(
    talk: Talk, how: str, reason: str
) -> None:
    await talk.begin("moving")
    (pull,) = talk.hub.pulls
    await talk.thread.say("And more.")
    await talk.waiting("moving")
    if how == "merged":
        pull.update(state="closed", merged_at="2026-11-30T12:00:00Z")
    elif how == "moved":
        talk.hub.git.moved(talk.name, talk.branch)
    else:
        talk.hub.git.removed(talk.name, talk.branch)
        talk.hub.pulls.clear()
    before = {branch: talk.hub.git.show(talk.name, branch) for branch in talk.branches()}
    GATE.open("moving")
    (output,) = await talk.over(2)
    assert (output.status, reason in output.reason) == ("refused", True), output.reason
    assert output.patch is not None
    assert {branch: talk.hub.git.show(talk.name, branch) for branch in talk.branches()} == before
    sent = await talk.send(output)
    assert sent.status == "written", sent.reason
    if how == "moved":
        (third,) = await talk.says(3)
        assert {sent.url, third.url} == {pull["html_url"]}, third.reason
        subjects = talk.hub.git.subjects(talk.name, talk.branch)
        assert subjects == [PULL["title"], "By somebody else", LIMITS["title"], LIMITS["title"]]
    else:
        assert sent.url == talk.hub.pulls[-1]["html_url"] != pull["html_url"]
        assert talk.hub.git.changed(talk.name, str(sent.branch)) == ["A LIMITS.md"]


async def test_what_was_refused_before_is_told_and_the_next_turn_begins_without_it(talk: Talk) -> None:
    await talk.begin("refused")
    assert talk.branches() == []
    (output,) = await talk.says(2)
    assert output.status == "written", output.reason
    assert 'not pushed, and is not in it: "protected: .github/CODEOWNERS' in await talk.told(2)
    assert talk.hub.git.changed(talk.name, str(output.branch)) == ["A LIMITS.md"]


async def test_the_first_change_may_come_in_a_later_turn(talk: Talk) -> None:
    await talk.begin("reading")
    assert talk.branches() == []
    (output,) = await talk.says(2)
    assert (output.status, [output.branch]) == ("written", talk.branches())
    assert [one["title"] for one in talk.hub.pulls] == [LIMITS["title"]]
