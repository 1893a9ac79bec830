"""Who may use the API, how it refuses, how it lists; connections and tokens."""

import asyncio
import hashlib
import hmac
import json
import uuid
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import sqlalchemy as sa

from loops.connections.secrets import SecretBox
from loops.store import connections, tables
from server.api.routes import PREFIX, ROUTES, Route
from server.app import Service
from server.auth import SESSION_COOKIE, SESSION_PURPOSE, digest, session_value
from tests.integration.serving import SECRET, Api, eventually, fresh_project, fresh_token, listening, workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")


# Who asks


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer nonsense", "Bearer loops_" + "x" * 43, "Basic dXNlcjpwYXNz", "Bearer loops_é"],
)
async def test_a_request_without_a_known_token_is_refused(api: Api, authorization: str) -> None:
    status, told = await api.call("GET", "runs", headers={"Authorization": authorization} if authorization else {})
    assert (status, told["error"]["code"]) == (401, "access.unauthenticated")
    assert "loops token create" in told["error"]["hint"]


async def test_the_refusal_of_an_unknown_sender_names_the_scheme(api: Api, session: aiohttp.ClientSession) -> None:
    async with session.get(f"/api/projects/{api.project}/runs") as answer:
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_a_revoked_token_is_refused_at_once(api: Api) -> None:
    made = await api.post("tokens", {"role": "viewer", "name": "a guest"})
    guest = api.as_role(made["token"])
    assert (await guest.get("runs"))["items"] == []
    assert (await api.call("DELETE", f"tokens/{made['id']}"))[0] == 204
    assert (await guest.refused("GET", "runs"))[0] == 401


async def test_another_project_and_none_look_the_same(
    service: Service, session: aiohttp.ClientSession, api: Api
) -> None:
    other = await fresh_project(service, session)
    foreign = await api.refused("GET", f"/api/projects/{other.project}/runs")
    absent = await api.refused("GET", "/api/projects/p0/runs")
    assert foreign[0] == absent[0] == 404
    assert foreign[1]["message"].replace(other.project, "p0") == absent[1]["message"]


def _id(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", [route for route in ROUTES if route.role != "viewer"], ids=_id)
async def test_a_role_below_the_needed_one_is_refused(service: Service, api: Api, route: Route) -> None:
    below = api.as_role(await fresh_token(service, api.project, "viewer" if route.role == "editor" else "editor"))
    path = PREFIX + route.path.format(project=api.project, id="1", schedule="1", number="1")
    status, error = await below.refused(route.method, path, {})
    assert (status, error["code"]) == (403, "access.forbidden")
    assert route.role in error["message"]
    # The role that is needed gets further: to what is wrong with the request itself.
    enough = api.as_role(await fresh_token(service, api.project, route.role))
    assert (await enough.call(route.method, path, None if route.method == "GET" else {}))[0] not in {401, 403}


@pytest.mark.parametrize("route", [route for route in ROUTES if route.role == "viewer"], ids=_id)
async def test_every_route_that_reads_asks_for_a_token(api: Api, route: Route) -> None:
    path = PREFIX + route.path.format(project=api.project, id="1", schedule="1", number="1")
    assert (await api.call(route.method, path, {}, headers={}))[0] == 401


async def _cookie(api: Api, expires: datetime) -> dict[str, str]:
    services = api.service.services
    row = await services.reader.read(lambda connection: connections.token_by_digest(connection, digest(api.token)))
    assert row is not None
    value = session_value(services.box.derive(SESSION_PURPOSE), row.id, expires)
    return {"Cookie": f"{SESSION_COOKIE}={value}"}


async def test_a_session_reads_and_changes_only_from_our_own_pages(api: Api) -> None:
    cookie = await _cookie(api, datetime.now(UTC) + timedelta(hours=1))
    assert (await api.call("GET", "runs", headers=cookie))[0] == 200
    body = {"role": "viewer", "name": "by cookie"}
    status, told = await api.call("POST", "tokens", body, headers=cookie)
    assert (status, told["error"]["code"]) == (403, "access.forbidden")
    for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        assert (await api.call("POST", "tokens", body, headers={**cookie, **foreign}))[0] == 403
    for own in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": api.service.url}):
        assert (await api.call("POST", "tokens", body, headers={**cookie, **own}))[0] == 201


async def test_a_session_ends_with_its_time_and_with_its_token(api: Api) -> None:
    over = await _cookie(api, datetime.now(UTC) - timedelta(seconds=1))
    assert (await api.call("GET", "runs", headers=over))[0] == 401
    cookie = await _cookie(api, datetime.now(UTC) + timedelta(hours=1))
    (token,) = (await api.get("tokens"))["items"]
    assert (await api.call("DELETE", f"tokens/{token['id']}"))[0] == 204
    assert (await api.call("GET", "runs", headers=cookie))[0] == 401


async def test_a_wrong_header_is_not_outweighed_by_a_good_cookie(api: Api) -> None:
    cookie = await _cookie(api, datetime.now(UTC) + timedelta(hours=1))
    assert (await api.call("GET", "runs", headers={**cookie, "Authorization": "Bearer loops_no"}))[0] == 401


async def test_the_private_socket_is_an_admin_of_the_project_in_the_path(service: Service, api: Api) -> None:
    connector = aiohttp.UnixConnector(str(service.settings.data_dir / "loops.sock"))
    async with aiohttp.ClientSession("http://localhost", connector=connector) as session:
        for project, status in ((api.project, 200), ("p0", 404), ("default", 200)):
            async with session.get(f"/api/projects/{project}/tokens") as answer:
                assert answer.status == status


# How it refuses


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"role": "viewer",\n  "name" "x"}', "line 2, column 10"),
        (b"[1]", "a list"),
        (b'"text"', "a text"),
        (b"7", "a number"),
        (b"null", "null"),
        (b'{"role": NaN}', "NaN"),
        (b'{"role": "\xff"}', "UTF-8"),
        (b"[" * 100_000, "JSON"),
        (b'{"role": ' + b"9" * 5000 + b"}", "JSON"),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused_with_the_place(api: Api, body: bytes, words: str) -> None:
    headers = {"Authorization": f"Bearer {api.token}"}
    status, told = await api.call("POST", "tokens", raw=body, headers=headers)
    assert (status, told["error"]["code"]) == (400, "request.invalid")
    assert words in told["error"]["message"]


