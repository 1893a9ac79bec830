import json
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest

from loops.errors import PayloadMalformed, SignatureInvalid
from loops.event import Delivery
from tests.unit.triggers.github.deliveries import (
    KEY,
    RECEIVED,
    SOURCE,
    delivery,
    encoded,
    fixture,
    parsed,
    receive,
    sign,
    without,
)
from triggers.source import Ignored

FORM = "application/x-www-form-urlencoded"


def refused(event: str, payload: Any, **headers: Any) -> PayloadMalformed:
    with pytest.raises(PayloadMalformed) as caught:
        receive(event, payload, **headers)
    return caught.value


def nested(levels: int) -> bytes:
    """An object, and arrays in it, `levels` deep in all."""
    inner = b"[" * (levels - 2) + b"1" + b"]" * (levels - 2)
    return b'{"action":"opened","x":[' + inner + b"]}"


def test_an_arrival_carries_the_senders_names_and_what_order_is_kept_for() -> None:
    arrival = receive("issues", fixture("issues__opened"))
    assert (arrival.key, arrival.name, arrival.subject) == (KEY, "issues", "990017#42")
    assert arrival.ignored is None
    assert arrival.verified


@pytest.mark.parametrize(
    ("event", "name", "subject"),
    [
        ("issue_comment", "issue_comment__created", "990017#42"),
        ("pull_request", "pull_request__opened", "990017#7"),
        ("pull_request_review", "pull_request_review__submitted", "990017#7"),
        ("push", "push__branch", "990017@refs/heads/main"),
        ("push", "push__tag", "990017@refs/tags/v1.0"),
        ("workflow_run", "workflow_run__completed", "990017"),
        ("installation", "installation__created", None),
    ],
)
def test_the_subject_is_the_topic_the_ref_or_the_repository(event: str, name: str, subject: str | None) -> None:
    assert receive(event, fixture(name)).subject == subject


def test_without_its_id_a_repository_is_known_by_its_name() -> None:
    payload = fixture("issues__opened", repository={"full_name": "Acme/Widgets"})
    assert receive("issues", payload).subject == "acme/widgets#42"
    assert receive("issues", {**payload, "repository": {}}).subject is None


@pytest.mark.parametrize(
    ("header", "given"),
    [
        ("X-GitHub-Event", None),
        ("X-GitHub-Event", " "),
        ("X-GitHub-Delivery", None),
        ("X-GitHub-Delivery", ""),
        ("X-GitHub-Delivery", "x" * 201),
    ],
)
def test_gh_04_a_header_that_is_missing_or_absurd_is_named(header: str, given: str | None) -> None:
    error = refused("issues", fixture("issues__opened"), **{header.lower().replace("-", "_"): given})
    assert header in error.message


def test_the_signature_is_checked_before_anything_is_said_of_the_rest() -> None:
    with pytest.raises(SignatureInvalid):
        receive("issues", b"no json", x_hub_signature_256=None, x_github_event=None)


@pytest.mark.parametrize(
    ("said", "event", "name", "field"),
    [
        ("push", "issue_comment", "issue_comment__created", "action"),
        ("push", "issues", "issues__opened", "action"),
        ("issues", "issue_comment", "issue_comment__created", "comment"),
        ("pull_request", "pull_request_review", "pull_request_review__submitted", "review"),
        ("create", "issues", "issues__opened", "action"),
    ],
)
def test_a_body_of_another_event_than_the_header_says_is_refused(said: str, event: str, name: str, field: str) -> None:
    assert receive(event, fixture(name)).name == event
    error = refused(said, fixture(name))
    assert error.path == "X-GitHub-Event"
    assert f"says {said}" in error.message
    assert repr(field) in error.message


def test_gh_06_a_body_with_any_characters_is_verified_as_bytes() -> None:
    title = "🎉 中文 cafe\N{COMBINING ACUTE ACCENT} “x”"
    issue = {**fixture("issues__opened")["issue"], "title": title}
    assert parsed("issues", fixture("issues__opened", issue=issue)).properties["title"] == title


