"""Loops whose tasks work on a repository, and an agent that works in its checkout by a script."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from loops.agent.model import ToolSpec
from loops.agent.models.scripted import Script, ScriptedTurn
from loops.agent.transcript import Assistant, Message, User
from loops.store import outputs as store
from loops.store.outputs import OutputRow
from loops.store.tasks import TaskRow
from loops.tasks.outputs.writing import WritingRules
from loops.tasks.workspace.sandbox import Sandboxes
from server.app import Wiring
from tests.doubles.github import TOKEN
from tests.doubles.github_repository import NAME, RepositoryGitHub, repository_github
from tests.doubles.plain_sandbox import PlainSandboxes
from tests.integration.github_loops import connect
from tests.integration.running import Running, issue, running, workflow
from tests.integration.tasking import calls, ends, scripted, task_action, task_of

FILES = {"README.md": "Widgets.\n", "src/export.py": "LIMIT = 10_000\n", "run.sh": "#!/bin/sh\n"}
REPORT = "The export stops at 10,000 rows since its query has a limit. I raised it."
EDIT = "sed -i s/10_000/50_000/ src/export.py"
PULL = {"title": "Raise the limit of the export", "body": "The query had a limit.\n\nFixes #1. Thanks @ada!"}
COMMENT = {"body": "It is the limit; see the pull request, @ada/team."}
ISSUE = {"title": "Other limits", "body": "There are more of them."}


def edits(command: str = EDIT) -> ScriptedTurn:
    return calls("shell_run", {"command": command})


POISON = r"""
printf '#!/bin/sh\nid >> /workspace/ran 2>/dev/null; touch CANARY\ncat\n' > /workspace/act.sh
chmod +x act.sh
mv .git .old && cp -r .old .git && rm -rf .old
cat > .git/config <<X
[core]
	fsmonitor = /workspace/act.sh
	hooksPath = /workspace/hooks
[filter "x"]
	clean = /workspace/act.sh
	smudge = /workspace/act.sh
[diff "x"]
	textconv = /workspace/act.sh