async def test_an_unknown_key_is_refused_with_the_nearest_known_one(api: Api) -> None:
    status, error = await api.refused("POST", "tokens", {"rol": "viewer"})
    assert (status, error["path"], error["hint"]) == (400, "rol", 'did you mean "role"?')


async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    status, error = await api.refused("POST", "workflows", {"name": "x" * (4 * 1024 * 1024)})
    assert (status, error["code"]) == (413, "request.too_large")


async def test_a_body_that_is_cut_off_or_broken_is_no_error_of_ours(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    head = f"POST /api/projects/{api.project}/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n"
    for rest in ("Content-Length: 50\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n"):
        parts = urlsplit(api.service.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write((head + rest).encode())
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert (await api.get("runs"))["items"] == []
    assert "an API call failed" not in caplog.text


async def test_unknown_paths_and_methods_are_answered_in_the_same_form(
    api: Api, session: aiohttp.ClientSession
) -> None:
    assert (await api.refused("GET", "nothing"))[0] == 404
    assert (await api.refused("GET", "/api/nothing"))[0] == 404
    async with session.patch(f"/api/projects/{api.project}/workflows") as answer:
        assert answer.status == 405
        assert {*answer.headers["Allow"].split(",")} == {"GET", "HEAD", "POST"}
        error = (await answer.json())["error"]
        assert (error["code"], error["hint"]) == ("request.method", "it takes GET, HEAD, POST")


WRONG_ADDRESSES = {
    "GET /api": "",
    "POST /api": "",
    "GET /hooks": "",
    "POST /hooks/gitlab/1": "",
    "POST /hooks/github/1/2": "",
    "GET /hooks/github/1": "POST",
    "PUT /hooks/slack/1": "POST",
    "GET /batch/": "OPTIONS,POST",
    "PUT /ingest/flags": "GET,OPTIONS,POST",
    "POST /ingest/i/v1/e/": "",
    "GET /mcp": "POST",
    "POST /mcp/a/b": "",
    "POST /live": "GET,HEAD",
}


async def test_a_program_at_a_wrong_address_is_told_what_mends_it(api: Api, session: aiohttp.ClientSession) -> None:
    for asked, allowed in WRONG_ADDRESSES.items():
        method, path = asked.split()
        async with session.request(method, path, headers={"Origin": "https://shop.example"}) as answer:
            told, of_any_origin = (await answer.json())["error"], "Access-Control-Allow-Origin" in answer.headers
        code = (405, "request.method") if allowed else (404, "request.not_found")
        assert (answer.status, told["code"], answer.headers.get("Allow", "")) == (*code, allowed), asked
        assert told["hint"].startswith("it takes") == bool(allowed)
        assert told["hint"]
        assert of_any_origin == (path in {"/batch/", "/ingest/flags"})


@pytest.mark.parametrize("piece", ["%00", "%0a", "x" * 400, "%F0%9F%8E%89", "..%2f..", "%ed%a0%80", "' OR 1=1"])
@pytest.mark.parametrize("place", ["workflows/{}", "runs/{}", "deliveries/{}", "deliveries/{}/verdicts"])
async def test_an_id_that_nothing_can_have_is_not_found(api: Api, place: str, piece: str) -> None:
    status, _ = await api.refused("GET", place.format(piece))
    assert status == 404


@pytest.mark.parametrize("piece", ["0", "-1", "x", "99999999999999999999", "2147483648", "%D9%A1"])
async def test_a_number_that_no_connection_has_is_not_found(api: Api, piece: str) -> None:
    assert (await api.refused("DELETE", f"integrations/{piece}"))[0] == 404


async def test_an_error_of_ours_is_answered_without_its_details_and_logged(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("the secret detail")

    monkeypatch.setattr("loops.store.run_queries.page", broken)
    status, error = await api.refused("GET", "runs")
    assert (status, error["code"]) == (500, "loops.internal")
    assert "secret detail" not in json.dumps(error)
    assert "the secret detail" in caplog.text


# How it lists


async def _workflows(api: Api, count: int) -> list[str]:
    return [(await api.post("workflows", listening(f"loop {number}")))["id"] for number in range(count)]


async def _pages(api: Api, path: str, limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await api.get(path, limit=limit, **cursor)
        pages.append([item["id"] for item in page["items"]])
        if page["next"] is None:
            return pages
        cursor = {"cursor": page["next"]}


async def test_the_pages_of_a_list_hold_each_item_once_and_in_order(api: Api) -> None:
    made = await _workflows(api, 5)
    assert await _pages(api, "workflows", 2) == [made[:2:-1], made[2:0:-1], made[:1]]
    assert await _pages(api, "workflows", 5) == [made[::-1]]


async def test_connections_and_tokens_are_listed_in_pages_too(api: Api) -> None:
    hooks = [await api.github() for _ in range(12)]
    assert list(chain(*await _pages(api, "integrations", 5))) == [hook.rpartition("/")[2] for hook in hooks]
    made = [(await api.post("tokens", {"role": "viewer", "name": f"t{number}"}))["id"] for number in range(4)]
    assert list(chain(*await _pages(api, "tokens", 2)))[:4] == made[::-1]


@pytest.mark.parametrize("path", ["workflows", "runs", "deliveries", "tokens", "integrations"])
@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "-1"},
        {"limit": "ten"},
        {"limit": "٣"},
        {"limit": ""},
        {"cursor": ""},
        {"cursor": "x"},
        {"cursor": "é"},
        {"cursor": "W10"},
        {"cursor": "WzFd"},
        {"cursor": "eyJhIjoxfQ"},
        {"cursor": "WyJcdTAwMDAiXQ"},
        {"cursor": "WyI5OTk5IiwiYSIsImIiXQ"},
        {"cursr": "x"},
    ],
    ids=str,
)
async def test_a_query_that_does_not_fit_is_refused_with_its_parameter(api: Api, path: str, query: dict) -> None:
    status, error = await api.refused("GET", path, **query)
    (name,) = query
    assert (status, error["path"]) == (400, name)


@pytest.mark.parametrize(
    ("path", "query", "hint"),
    [
        ("runs", {"status": "done"}, "queued, running, waiting, completed, failed, cancelled"),
        ("deliveries", {"status": "new"}, "accepted, dispatched, ignored, quarantined"),
        ("workflows", {"status": "paused"}, "draft, active, archived"),
        ("integrations", {"kind": "gitlab"}, "github, slack, smtp, posthog"),
        ("runs", {"staus": "failed"}, 'did you mean "status"?'),
    ],
)
async def test_a_filter_that_could_never_match_is_refused_with_the_choices(
    api: Api, path: str, query: dict, hint: str
) -> None:
    status, error = await api.refused("GET", path, **query)
    assert status == 400
    assert hint in error["hint"]


async def test_a_parameter_that_stands_twice_is_refused(api: Api) -> None:
    status, error = await api.refused("GET", f"/api/projects/{api.project}/runs?status=failed&status=queued")
    assert (status, error["path"]) == (400, "status")


# Connections


async def test_a_connection_shows_which_secrets_are_set_and_none_of_them(
    api: Api, session: aiohttp.ClientSession
) -> None:
    settings = {"webhook_secret": "hush-hush-hush", "token": "ghp_hush", "api_base_url": "http://127.0.0.1:1/api"}
    made = await api.post("integrations", {"kind": "github", "name": "code", "settings": settings})
    assert made["config"] == {"api_base_url": "http://127.0.0.1:1/api"}
    assert made["secrets"] == ["token", "webhook_secret"]
    assert made["hook_url"] == f"{api.service.url}/hooks/github/{made['id']}"
    assert isinstance(made["id"], str)
    assert made.pop("warnings") == []
    listed = await api.get("integrations")
    assert listed == {"items": [made], "next": None}
    assert "hush" not in json.dumps(listed)


async def test_a_kind_that_nothing_is_delivered_to_has_no_hook(api: Api) -> None:
    settings = {"host": "mail.example.org", "from": "loops@example.org", "port": 2525}
    made = await api.post("integrations", {"kind": "smtp", "name": "mail", "settings": settings})
    assert made["hook_url"] is None
    assert made["config"] == {**settings, "port": "2525"}


async def test_a_password_that_would_travel_in_clear_text_is_warned_of_as_long_as_it_would(api: Api) -> None:
    settings = {"host": "mail.example.org", "from": "loops@example.org", "security": "none"}
    signed = {**settings, "username": "ada", "password": "hush"}
    plain = await api.post("integrations", {"kind": "smtp", "name": "plain", "settings": settings})
    clear = await api.post("integrations", {"kind": "smtp", "name": "clear", "settings": signed})
    (warning,) = clear["warnings"]
    assert "clear text" in warning["message"]
    assert "starttls" in warning["hint"]
    _, changed = await api.call("PATCH", f"integrations/{clear['id']}", {"settings": {"security": "tls"}})
    assert (plain["warnings"], changed["warnings"]) == ([], [])


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "kind"),
        ({"kind": "gitlab", "name": "x"}, "kind"),
        ({"kind": "github"}, "name"),
        ({"kind": "github", "name": "x", "settings": []}, "settings"),
        ({"kind": "github", "name": "x"}, "settings.webhook_secret"),
        ({"kind": "github", "name": "x", "settings": {"secret": "y"}}, "settings.secret"),
    ],
)
async def test_a_connection_that_cannot_work_is_refused_with_the_place(api: Api, body: dict, path: str) -> None:
    status, error = await api.refused("POST", "integrations", body)
    assert (status, error["path"]) == (400, path)
    assert error["hint"]


