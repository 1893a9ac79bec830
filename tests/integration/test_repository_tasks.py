"""From an issue to a draft pull request: a scripted agent in a real checkout, a real remote, a GitHub double."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from loops.own_output import PURPOSE, Marks, OwnMark, Place
from loops.store.github import pushed_by
from tests.doubles.git_remote import git
from tests.doubles.github import TOKEN, says
from tests.doubles.github_repository import NAME
from tests.integration.github_loops import connect
from tests.integration.repository_tasks import PULL, REPORT, Lab, laboratory, outputs_of, working
from tests.integration.running import eventually, issue
from tests.integration.serving import Api, fresh_token
from tests.integration.tasking import task_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with laboratory(tmp_path_factory.mktemp("lab"), module_database_url) as made:
        yield made


@pytest.fixture(autouse=True)
def _fresh(lab: Lab) -> None:
    """What one test had GitHub keep or say is none of the next one's."""
    lab.hub.fault = lab.hub.lost = None
    for kept in (lab.hub.pulls, lab.hub.comments, lab.hub.issues, lab.hub.labelled):
        kept.clear()


async def test_an_issue_leads_to_a_branch_and_a_draft_pull_request_with_what_the_agent_did(lab):
    task, (output,) = await lab.worked("pull")

    assert (task.status, task.ending, output.status) == ("completed", "done", "written")
    (pull,) = lab.hub.pulls
    assert task.result is not None
    assert task.result["pr_urls"] == [pull["html_url"]] == [output.url]
    assert (pull["draft"], pull["base"], pull["title"]) == (True, "main", PULL["title"])
    branch = pull["head"]["ref"]
    assert re.fullmatch(r"loops/raise-the-limit-of-the-export-[0-9a-f]{12}", branch)
    assert lab.hub.git.changed(NAME, branch) == ["M src/export.py"]
    assert lab.hub.git.show(NAME, f"{branch}:src/export.py") == "LIMIT = 50_000"
    log = git("log", "-1", "--format=%an|%s|%P", branch, folder=lab.hub.git.bare(NAME))
    assert log == f"loops-bot|{PULL['title']}|{git('rev-parse', 'main', folder=lab.hub.git.bare(NAME))}"


async def test_what_is_written_says_its_run_carries_the_mark_and_calls_nobody(lab):
    task, _ = await lab.worked("pull")
    assert lab.hub.pulls, (task.reason, _)
    (pull,) = lab.hub.pulls
    number = zlib.crc32(NAME.encode())
    mark = Marks(lab.service.services.box.derive_all(PURPOSE)).find(pull["body"], Place(number, None, "loops-bot"))
    assert mark == OwnMark(task.run_id, 1)
    assert f"{lab.service.service.url}/runs/{task.run_id}" in pull["body"]
    assert "Thanks @\u200bada!" in pull["body"]
    sha = pull["head"]["sha"]
    assert await lab.service.read(lambda c: pushed_by(c, number, sha)) == OwnMark(task.run_id, 1)


async def test_every_kind_of_output_is_written_once_and_no_more_than_may_be(lab):
    task, outputs = await lab.worked("everything")

    assert [(one.kind, one.status) for one in outputs] == [
        ("comment", "written"), ("labels", "written"), ("issue", "written"), ("pull_request", "written"),
    ]  # fmt: skip
    (comment,) = lab.hub.comments
    assert comment["under"] == 1
    assert "@\u200bada/team" in comment["body"]
    marks = Marks(lab.service.services.box.derive_all(PURPOSE))
    under = Place(zlib.crc32(NAME.encode()), 1, "loops-bot")
    assert marks.find(comment["body"], under) == OwnMark(task.run_id, 1)
    assert lab.hub.labelled == {1: ["bug"]}
    assert [one["title"] for one in lab.hub.issues] == ["Other limits"]
    (pull,) = lab.hub.pulls
    message = git("log", "-1", "--format=%B", pull["head"]["ref"], folder=lab.hub.git.bare(NAME))
    assert message == "Raise it (skip ci)\n\nAll of it."
    assert task.result is not None
    assert task.result["pr_urls"] == [pull["html_url"]]