X
mkdir -p hooks .git/info && echo '* filter=x diff=x' > .git/info/attributes
for name in pre-commit post-checkout post-index-change pre-push reference-transaction; do cp act.sh hooks/$name; done
rm -rf hooks act.sh.bak
"""
LOOKING = """
touch /repository/objects/planted && exit 90
grep -rl ghp_ / --include=config --include=environ 2>/dev/null | head -1 | grep -q . && exit 91
cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q ghp_ && exit 92
git log --oneline | grep -q Begin || exit 93
git status --porcelain | grep -q export.py || exit 94
exit 0
"""

PULLS = [edits(), calls("propose_pull_request", PULL), ends(REPORT)]
SCRIPTS: Mapping[str, Sequence[ScriptedTurn]] = {
    "pull": PULLS,
    "everything": [
        edits(),
        calls("propose_comment", COMMENT),
        calls("propose_labels", {"labels": ["bug"]}),
        calls("propose_issue", ISSUE),
        calls("propose_pull_request", {**PULL, "commit_message": "Raise it [skip ci]\n\nAll of it."}),
        calls("propose_comment", {"body": "One more."}),
        ends(REPORT),
    ],
    "silent": [edits(), ends(REPORT)],
    "talking": [*PULLS, edits("grep -q 50_000 src/export.py && echo more > MORE.md"), ends("More.")],
    "reading": [calls("event_read"), ends(REPORT)],
    "empty": [calls("propose_pull_request", PULL), ends(REPORT)],
    "noop": [
        edits(),
        calls("propose_comment", COMMENT),
        calls("finalize", {"outcome": "noop", "reason": "Nothing is wrong."}),
    ],
    "protected": [
        edits("mkdir -p .github/workflows && echo x > .github/workflows/ci.yml && echo y > CLAUDE.md"),
        calls("propose_pull_request", PULL),
        ends(REPORT),
    ],
    "commenting": [calls("propose_comment", COMMENT), ends(REPORT)],
    "opening": [calls("propose_issue", ISSUE), ends(REPORT)],
    "labelling": [calls("propose_labels", {"labels": ["no-such-label"]}), ends(REPORT)],
    "whole": [
        calls("repo_write", {"path": "docs/limits.md", "content": "There is one.\n"}),
        calls("repo_edit", {"path": "src/export.py", "old": "10_000", "new": "50_000"}),
        edits(LOOKING),
        calls("propose_pull_request", PULL),
        ends(REPORT),
    ],
    "poisoning": [edits(), edits(POISON), calls("propose_pull_request", PULL), ends(REPORT)],
    "leaking": [edits("ln -s /etc/shadow leak; ln -sf ../../.. src/up"), ends(REPORT)],
    "spilling": [edits(f"echo sha256={'0' * 64} > sums.txt; echo key {TOKEN} > notes.txt"), ends(REPORT)],
    "cleaning": [edits(f"sed -i s/{TOKEN}/none/ src/leak.py"), calls("propose_pull_request", PULL), ends(REPORT)],
    "idle": [edits(), ScriptedTurn("One."), ScriptedTurn("Two."), ScriptedTurn("Three.")],
    "holding": [edits(), calls("propose_comment", COMMENT), ScriptedTurn("Long.", pause=60)],
}


def script() -> Script:
    """For every task: its turns are those of the last word of its prompt."""

    def turn(messages: Sequence[Message], _tools: Sequence[ToolSpec]) -> ScriptedTurn:
        said = [message.text for message in messages if isinstance(message, User)]
        if "Call finalize now" in said[-1]:
            return ScriptedTurn("")
        words = said[0].split("</user_custom_instructions>")[0].split()[-1]
        return SCRIPTS[words][sum(isinstance(message, Assistant) for message in messages)]

    return [turn] * 100


def working(name: str, repository: str = NAME, **more: Any) -> dict[str, Any]:
    """A loop whose task works on the repository as a script says."""
    inputs = {"repository": repository, **more.pop("inputs", {})}
    return workflow(f"{name} loop", task_action(prompt=f"Work as {name}", inputs=inputs, **more), repository=NAME)


async def outputs_of(service: Running, task_id: str) -> list[OutputRow]:
    return await service.read(lambda connection: store.of_task(connection, task_id))


WRITING = WritingRules(pauses=(0.01, 0.01), settle=timedelta())


class Lab:
    """A service over one GitHub with one repository."""

    def __init__(self, service: Running, hub: RepositoryGitHub, work: Path) -> None:
        self.service = service
        self.hub = hub
        self.work = work

    async def worked(self, name: str, **more: Any) -> tuple[TaskRow, list[OutputRow]]:
        """A task of this script, once it is over, and its outputs."""
        flow = await self.service.create(working(name, **more))
        try:
            run_id = await self.service.started(flow.id, issue(NAME))
            await self.service.until(run_id, "completed", "failed", "cancelled")
            task = await task_of(self.service, run_id)
            return task, await outputs_of(self.service, task.id)
        finally:
            await self.service.services.workflows.disable("default", flow.id, running="drain")


@asynccontextmanager
async def laboratory(folder: Path, url: str, sandboxes: Sandboxes | None = None, **changes: Any) -> AsyncIterator[Lab]:
    """One, with commands that run in no sandbox unless some are given."""
    wiring = scripted(script, Wiring(sandboxes=sandboxes or PlainSandboxes(), writing=WRITING))
    (folder / "remote").mkdir()
    async with repository_github(folder / "remote") as hub:
        hub.git.create(NAME, FILES)
        async with running(folder / "d", url, wiring=wiring, **changes) as started:
            yield Lab(await connect(started, **hub.token_settings()), hub, started.services.settings.work_dir)