async def test_a_second_connection_of_the_name_is_a_conflict_and_a_deleted_one_gives_its_name_free(api: Api) -> None:
    body = {"kind": "github", "name": "code", "settings": {"webhook_secret": "x"}}
    first = await api.post("integrations", body)
    status, error = await api.refused("POST", "integrations", body)
    assert (status, error["code"]) == (409, "store.conflict")
    assert (await api.call("DELETE", f"integrations/{first['id']}")) == (204, None)
    assert (await api.refused("DELETE", f"integrations/{first['id']}"))[0] == 404
    # Senders still deliver to the old address: no other connection may ever have it.
    assert (await api.post("integrations", body))["id"] != first["id"]


async def test_the_hook_of_a_deleted_connection_is_gone(api: Api) -> None:
    hook = await api.github()
    assert (await api.call("POST", hook, raw=b"{}", headers={}))[0] in {400, 401}
    await api.call("DELETE", f"integrations/{hook.rpartition('/')[2]}")
    await eventually(lambda: api.call("POST", hook, raw=b"{}", headers={}), lambda answer: answer[0] == 404)


def saying(name: str, template: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """A draft whose one step has these inputs."""
    shown = workflow(name, {"type": "manual"}, status="draft")
    kind = {"template-email": "function_email"}.get(template, "function")
    config = {"template_id": template, "inputs": {key: {"value": value} for key, value in inputs.items()}}
    shown["actions"][1] |= {"type": kind, "config": config}
    return shown


async def test_a_connection_that_is_needed_is_deleted_only_where_that_is_said(
    service: Service, session: aiohttp.ClientSession
) -> None:
    api = await fresh_project(service, session)
    hub = (await api.github()).rpartition("/")[2]
    slack, mail, wiki = [
        (await api.post("integrations", {"kind": kind, "name": kind, "settings": settings}))["id"]
        for kind, settings in (
            ("slack", {"signing_secret": "x"}),
            ("smtp", {"host": "mail.example.org", "from": "loops@example.org"}),
            ("mcp", {"url": "https://wiki.example.org/mcp"}),
        )
    ]
    mailed = {"from": {"integrationId": mail}, "to": {"email": "ada@example.org"}, "subject": "x", "text": "x"}
    for one in (
        saying("says", "template-slack", {"slack_workspace": slack, "channel": "C1", "text": "x"}),
        saying("mails", "template-email", {"email": {**mailed, "html": ""}}),
        saying("asks", "template-posthog-create-task", {"prompt": "Look.", "connectors": [wiki]}),
        listening("hears", "issues"),
    ):
        await api.post("workflows", one)
    await api.call("PUT", "alerts", {"target": {"kind": "slack", "connection": slack, "to": "C1"}})
    needed = {slack: ["'says'", "the alerts of failures"], mail: ["'mails'"], wiki: ["'asks'"], hub: ["'hears'"]}
    for number, names in needed.items():
        status, error = await api.refused("DELETE", f"integrations/{number}")
        assert (status, error["code"]) == (409, "store.conflict")
        assert error["message"].endswith(f"is needed by {', '.join(names)}")
        assert "force=true" in error["hint"]
    # Events of GitHub are heard over any connection to it: of two neither is needed.
    other = (await api.github()).rpartition("/")[2]
    for asked in (other, f"{slack}?force=true", f"{mail}?force=true", f"{hub}?force=true"):
        assert (await api.call("DELETE", f"integrations/{asked}"))[0] == 204
    assert (await api.refused("DELETE", f"integrations/{wiki}?force=yes"))[0] == 400


async def test_a_connection_of_another_project_cannot_be_deleted(
    api: Api, service: Service, session: aiohttp.ClientSession
) -> None:
    other = await fresh_project(service, session)
    hook = await other.github()
    assert (await api.refused("DELETE", f"integrations/{hook.rpartition('/')[2]}"))[0] == 404
    assert len((await other.get("integrations"))["items"]) == 1


async def pong(api: Api, hook: str, secret: str) -> int:
    """The status of the answer to a ping that is signed with the secret."""
    body = b"{}"
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
    }
    return (await api.call("POST", hook, raw=body, headers=headers))[0]