@pytest.mark.parametrize("extra", ["", "&x=1"], ids=["alone", "with another field"])
def test_gh_08_a_form_holds_the_json_and_is_signed_as_it_is(extra: str) -> None:
    title = "a+b %2B 100% & = é 🎉\r\n"
    issue = {**fixture("issues__opened")["issue"], "title": title}
    form = (urlencode({"payload": encoded(fixture("issues__opened", issue=issue))}) + extra).encode()
    arrival = receive("issues", form, content_type=f"{FORM}; charset=utf-8")
    for kept, memory in (({"content-type": FORM}, arrival.parsed), ({"content-type": FORM}, None), ({}, None)):
        stored = Delivery("d1", "p", 3, "github", KEY, "issues", RECEIVED, kept, form)
        events = SOURCE.parse(stored, memory, {})
        assert not isinstance(events, Ignored)
        assert events[0].properties["title"] == title
        assert events[0].properties["github_event"]["issue"]["title"] == title  # type: ignore[index,call-overload]


def test_gh_08_spaces_come_as_plus_or_as_percent_20() -> None:
    for space in (b"+", b"%20"):
        form = b"payload=" + quote_plus('{"ref":"a b+c"}').encode().replace(b"+", space)
        assert parsed("push", form).properties["ref"] == "a b+c"


def test_a_form_without_a_payload_is_refused() -> None:
    assert "payload" in refused("issues", b"pay=1&load=2", content_type=FORM).message


def test_gh_09_a_ping_is_answered_and_means_no_event() -> None:
    payload = fixture("ping__hook")
    arrival = receive("ping", payload)
    assert arrival.ignored == "pong"
    assert SOURCE.parse(delivery("ping", payload), arrival.parsed, {}) == Ignored("pong")
    with pytest.raises(SignatureInvalid):
        receive("ping", payload, x_hub_signature_256=sign(b"other"))


def test_gh_10_the_limit_is_what_github_sends_at_most() -> None:
    assert SOURCE.limit == 26_214_400


@pytest.mark.parametrize(
    "event",
    [
        "installation",
        "installation_repositories",
        "installation_target",
        "github_app_authorization",
        "marketplace_purchase",
        "meta",
        "membership",
        "organization",
        "security_advisory",
    ],
)
@pytest.mark.parametrize("memory", [True, False], ids=["from memory", "from the store"])
def test_gh_03_what_tells_of_no_repository_is_ignored_with_its_reason(event: str, memory: bool) -> None:
    payload = fixture("installation__created")
    arrival = receive(event, payload)
    assert arrival.ignored
    expected = Ignored(arrival.ignored)
    assert SOURCE.parse(delivery(event, payload), arrival.parsed if memory else None, {}) == expected


def test_an_organizations_event_that_names_a_repository_is_an_event() -> None:
    assert parsed("team", {**fixture("installation__created"), "repository": {"full_name": "a/b"}})


@pytest.mark.parametrize("key", ["installation", "repository", "sender", "comment", "issue", "organization", "action"])
@pytest.mark.parametrize("change", ["null", "absent", "a string", "a list"])
def test_gh_02_any_part_may_be_null_absent_or_of_another_type(key: str, change: str) -> None:
    whole = fixture("issue_comment__created")
    values: dict[str, Any] = {"null": None, "a string": "x", "a list": [1]}
    payload = without(whole, key) if change == "absent" else {**whole, key: values[change]}
    arrival = receive("issue_comment", payload)
    assert arrival.ignored is None
    properties = parsed("issue_comment", payload).properties
    assert properties["repository"] == (None if key == "repository" else "acme/widgets")
    assert properties["sender"] == (None if key == "sender" else "ada")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "character 0"),
        (b"[]", "a JSON object, got an array"),
        (b"null", "a JSON object, got null"),
        (b"true", "got a boolean"),
        (b"5", "got a number"),
        (b'"x"', "got a string"),
        (b'{"action":"opened","issue":{"title":"x', "character 36"),
        (b'{"action":"opened"', "line 1 column 19"),
        (b'{"action":}', "character 10"),
        (b'{"action":"a"} x', "Extra data"),
        (b'{"n":NaN}', "NaN"),
        (b'{"n":-Infinity}', "-Infinity"),
        (b'{"n":"a\x00b"}', "control character"),
        (b"\xff\xfe{\x00}\x00", "no JSON"),
    ],
    ids=repr,
)
def test_what_is_no_json_object_is_refused_and_told_where(body: bytes, words: str) -> None:
    error = refused("issues", body)
    assert words in error.message
    assert error.http_status == 400