async def test_changed_files_become_a_pull_request_also_where_the_agent_asked_for_none(lab):
    task, (output,) = await lab.worked("silent", inputs={"title": "Mend the export"})
    (pull,) = lab.hub.pulls
    assert (output.status, pull["title"]) == ("written", "Mend the export")
    assert pull["body"].startswith(REPORT)
    assert task.status == "completed"


async def test_a_task_that_changes_nothing_writes_nothing(lab):
    task, outputs = await lab.worked("reading")
    assert (task.status, outputs, lab.hub.pulls) == ("completed", [], [])


async def test_a_pull_request_of_nothing_is_no_success(lab):
    task, (output,) = await lab.worked("empty")
    assert (task.status, task.ending) == ("incomplete", "refused")
    assert output.reason.startswith("nothing was changed in the checkout")
    assert lab.hub.pulls == []


async def test_nothing_to_do_writes_nothing(lab):
    task, (output,) = await lab.worked("noop")
    assert (task.status, task.ending) == ("completed", "noop")
    assert (output.status, output.reason) == ("refused", "the agent found nothing to do")
    assert (lab.hub.comments, lab.hub.pulls) == ([], [])


async def test_a_protected_file_is_refused_by_name_and_the_patch_is_kept(lab):
    before = lab.hub.git.branches(NAME)
    task, (output,) = await lab.worked("protected")

    assert (task.status, task.ending) == ("incomplete", "refused")
    assert "protected: .github/workflows/ci.yml: belongs to the continuous integration" in task.reason
    assert (output.status, output.url) == ("refused", "")
    assert output.patch is not None
    assert b"+++ b/.github/workflows/ci.yml" in output.patch
    assert lab.hub.git.branches(NAME) == before
    assert lab.hub.pulls == []
    told = (await lab.service.run(task.run_id))["reason"]
    assert "refused" in told


async def test_outputs_are_shown_with_their_patch_and_reason_by_the_api_and_on_the_page_of_the_run(lab):
    task, _ = await lab.worked("protected")
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(lab.service.service.url, cookie_jar=jar) as session:
        token = await fresh_token(lab.service.service, "default", "viewer")
        api = Api(session, "default", token, lab.service.service)
        (told,) = (await api.get(f"tasks/{task.id}"))["outputs"]
        exported = await api.get(f"runs/{task.run_id}/export")
        await session.post("/sign-in", data={"token": token}, headers={"Sec-Fetch-Site": "same-origin"})
        async with session.get(f"/runs/{task.run_id}") as answer:
            page = await answer.text()
    assert (told["kind"], told["status"], told["url"], told["patch_cut"]) == ("pull_request", "refused", None, False)
    assert "+++ b/.github/workflows/ci.yml" in told["patch"]
    assert exported["tasks"][0]["outputs"][0]["patch"] == told["patch"]
    assert "belongs to the continuous integration, which no agent changes" in page
    assert "+++ b/.github/workflows/ci.yml" in page


async def test_a_guard_keeps_the_patch_and_opens_nothing(lab):
    task, (output,) = await lab.worked("idle")
    assert (task.status, task.ending) == ("incomplete", "no_tool")
    assert output.status == "refused"
    assert output.reason.startswith("the task did not end by itself")
    assert b"+LIMIT = 50_000" in (output.patch or b"")
    assert lab.hub.pulls == []


async def test_labels_that_the_repository_has_not_are_refused(lab):
    task, (output,) = await lab.worked("labelling")
    assert (task.ending, output.status) == ("refused", "refused")
    assert "'no-such-label'" in output.reason
    assert lab.hub.labelled == {}


async def test_what_github_refuses_is_told_in_its_words(lab):
    lab.hub.fault = says(403, {"message": "Resource not accessible by personal access token"})
    task, (output,) = await lab.worked("commenting")
    assert (task.status, task.ending, output.status) == ("incomplete", "refused", "refused")
    assert "Resource not accessible" in output.reason


@pytest.mark.parametrize(("name", "kept"), [("commenting", "comments"), ("opening", "issues"), ("pull", "pulls")])
async def test_a_write_whose_answer_is_lost_is_found_and_not_written_again(lab, name, kept):
    lab.hub.lost = says(502)
    task, (output,) = await lab.worked(name)
    assert (task.status, output.status) == ("completed", "written")
    assert len(getattr(lab.hub, kept)) == 1