async def test_a_changed_secret_counts_within_a_second_and_the_hook_stays(api: Api) -> None:
    hook = await api.github()
    assert await pong(api, hook, SECRET) == 200
    (before,) = (await api.get("integrations"))["items"]
    status, told = await api.call("PATCH", f"integrations/{before['id']}", {"settings": {"webhook_secret": "another"}})
    assert status == 200
    assert (told["id"], told["hook_url"], told["secrets"]) == (before["id"], before["hook_url"], ["webhook_secret"])
    assert told["updated_at"] > before["updated_at"]
    assert told.pop("warnings") == []
    assert (await api.get("integrations"))["items"] == [told]
    await asyncio.sleep(1.1)
    assert await pong(api, hook, "another") == 200
    assert await pong(api, hook, SECRET) == 401


async def test_a_change_names_only_what_changes_and_null_takes_a_setting_away(api: Api) -> None:
    settings = {"webhook_secret": "s", "token": "ghp_x", "app_slug": "loops", "api_base_url": "http://127.0.0.1:1"}
    made = await api.post("integrations", {"kind": "github", "name": "code", "settings": settings})
    change = {"token": None, "app_slug": "ours"}
    status, told = await api.call("PATCH", f"integrations/{made['id']}", {"settings": change})
    assert status == 200
    assert told["config"] == {"app_slug": "ours", "api_base_url": "http://127.0.0.1:1"}
    assert told["secrets"] == ["webhook_secret"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "settings"),
        ({"settings": {}}, "settings"),
        ({"settings": []}, "settings"),
        ({"settings": {"webhook_secret": None}}, "settings.webhook_secret"),
        ({"settings": {"secret": "x"}}, "settings.secret"),
        ({"name": "other"}, "name"),
    ],
)
async def test_a_change_that_does_not_fit_is_refused_and_changes_nothing(api: Api, body: dict, path: str) -> None:
    hook = await api.github()
    (before,) = (await api.get("integrations"))["items"]
    status, error = await api.refused("PATCH", f"integrations/{before['id']}", body)
    assert (status, error["path"]) == (400, path)
    assert error["hint"]
    assert (await api.get("integrations"))["items"] == [before]
    assert await pong(api, hook, SECRET) == 200


