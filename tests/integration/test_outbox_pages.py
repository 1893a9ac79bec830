"""The outbox as people and programs see it: what was sent, what was not and why, and sending it again."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from loops.store import connections, outbox, retention
from loops.store.runs import StepRow
from notify.message import Address, EmailTarget, Message, PageTarget, SlackTarget
from notify.outbox import ASKED_AGAIN
from server.auth import Role
from tests.doubles.messages import TO_ADA, TO_SLACK, stored
from tests.doubles.seen import Seen, read
from tests.doubles.site import NOW, Site, open_site

STATUSES = ("pending", "sending", "sent", "refused", "retry", "uncertain", "shown", "withdrawn")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        # What TO_SLACK and TO_ADA name.
        assert [await site.connection("team", kind=kind) for kind in ("slack", "smtp")] == [1, 2]
        yield site


@pytest.fixture
async def api(site: Site) -> "Api":
    return Api(site, await site.token())


class Api:
    """The API of the first project, with one token."""

    def __init__(self, site: Site, token: str) -> None:
        self.site = site
        self.token = token

    async def call(
        self, method: str, path: str, project: str = "default", body: Any = None, **query: str
    ) -> tuple[int, Any]:
        target = f"/api/projects/{project}/notifications{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.site.client.request(method, target, headers=headers, params=query, json=body) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str = "", **query: str) -> Any:
        status, told = await self.call("GET", path, **query)
        assert status == 200, told
        return told


async def put(site: Site, status: str = "pending", **columns: Any) -> str:
    return await stored(site.services.writer, site.clock.now(), status, **columns)


async def status_of(site: Site, message_id: str) -> str:
    row = await site.services.reader.read(lambda connection: outbox.get(connection, message_id))
    return row.status


# The API


async def test_a_message_is_listed_without_and_read_with_what_it_says(site: Site, api: Api) -> None:
    said = Message(SlackTarget(1, "C1", thread="1.2"), "k", "All is **well**")
    columns = {"attempts": 2, "parts": 1, "refs": ("1.3",), "reason": "why", "mend": "how", "code": "c"}
    message_id = await put(site, "sent", message=said, run_id="r1", step_id="notify", **columns)
    item = {
        "id": message_id,
        "kind": "slack",
        "to": "C1, in the thread of 1.2",
        "connection": "1",
        "run": "r1",
        "step": "notify",
        "status": "sent",
        "code": "c",
        "reason": "why",
        "mend": "how",
        "attempts": 2,
        "parts": 1,
        "refs": ["1.3"],
        "missed": [],
        "created_at": NOW.isoformat(),
        "updated_at": NOW.isoformat(),
        "due_at": None,
    }
    assert await api.get() == {"items": [item], "next": None}
    assert await api.get(f"/{message_id}") == {**item, "message": said.as_json()}


async def test_messages_are_listed_by_run_and_status_page_by_page(site: Site, api: Api) -> None:
    ids = [await put(site, status, run_id=f"r{number % 2}") for number, status in enumerate(STATUSES)]
    assert [item["id"] for item in (await api.get())["items"]] == ids[::-1]
    assert [item["id"] for item in (await api.get(run="r1"))["items"]] == ids[1::2][::-1]
    assert [item["status"] for item in (await api.get(status="uncertain"))["items"]] == ["uncertain"]
    seen: list[str] = []
    cursor = None
    while cursor is not None or not seen:
        page = await api.get(limit="3", **({} if cursor is None else {"cursor": cursor}))
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert seen == ids[::-1]


@pytest.mark.parametrize("query", [{"status": "gone"}, {"cursor": "x"}, {"limit": "0"}, {"workflow": "w"}])
async def test_a_list_that_cannot_be_asked_for_is_refused(api: Api, query: dict[str, str]) -> None:
    assert (await api.call("GET", "", **query))[0] == 400


@pytest.mark.parametrize("status", STATUSES)
async def test_a_message_is_sent_again_when_it_was_refused_is_uncertain_or_shown(
    site: Site, api: Api, status: str
) -> None:
    message_id = await put(site, status, reason="why", mend="how", attempts=3)
    code, told = await api.call("POST", f"/{message_id}/resend")
    if status in ASKED_AGAIN:
        assert (code, told["status"], told["reason"], told["attempts"]) == (200, "pending", "", 0)
    else:
        assert (code, told["error"]["code"]) == (409, "store.conflict")
        assert f"the message is {status}" in told["error"]["message"]
        assert await status_of(site, message_id) == status


async def test_the_messages_of_another_project_are_not_there(site: Site, api: Api) -> None:
    await site.project("other")
    message_id = await put(site, "refused", project="other")
    assert (await api.get())["items"] == []
    for method, path in (("GET", f"/{message_id}"), ("POST", f"/{message_id}/resend"), ("GET", "/nothing")):
        assert (await api.call(method, path))[0] == 404
    assert await status_of(site, message_id) == "refused"


async def test_a_viewer_reads_and_sends_nothing_again(site: Site) -> None:
    message_id = await put(site, "refused")
    viewer = Api(site, await site.token("viewer"))
    assert (await viewer.call("GET", f"/{message_id}"))[0] == 200
    assert (await viewer.call("POST", f"/{message_id}/resend"))[0] == 403
    assert await status_of(site, message_id) == "refused"


async def test_a_message_whose_text_is_no_longer_kept_says_so_and_is_not_sent_again(site: Site, api: Api) -> None:
    message_id = await put(site, "refused")
    site.clock.forward(timedelta(days=31))
    now = site.clock.now()
    old = await site.services.reader.read(lambda connection: retention.find(connection, now, 30))
    await site.services.writer.run(lambda connection: retention.remove(connection, old))
    told = await api.get(f"/{message_id}")
    assert (told["message"], told["to"], told["status"]) == (None, None, "refused")
    assert (await api.call("POST", f"/{message_id}/resend"))[0] == 409
    await site.sign_in(name="bo")
    page = await read(site, f"/outbox/{message_id}")
    assert "Its text is no longer kept" in page.text
    assert not [form for form in page.all("form") if form["action"].endswith("/resend")]
    assert "a message" in (await read(site, "/outbox")).text


@pytest.mark.parametrize("named", [None, 77, 2])
async def test_a_message_of_no_connection_leaves_over_the_one_there_is(site: Site, api: Api, named: int | None) -> None:
    said = Message(SlackTarget(named, "C1"), "k", "text")
    message_id = await put(site, "shown", message=said)
    code, told = await api.call("POST", f"/{message_id}/resend")
    assert (code, told["status"], told["connection"]) == (200, "pending", "1")
    assert (await api.get(f"/{message_id}"))["message"]["target"]["connection_id"] == 1


async def test_where_several_would_do_one_has_to_be_chosen(site: Site, api: Api) -> None:
    other = await site.connection("sales", kind="slack")
    said = Message(SlackTarget(77, "C1"), "k", "text")
    message_id = await put(site, "refused", message=said, parts=2, refs=("1.1",))
    code, told = await api.call("POST", f"/{message_id}/resend")
    assert (code, told["error"]["message"]) == (409, "the message cannot be sent: this project has no connection 77")
    assert f"Slack connections of this project: 1 (team), {other} (sales)" in told["error"]["hint"]
    code, told = await api.call("POST", f"/{message_id}/resend", body={"connection": 2})
    assert (code, "is of kind smtp, not slack" in told["error"]["message"]) == (409, True)
    code, told = await api.call("POST", f"/{message_id}/resend", body={"connection": "x"})
    assert (code, told["error"]["path"]) == (400, "connection")
    assert await status_of(site, message_id) == "refused"
    code, told = await api.call("POST", f"/{message_id}/resend", body={"connection": str(other)})
    assert (code, told["status"], told["connection"]) == (200, "pending", str(other))
    assert (told["refs"], told["parts"]) == ([], 0)


async def test_what_is_there_in_part_goes_on_over_its_own_connection(site: Site, api: Api) -> None:
    message_id = await put(site, "refused", parts=2, refs=("1.1",))
    _code, told = await api.call("POST", f"/{message_id}/resend")
    assert (told["refs"], told["parts"], told["connection"]) == (["1.1"], 2, "1")


async def test_without_any_connection_of_the_kind_nothing_is_sent_again(site: Site, api: Api) -> None:
    await site.services.writer.run(lambda connection: connections.delete(connection, "default", 1))
    message_id = await put(site, "shown")
    code, told = await api.call("POST", f"/{message_id}/resend")
    assert (code, "loops integrations create slack" in told["error"]["hint"]) == (409, True)
    await site.sign_in(name="bo")
    assert "Send again" not in (await read(site, f"/outbox/{message_id}")).text


# The page


async def test_the_page_offers_the_connections_that_would_do(site: Site) -> None:
    await site.sign_in()
    message_id = await put(site, "shown", message=Message(SlackTarget(77, "C1"), "k", "text"))
    page = await read(site, f"/outbox/{message_id}")
    assert "It goes over team, the connection of this kind that there is" in page.text
    assert page.all("select") == []
    other = await site.connection("sales", kind="slack")
    page = await read(site, f"/outbox/{message_id}")
    assert [one["value"] for one in page.all("option")] == ["", "1", str(other)]
    refused = await site.post(f"/outbox/{message_id}/resend", {"connection": ""})
    assert refused.status == 409
    assert "Slack connections of this project: 1 (team)" in Seen(refused.text).text
    assert (await site.post(f"/outbox/{message_id}/resend", {"connection": str(other)})).status == 303
    assert "Connection sales" in (await read(site, f"/outbox/{message_id}")).text


async def test_a_message_that_no_connection_takes_is_shown_with_its_reason_and_its_mend(site: Site) -> None:
    await site.sign_in()
    said = Message(SlackTarget(None, "#alerts"), "k", "# Report\n\nAll is **well**")
    told = {"reason": "this project has no connection 7", "mend": "put the id of one into slack_workspace"}
    message_id = await put(site, "shown", message=said, **told)
    listed = await read(site, "/outbox")
    for words in ("#alerts", "Slack", "shown", *told.values()):
        assert words in listed.text
    assert f"/outbox/{message_id}" in listed.links()
    page = await read(site, f"/outbox/{message_id}")
    for words in (
        "To #alerts by Slack",
        "nobody was sent it",
        "This project has no connection 7",
        "Report All is well",
    ):
        assert words in page.text
    assert "As it is written# Report All is **well**" in page.text


async def test_the_page_of_a_message_tells_where_it_comes_from_and_how_far_it_came(site: Site) -> None:
    await site.sign_in()
    run = await site.run(await site.workflow())
    told = {"attempts": 2, "parts": 3, "refs": ("1.1", "1.2"), "missed": ("bob@example.org: 550 nobody",)}
    message_id = await put(site, "refused", run_id=run, step_id="notify", code="is_archived", reason="why", **told)
    page = await read(site, f"/outbox/{message_id}")
    assert f"/runs/{run}" in page.links()
    for words in ("a run of Log opened issues, step notify", "2 of 3 are there", "1.1 1.2", "is_archived"):
        assert words in page.text
    assert "bob@example.org: 550 nobody" in page.text
    assert f"/runs/{run}" in (await read(site, f"/outbox?run={run}")).links()


async def test_what_is_for_the_page_alone_is_called_by_its_loop_and_how_it_begins(site: Site) -> None:
    await site.sign_in()
    run = await site.run(await site.workflow())
    said = Message(PageTarget(), "k", "\nIt failed.\n\nThe model is away.")
    message_id = await put(site, "shown", message=said, run_id=run, reason="it is for this page")
    listed = (await read(site, "/outbox")).text
    assert "Log opened issues: It failed." in listed
    assert "it is for this page" not in listed
    assert (await read(site, f"/outbox/{message_id}")).text.lower().count("for this page") == 1


async def test_an_email_is_shown_as_text_its_html_too(site: Site) -> None:
    await site.sign_in()
    target = EmailTarget(2, (Address("ada@example.org", "Ada"),), Address("", "Triage"))
    said = Message(target, "k", "plain words", "plain", html="<h1 onclick=x>Hi</h1>", subject="News of today")
    page = await read(site, f"/outbox/{await put(site, 'sent', message=said)}")
    for words in ("To ada@example.org by email", "News of today", "plain words", "<h1 onclick=x>Hi</h1>", "Triage"):
        assert words in page.text
    assert len(page.all("h1")) == 1


@pytest.mark.parametrize("status", STATUSES)
async def test_only_what_may_be_sent_again_offers_it_and_what_may_arrive_twice_says_so(site: Site, status: str) -> None:
    await site.sign_in()
    message_id = await put(site, status, message=Message(TO_ADA, "k", "text"))
    page = await read(site, f"/outbox/{message_id}")
    forms = [form["action"] for form in page.all("form") if form["action"] != "/sign-out"]
    assert forms == ([f"/outbox/{message_id}/resend"] if status in ASKED_AGAIN else [])
    assert ("arrives twice" in page.text) == (status == "uncertain")


async def test_sending_again_leads_back_to_the_message_which_waits_then(site: Site) -> None:
    await site.sign_in()
    message_id = await put(site, "uncertain", due_at=None)
    answer = await site.post(f"/outbox/{message_id}/resend")
    assert (answer.status, answer.headers["Location"]) == (303, f"/outbox/{message_id}")
    page = await read(site, f"/outbox/{message_id}")
    assert "Waits for its turn" in page.text
    assert [one.get("data-live") for _tag, one in page.elements if "data-live" in one] == [f"/outbox/{message_id}"]
    twice = await site.post(f"/outbox/{message_id}/resend")
    assert twice.status == 409
    assert "the message is pending: there is nothing to send again" in Seen(twice.text).text


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("editor", 303), ("admin", 303)])
async def test_who_may_send_a_message_again(site: Site, role: Role, status: int) -> None:
    await site.sign_in(role)
    message_id = await put(site, "refused")
    page = await read(site, f"/outbox/{message_id}")
    assert ("Send again" in page.text) == (status == 303)
    assert (await site.post(f"/outbox/{message_id}/resend")).status == status


async def test_a_form_of_another_site_sends_nothing(site: Site) -> None:
    await site.sign_in()
    message_id = await put(site, "refused")
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert (await site.post(f"/outbox/{message_id}/resend", headers=foreign)).status in {303, 403}
    assert await status_of(site, message_id) == "refused"


async def test_the_list_is_narrowed_and_turned_over(site: Site) -> None:
    await site.sign_in()
    for number in range(52):
        await put(site, "sent" if number else "refused", message=Message(TO_SLACK, f"k{number}"), run_id="r1")
    first = await read(site, "/outbox?run=r1")
    (older,) = [link["href"] for link in first.all("a") if link.get("rel") == "next"]
    assert len((await read(site, older)).all("tr")) == 3
    assert len((await read(site, "/outbox?status=refused&run=r1")).all("tr")) == 2
    assert "No such messages" in (await read(site, "/outbox?run=r2")).text
    assert "No uncertain messages" in (await read(site, "/outbox?status=uncertain")).text
    for query in ("status=gone", "before=../x", "before=a%00"):
        assert (await site.get(f"/outbox?{query}")).status == 400


async def test_the_outbox_of_another_project_is_not_shown(site: Site) -> None:
    await site.project("other")
    message_id = await put(site, "refused", project="other")
    await site.sign_in()
    assert "No message yet" in (await read(site, "/outbox")).text
    assert (await site.get(f"/outbox/{message_id}")).status == 404
    assert (await site.post(f"/outbox/{message_id}/resend")).status == 404


async def test_the_page_of_a_run_leads_to_its_messages(site: Site) -> None:
    run_id = await site.run(await site.workflow())
    message_id = await stored(site.services.writer, site.clock.now(), run_id=run_id)
    await site.sign_in()
    page = await read(site, f"/runs/{run_id}")
    assert f"/outbox/{message_id}" in page.links()
    assert "slack pending" in page.text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("shown", "Its message was shown here alone: why it did. See the message"),
        ("retry", "Its message is not sent yet, the next attempt is at"),
        ("refused", "Its message was refused: why it did."),
        ("uncertain", "Whether its message arrived is not known: why it did."),
        ("sent", None),
    ],
)
async def test_a_step_says_in_words_what_kept_its_message(site: Site, status: str, words: str | None) -> None:
    run_id = await site.run(await site.workflow())
    step = StepRow(
        step_id="log", type="function", name="Notify", position=0, status="completed",
        result=None, error=None, log=(), started_at=NOW, finished_at=NOW,
    )  # fmt: skip
    await site.act(run_id, step)
    now = site.clock.now()
    message_id = await stored(site.services.writer, now, status, run_id=run_id, step_id="log", reason="why it did")
    await site.sign_in()
    page = await read(site, f"/runs/{run_id}")
    assert (words or "Notify function completed") in page.text
    assert ("See the message" in page.text) == (words is not None)
    assert f"/outbox/{message_id}" in page.links()