async def test_a_write_that_nobody_can_find_is_uncertain_and_not_written_again(lab):
    lab.hub.fault = says(502)
    task, (output,) = await lab.worked("commenting")
    assert (task.ending, output.status, output.attempts) == ("refused", "uncertain", 1)
    assert "comment uncertain" in task.reason


async def test_a_cancelled_task_writes_nothing(lab):
    flow = await lab.service.create(working("holding"))
    run_id = await lab.service.started(flow.id, issue(NAME))
    task = await task_of(lab.service, run_id)
    (output,) = await eventually(lambda: outputs_of(lab.service, task.id), lambda rows: rows)
    assert output.status == "proposed"

    await lab.service.services.runs.cancel("default", run_id)
    await lab.service.until(run_id, "cancelled")

    (output,) = await outputs_of(lab.service, task.id)
    assert (output.status, output.reason) == ("refused", "the task was cancelled")
    assert (lab.hub.comments, lab.hub.pulls) == ([], [])
    assert not (lab.work / "tasks" / task.id / "checkout").exists()
    await lab.service.services.workflows.disable("default", flow.id, running="drain")


async def test_a_task_that_is_cancelled_while_its_repository_is_fetched_is_over_at_once(lab):
    lab.hub.git.holding = asyncio.Event()
    flow = await lab.service.create(working("pull"))
    run_id = await lab.service.started(flow.id, issue(NAME))
    await asyncio.wait_for(lab.hub.git.holding.wait(), 20)
    await lab.service.services.runs.cancel("default", run_id)
    await lab.service.until(run_id, "cancelled", patience=5)
    lab.hub.git.holding = None
    task = await task_of(lab.service, run_id)
    assert (task.status, task.rounds) == ("cancelled", 0)
    await lab.service.services.workflows.disable("default", flow.id, running="drain")


async def test_a_secret_of_the_service_is_refused_by_the_name_of_its_file_and_blotted_out_of_the_kept_patch(lab):
    task, (output,) = await lab.worked("spilling")
    assert (task.ending, output.status) == ("refused", "refused")
    assert output.reason.startswith("secret: notes.txt: holds a secret of this service")
    assert b"+key ***" in (output.patch or b"")
    assert b"sha256=" + b"0" * 64 in (output.patch or b"")


async def test_a_change_that_takes_a_secret_out_of_the_repository_is_pushed_as_it_is_and_shown_without_it(lab):
    lab.hub.git.commit(NAME, "src/leak.py", f"ONE = 1\nKEY = '{TOKEN}'\n")
    task, (output,) = await lab.worked("cleaning")
    assert (task.ending, output.status) == ("done", "written"), output.reason
    assert lab.hub.git.show(NAME, f"{lab.hub.pulls[0]['head']['ref']}:src/leak.py") == "ONE = 1\nKEY = 'none'"
    assert b"-KEY = '***'" in (output.patch or b"")


async def test_an_app_writes_under_its_own_name_with_the_token_of_its_installation(lab):
    app = Lab(await connect(lab.service, **lab.hub.app_settings(), app_slug="my-loops"), lab.hub, lab.work)
    task, (output,) = await app.worked("pull")
    assert (task.status, output.status) == ("completed", "written"), output.reason
    branch = lab.hub.pulls[0]["head"]["ref"]
    author = git("log", "-1", "--format=%an <%ae>", branch, folder=lab.hub.git.bare(NAME))
    assert author == "my-loops[bot] <my-loops[bot]@users.noreply.github.com>"
    assert "hop=1" in lab.hub.pulls[0]["body"]


async def test_a_repository_that_no_connection_reaches_ends_the_task_and_says_what_mends_it(lab):
    task, outputs = await lab.worked("pull", repository="acme/other")
    assert (task.status, outputs) == ("failed", [])
    assert "no connection reaches acme/other" in task.reason
    assert "let the token or the app write contents and pull requests" in str(task.result)


async def test_no_checkout_is_left_and_nothing_in_the_work_folder_holds_the_token(lab):
    await lab.worked("pull")
    token = lab.hub.token_settings()["token"].encode()
    assert not list((lab.work / "tasks").glob("*/checkout"))
    assert list((lab.work / "patches").iterdir()) == []
    for place in await asyncio.to_thread(lambda: list(lab.work.rglob("*"))):
        assert not place.is_file() or token not in place.read_bytes()