async def test_a_connection_of_another_project_cannot_be_changed(
    api: Api, service: Service, session: aiohttp.ClientSession
) -> None:
    other = await fresh_project(service, session)
    number = (await other.github()).rpartition("/")[2]
    change = {"settings": {"webhook_secret": "mine now"}}
    assert (await api.refused("PATCH", f"integrations/{number}", change))[0] == 404
    assert (await api.refused("PATCH", "integrations/9999999", change))[0] == 404


async def test_secrets_that_no_key_opens_are_counted_and_left_when_the_others_are_sealed_anew(api: Api) -> None:
    hook = await api.github()
    foreign = SecretBox(["a key that is not here, not here at all"]).seal({"webhook_secret": "s"})

    def put(connection: sa.Connection) -> int:
        kind, now = "github", datetime.now(UTC)
        return connections.insert(
            connection, project_id=api.project, kind=kind, name="foreign", config={}, secrets=foreign, now=now
        )

    number = await api.service.services.writer.run(put)
    before = await sealed(api)
    told = await api.post("integrations/rotate")
    after = await sealed(api)
    assert (told["unreadable"], before[number]) == (1, after[number])
    assert told["resealed"] == len([one for one in before if before[one] != after[one]]) == len(before) - 1
    assert await pong(api, hook, SECRET) == 200
    assert (await api.call("DELETE", f"integrations/{number}"))[0] == 204


