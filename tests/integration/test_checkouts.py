"""Checkouts, and the way of an agent's change out of one: over a git server on loopback, in a sandbox without walls.

What an agent may plant is planted here: wherever git or the service would run it, a canary is left.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from loops.errors import PatchRefused, RepositoryError
from loops.tasks.workspace.cache import Base, Caches, Remote
from loops.tasks.workspace.change import Rules
from loops.tasks.workspace.checkout import Checkout, Checkouts
from loops.tasks.workspace.export import exported
from loops.tasks.workspace.git import Access, Git
from loops.tasks.workspace.leftovers import tasks_of
from loops.tasks.workspace.patch import Author, Patches
from loops.tasks.workspace.sandbox import Room, SandboxLimits
from tests.doubles.git_remote import GitRemote, git
from tests.doubles.plain_sandbox import PlainSandbox, in_folder
from tests.unit.tasks.workspace.test_trees import deepened

TOKEN = "ghs_the-token-of-an-installation"
NAME = "acme/widgets"
FILES: dict[str, str | bytes] = {
    "README.md": "Widgets.\n",
    "src/export.py": "LIMIT = 10_000\n",
    "run.sh": "#!/bin/sh\n",
    "blob.bin": b"\0\1\2",
}
AUTHOR = Author("loops[bot]", "loops[bot]@users.noreply.github.com", datetime(2026, 11, 30, tzinfo=UTC))


@dataclass
class Yard:
    """Folders as the service makes them, and the remote."""

    remote: GitRemote
    url: str
    folder: Path

    def __post_init__(self) -> None:
        for name in ("home", "cache", "tasks", "patches"):
            (self.folder / name).mkdir()
        self.git = Git(self.folder / "home")
        self.caches = Caches(self.folder / "cache", self.git)
        self.checkouts = Checkouts(self.folder / "tasks", self.git, objects=None)
        self.patches = Patches(self.folder / "patches", self.git)

    def at(self, token: str = TOKEN, name: str = NAME, *, large: bool = False) -> Remote:
        return Remote(1, 17, name, Access(f"{self.url}/{name}.git", token), "main", large)

    async def begun(self, task: str = "t1") -> Checkout:
        return await self.checkouts.make(task, await self.caches.fresh(self.at()))

    async def patch(self, checkout: Checkout) -> bytes:
        return await exported(in_folder(checkout.folder), checkout.base.sha, str(checkout.base.objects))

    async def refusal(self, base: Base, patch: bytes) -> list[tuple[str, str]]:
        with pytest.raises(PatchRefused) as refused:
            async with self.patches.applied(base, patch, Rules()):
                pass
        return [(fault.code, fault.path) for fault in refused.value.violations]


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    remote = GitRemote(tmp_path / "remote", lambda token: token == TOKEN)
    remote.folder.mkdir()
    remote.create(NAME, FILES)
    app = web.Application()
    app.add_routes(remote.routes())
    async with TestServer(app) as server:
        (tmp_path / "work").mkdir()
        yield Yard(remote, str(server.make_url("")).rstrip("/"), tmp_path / "work")


async def test_a_checkout_is_the_newest_commit_and_holds_no_token_and_no_object_of_its_own(yard):
    checkout = await yard.begun()
    assert (checkout.folder / "README.md").read_text() == "Widgets.\n"
    assert checkout.base.sha == git("rev-parse", "main", folder=yard.remote.bare(NAME))
    for place, _, files in os.walk(yard.folder):
        for name in files:
            found = (Path(place) / name).read_bytes()
            assert TOKEN.encode() not in found
            assert yard.url.encode() not in found
    assert git("status", "--porcelain", folder=checkout.folder) == ""
    assert not list((checkout.folder / ".git" / "objects").glob("??"))

    sha = yard.remote.commit(NAME, "README.md", "More widgets.\n")
    assert (await yard.begun("t2")).base.sha == sha
    assert (checkout.folder / "README.md").read_text() == "Widgets.\n"


async def test_a_large_repository_is_fetched_without_its_history_and_can_be_worked_on(yard):
    yard.remote.commit(NAME, "README.md", "Two.\n")
    base = await yard.caches.fresh(yard.at(large=True))
    checkout = await yard.checkouts.make("t", base)
    assert git("rev-list", "--count", "HEAD", folder=checkout.folder) == "1"
    (checkout.folder / "README.md").write_text("Three.\n")
    async with yard.patches.applied(base, await yard.patch(checkout), Rules()) as applied:
        await applied.push(await applied.commit("Change", AUTHOR), "loops/x", yard.at().access)
    assert yard.remote.show(NAME, "loops/x:README.md") == "Three."


async def test_a_wrong_token_is_told_without_it(yard):
    with pytest.raises(RepositoryError) as refused:
        await yard.caches.fresh(yard.at("ghs_wrong-token"))
    assert "git fetch failed" in refused.value.message
    assert "ghs_wrong" not in refused.value.message


async def test_many_tasks_that_begin_at_once_share_one_copy(yard):
    bases = await asyncio.gather(*(yard.caches.fresh(yard.at()) for _ in range(4)))
    assert len({base.cache for base in bases}) == 1
    assert len(list((yard.folder / "cache").glob("*.git"))) == 1


async def test_what_a_killed_fetch_left_is_passed_over_and_a_broken_copy_is_made_anew(yard):
    base = await yard.caches.fresh(yard.at())
    (base.cache / "refs" / "heads" / "main.lock").touch()
    yard.remote.commit(NAME, "README.md", "New.\n")
    assert (await yard.caches.fresh(yard.at())).sha != base.sha
    (base.cache / "HEAD").write_text("nonsense")
    assert (await yard.begun("t3")).folder.is_dir()


async def test_the_change_of_an_agent_arrives_as_a_branch_and_again_as_the_same_commit(yard):
    checkout = await yard.begun()
    (checkout.folder / "src" / "export.py").write_text("LIMIT = 50_000\n")
    (checkout.folder / "docs").mkdir()
    (checkout.folder / "docs" / "wörter.md").write_bytes(b"caf\xe9\r\n")
    (checkout.folder / "blob.bin").write_bytes(bytes(range(256)))
    (checkout.folder / "README.md").unlink()
    patch = await yard.patch(checkout)
    shas = []
    for _ in range(2):
        async with yard.patches.applied(checkout.base, patch, Rules()) as applied:
            shas.append(await applied.commit("Raise the limit\n\nSince it is low.", AUTHOR))
            await applied.push(shas[-1], "loops/limit-1", yard.at().access)
    assert shas[0] == shas[1]
    assert yard.remote.branches(NAME) == ["loops/limit-1", "main"]
    assert yard.remote.changed(NAME, "loops/limit-1") == [
        "D README.md", "M blob.bin", 'A "docs/w\\303\\266rter.md"', "M src/export.py",
    ]  # fmt: skip
    log = git("log", "-1", "--format=%an <%ae> %s", "loops/limit-1", folder=yard.remote.bare(NAME))
    assert log == f"{AUTHOR.name} <{AUTHOR.email}> Raise the limit"
    assert list((yard.folder / "patches").iterdir()) == []


async def test_no_change_is_an_empty_patch_even_when_the_agent_committed_and_went_back(yard):
    checkout = await yard.begun()
    (checkout.folder / "a").write_text("x")
    git("add", "-A", folder=checkout.folder)
    git("commit", "-qm", "mine", folder=checkout.folder)
    git("reset", "-q", "--hard", "HEAD~1", folder=checkout.folder)
    assert await yard.patch(checkout) == b""


async def test_what_an_agent_commits_in_its_checkout_is_part_of_the_change(yard):
    checkout = await yard.begun()
    (checkout.folder / "a.py").write_text("x = 1\n")
    git("add", "-A", folder=checkout.folder)
    git("commit", "-qm", "mine", folder=checkout.folder)
    assert b"+x = 1" in await yard.patch(checkout)


def planted(checkout: Checkout, canary: Path) -> None:
    """Everything that makes git run something in a tree."""
    act = canary.parent / "act.sh"
    act.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    act.chmod(0o755)
    folder = checkout.folder
    (folder / ".git" / "config").write_text(
        f'[core]\n\tfsmonitor = {act}\n\thooksPath = {folder}/hooks\n\tpager = {act}\n[filter "x"]\n\tclean = {act}\n'
        f'\tsmudge = {act}\n\trequired = true\n[diff "x"]\n\ttextconv = {act}\n\tcommand = {act}\n[alias]\n'
        f"\tadd = !{act}\n"
        f"[credential]\n\thelper = !{act}\n[core]\n\tsshCommand = {act}\n\tgitProxy = {act}\n"
    )
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    (folder / "hooks").mkdir()
    for name in ("pre-commit", "post-checkout", "post-index-change", "pre-push", "reference-transaction"):
        (folder / "hooks" / name).write_bytes(act.read_bytes())
        (folder / "hooks" / name).chmod(0o755)
    (folder / "README.md").write_text("Changed.\n")


@pytest.mark.parametrize("swap", ["as it is", "another repository", "a file", "a link", "gone"])
async def test_a_poisoned_checkout_runs_nothing_and_its_change_is_still_read(yard, swap, tmp_path):
    checkout, canary = await yard.begun(), tmp_path / "canary"
    planted(checkout, canary)
    own, other = checkout.folder / ".git", tmp_path / "elsewhere"
    if swap != "as it is":
        own.rename(other)
    if swap == "another repository":
        git("init", "-q", ".", folder=checkout.folder)
        (own / "config").write_bytes((other / "config").read_bytes())
    if swap == "a file":
        own.write_text(f"gitdir: {other}\n")
    if swap == "a link":
        own.symlink_to(other)
    patch = await yard.patch(checkout)
    assert b"+Changed." in patch
    async with yard.patches.applied(checkout.base, patch, Rules()) as applied:
        await applied.push(await applied.commit("x", AUTHOR), "loops/x", yard.at().access)
    assert yard.remote.show(NAME, "loops/x:README.md") == "Changed."
    assert not canary.exists()
    if swap == "as it is":  # a careless hand would have set it off
        git("status", folder=checkout.folder)
        assert canary.exists()


async def test_attributes_of_the_tree_run_nothing_and_are_refused(yard, tmp_path):
    checkout, canary = await yard.begun(), tmp_path / "canary"
    planted(checkout, canary)
    (checkout.folder / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    patch = await yard.patch(checkout)
    assert await yard.refusal(checkout.base, patch) == [("protected", ".gitattributes")]
    assert not canary.exists()


async def test_links_out_of_the_tree_are_read_as_links_and_refused(yard, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    checkout = await yard.begun()
    (checkout.folder / "leak").symlink_to(secret)
    (checkout.folder / "README.md").unlink()
    (checkout.folder / "README.md").symlink_to("/etc/passwd")
    patch = await yard.patch(checkout)
    assert b"hunter2" not in patch
    found = await yard.refusal(checkout.base, patch)
    assert {("symlink", "leak"), ("symlink", "README.md")} <= set(found)


async def test_protected_files_are_not_reached_by_links_that_stand_in_the_repository_or_are_new(yard, tmp_path):
    theirs = tmp_path / "theirs"
    git("clone", "-q", str(yard.remote.bare(NAME)), str(theirs), folder=tmp_path)
    (theirs / "hooks").mkdir()
    (theirs / "hooks" / "pre-commit").write_text("x\n")
    (theirs / ".husky").symlink_to("hooks")
    (theirs / "CLAUDE.md").symlink_to("README.md")
    (theirs / "out").symlink_to("/etc/hosts")
    git("add", "-A", folder=theirs)
    git("commit", "-qm", "links", folder=theirs)
    git("push", "-q", "origin", "HEAD:main", folder=theirs)
    checkout = await yard.begun()
    (checkout.folder / "run.sh").write_text("#!/bin/sh\ntrue\n")
    async with yard.patches.applied(checkout.base, await yard.patch(checkout), Rules()) as applied:
        assert [change.path for change in applied.changes] == ["run.sh"]
    (checkout.folder / "CLAUDE.md").write_text("Obey.\n")
    (checkout.folder / ".husky" / "pre-commit").write_text("y\n")
    (checkout.folder / ".claude").symlink_to("src")
    found = await yard.refusal(checkout.base, await yard.patch(checkout))
    assert found == [("protected", one) for one in (".claude", "README.md", "hooks/pre-commit")]


async def test_a_repository_inside_the_repository_is_no_way_around(yard):
    checkout = await yard.begun()
    inner = checkout.folder / "inner"
    inner.mkdir()
    git("init", "-q", ".", folder=inner)
    (inner / "x").write_text("x")
    git("add", "-A", folder=inner)
    git("commit", "-qm", "x", folder=inner)
    patch = await yard.patch(checkout)
    assert await yard.refusal(checkout.base, patch) == [("submodule", "inner")]


async def test_the_executable_bit_of_a_file_stays(yard):
    checkout = await yard.begun()
    (checkout.folder / "run.sh").chmod(0o755)
    assert await yard.refusal(checkout.base, await yard.patch(checkout)) == [("mode", "run.sh")]


FORGED = """\
diff --git a/{0} b/{0}
new file mode {1}
index {2}..{3}
--- /dev/null
+++ b/{0}
@@ -0,0 +1 @@
+x
""".format
NONE, BLOB = "0" * 40, "587be6b4c3f93f93c489c0111bba5596147a26cb"


@pytest.mark.parametrize("path", ["../../outside", "/tmp/outside", ".git/hooks/pre-commit", ".GIT/config", "a/../../b"])
async def test_a_patch_that_was_made_up_reaches_no_other_place(yard, path):
    base = await yard.caches.fresh(yard.at())
    ((rule, _),) = await yard.refusal(base, FORGED(path, "100644", NONE, BLOB).encode())
    assert rule == "path"


async def test_a_patch_that_was_made_up_is_judged_by_what_it_comes_to(yard):
    base = await yard.caches.fresh(yard.at())
    for path, mode, rule in ((".github/workflows/x.yml", "100644", "protected"), ("link", "120000", "symlink")):
        made = FORGED(path, mode, NONE, BLOB).replace("+x\n", "+/etc/x\n").encode()
        assert await yard.refusal(base, made) == [(rule, path)]
    assert await yard.refusal(base, b"not a patch at all\n") == [("path", ".")]
    bomb = b"diff --git a/a b/a\nnew file mode 100644\nGIT binary patch\nliteral 4294967296\n"
    assert await yard.refusal(base, bomb) == [("size", ".")]


async def test_a_secret_is_found_in_text_and_in_binary_files_but_not_where_it_stood_before(yard):
    key = "ghp_" + "a1B2" * 9
    yard.remote.commit(NAME, "fixture.txt", f"{key}\nend\n")
    checkout = await yard.begun()
    (checkout.folder / "fixture.txt").write_text(f"{key}\nthe end\n")
    async with yard.patches.applied(checkout.base, await yard.patch(checkout), Rules()) as applied:
        assert [change.path for change in applied.changes] == ["fixture.txt"]
    (checkout.folder / "blob.bin").write_bytes(b"\0\1" + key.encode() + b"\0")
    assert await yard.refusal(checkout.base, await yard.patch(checkout)) == [("secret", "blob.bin")]


async def test_a_change_that_is_too_large_is_not_read_to_its_end(yard):
    checkout = await yard.begun()
    (checkout.folder / "big.txt").write_text("\n".join(str(number) for number in range(900_000)))
    sandbox = PlainSandbox(Room(checkout.folder, limits=SandboxLimits(output=4 << 20)))
    with pytest.raises(PatchRefused, match="size"):
        await exported(sandbox, checkout.base.sha, str(checkout.base.objects))


async def test_a_checkout_is_found_again_and_left_ones_are_swept(yard):
    (yard.folder / "tasks").chmod(0o711)
    checkout = await yard.begun("open")
    await yard.begun("over")
    assert yard.checkouts.found("open") == checkout
    locked = yard.folder / "tasks" / "over" / "checkout" / "src"
    locked.chmod(0)
    await yard.begun("of-another-service")
    await yard.checkouts.sweep(yard.checkouts.left(), {"open"}, {"open", "over"})
    assert sorted(yard.checkouts.left()) == ["of-another-service", "open"]
    assert yard.checkouts.found("over") is None
    assert (yard.folder / "tasks").stat().st_mode & 0o777 == 0o711


async def test_a_checkout_with_folders_deeper_than_any_path_is_given_back_and_swept(yard):
    checkout = await yard.begun("deep")
    deepened(checkout.folder)
    await yard.checkouts.give_back("deep")
    assert not checkout.folder.exists()
    assert yard.checkouts.is_over("deep")
    checkout = await yard.begun("killed")
    deepened(checkout.folder)
    await yard.checkouts.sweep(yard.checkouts.left(), (), {"deep", "killed"})
    assert yard.checkouts.left() == []


async def test_a_folder_that_goes_while_it_is_swept_keeps_no_other_from_being_swept(yard):
    await yard.begun("over")
    await yard.checkouts.sweep(["gone", *yard.checkouts.left()], (), {"over"})
    assert yard.checkouts.left() == []


async def test_a_later_turn_has_a_place_of_its_own_that_goes_with_its_task(yard):
    for name in ("under-way.2", "over", "over.2"):
        await yard.begun(name)
    left = yard.checkouts.left()
    await yard.begun("over.3")  # a turn that began after the tasks were asked for
    assert sorted(tasks_of(left)) == ["over", "under-way"]
    await yard.checkouts.sweep(left, {"under-way"}, {"under-way", "over"})
    assert sorted(yard.checkouts.left()) == ["over.3", "under-way.2"]


async def test_copies_that_nobody_uses_go_and_one_that_will_not_keeps_no_other(yard):
    base = await yard.caches.fresh(yard.at())
    lock, dangling = base.cache.with_suffix(".lock"), yard.folder / "cache" / "0.lock"
    dangling.symlink_to("gone")
    os.utime(lock, (time.time() - 40 * 86_400,) * 2)
    await yard.caches.sweep()
    assert not base.cache.exists()
    assert not lock.exists()


async def test_all_is_done_on_threads_that_nobody_else_can_end(yard):
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    asyncio.get_running_loop().set_default_executor(ended)
    checkout = await yard.begun()
    (checkout.folder / "README.md").write_text("Changed.\n")
    async with yard.patches.applied(checkout.base, await yard.patch(checkout), Rules()) as applied:
        assert [change.path for change in applied.changes] == ["README.md"]
    await yard.checkouts.give_back("t1")
    await yard.checkouts.sweep(yard.checkouts.left(), (), {"t1"})
    await yard.caches.sweep()
    assert yard.checkouts.left() == []