@pytest.mark.parametrize("levels", [2, 5, 199, 200])
def test_gh_31_200_levels_are_taken(levels: int) -> None:
    assert parsed("issues", nested(levels)).properties["github_event"]


@pytest.mark.parametrize("levels", [201, 500, 2_000, 100_000])
def test_gh_31_deeper_nesting_is_refused_and_named(levels: int) -> None:
    assert "nests deeper than 200" in refused("issues", nested(levels)).message
    spoilt = nested(levels).replace(b'"opened"', b'"\\ud800"')
    assert "nests deeper than 200" in refused("issues", spoilt).message


def test_gh_31_brackets_in_text_are_no_nesting() -> None:
    text = "[" * 500 + '"' + "\\" + "{" * 500 + '\\"' + "]"
    issue = {**fixture("issues__opened")["issue"], "body": text}
    assert parsed("issues", fixture("issues__opened", issue=issue)).properties["body"] == text
    # and those in text that close do not hide those outside that open
    hidden = b'{"x":' + b'["]]",' * 300 + b"1" + b"]" * 300 + b"}"
    assert "nests deeper" in refused("issues", hidden).message


def test_gh_31_lone_surrogates_and_nul_become_replacement_characters() -> None:
    issue = fixture("issues__opened")["issue"]
    for text in ("a\ud800b\0", "a\udfffb\0", "ab\0\0"):
        payload = fixture("issues__opened", issue={**issue, "title": text, "body": text, "k\0ey": [{"x": text}]})
        body = json.dumps(payload).encode()
        event = parsed("issues", body)
        expected = text.translate(dict.fromkeys((0, 0xD800, 0xDFFF), "\ufffd"))
        assert event.properties["title"] == event.properties["body"] == expected
        inner: Any = event.properties["github_event"]
        assert inner["issue"]["title"] == expected
        assert inner["issue"]["k\ufffdey"] == [{"x": expected}]


def test_gh_31_names_and_keys_from_headers_are_storable_too() -> None:
    arrival = receive("iss\udcffues", fixture("issues__opened"), x_github_delivery="k\udce9")
    assert (arrival.name, arrival.key) == ("iss\ufffdues", "k\ufffd")


def test_bytes_that_are_no_utf_8_are_read_with_replacement_characters() -> None:
    body = b'{"action":"opened","issue":{"title":"caf\xe9","x":"\xff"},"other":"\xff"}'
    event = parsed("issues", body)
    assert event.properties["title"] == "caf\ufffd"
    inner: Any = event.properties["github_event"]
    assert inner["other"] == "\ufffd"
    skipped: Any = parsed("issues", b'{"action":"opened","other":"\xff"}').properties["github_event"]
    assert skipped == {"action": "opened", "other": "\ufffd"}


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5_000, "1e999", "-1e999", "1.5", "1e2"])
def test_numbers_of_any_size_are_taken(number: str) -> None:
    body = f'{{"issue":{{"number":{number},"title":"x"}},"n":{number},"repository":{{"id":{number}}}}}'.encode()
    event = parsed("issues", body)
    assert event.properties["title"] == "x"
    inner: Any = event.properties["github_event"]
    assert float(inner["n"]) == float(number)
    json.dumps(inner, allow_nan=False)


def test_a_doubled_key_counts_as_its_last_and_a_byte_order_mark_is_no_fault() -> None:
    assert parsed("push", b'{"ref":"a","ref":"b"}').properties["ref"] == "b"
    assert parsed("push", b'\xef\xbb\xbf{"ref":"b"}').properties["ref"] == "b"


def test_a_delivery_reads_the_same_from_memory_and_from_the_store() -> None:
    for path, event in (("issues__opened", "issues"), ("push__branch", "push")):
        payload = fixture(path)
        stored = delivery(event, payload)
        first = SOURCE.parse(stored, receive(event, payload).parsed, {"app_slug": "loops"})
        again = SOURCE.parse(stored, None, {"app_slug": "loops"})
        assert first == again