async def sealed(api: Api) -> dict[int, str]:
    """What is stored of the secrets of every connection, by its id."""
    query = sa.select(tables.connections.c.id, tables.connections.c.secrets)
    found = await api.service.services.reader.read(lambda connection: connection.execute(query).all())
    return {row.id: row.secrets for row in found}


# Tokens


async def test_a_token_is_shown_once_and_kept_as_a_digest(api: Api) -> None:
    made = await api.post("tokens", {"role": "editor", "name": "deploys"})
    assert made["token"].startswith("loops_")
    listed = await api.get("tokens")
    assert made["token"] not in json.dumps(listed)
    (kept,) = [item for item in listed["items"] if item["id"] == made["id"]]
    assert (kept["name"], kept["role"], kept["revoked_at"]) == ("deploys", "editor", None)


async def test_a_revoked_token_stays_listed_with_its_time_and_is_not_revoked_twice(api: Api) -> None:
    made = await api.post("tokens", {"role": "viewer"})
    assert (await api.call("DELETE", f"tokens/{made['id']}"))[0] == 204
    (kept,) = [item for item in (await api.get("tokens"))["items"] if item["id"] == made["id"]]
    assert datetime.fromisoformat(kept["revoked_at"]) <= datetime.now(UTC)
    assert (await api.refused("DELETE", f"tokens/{made['id']}"))[0] == 404


@pytest.mark.parametrize("body", [{}, {"role": 7}, {"role": "root"}, {"role": "viewer", "name": "\n"}], ids=str)
async def test_a_token_without_a_proper_role_and_name_is_refused(api: Api, body: dict) -> None:
    status, error = await api.refused("POST", "tokens", body)
    assert status == 400
    assert error["path"] == ("name" if "name" in body else "role")
