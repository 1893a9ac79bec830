"""What a request means, by the templates of its workflow (posthog-facts §2, webhook trigger)."""

from typing import Any

import pytest

from loops.errors import MethodNotTaken, PayloadMalformed, PayloadTooLarge
from tests.unit.triggers.webhook.requests import SOURCE, arrive, event, parsed, request, settings, stored
from triggers.source import Ignored

ORDER = {"event": "order_paid", "distinct_id": "ada", "total": 12.5}


def test_templates_name_the_event_and_whom_it_is_about() -> None:
    found = event(request(ORDER))
    assert (found.name, found.distinct_id, found.source) == ("order_paid", "ada", "webhook")
    assert found.properties == ORDER


def test_a_name_may_be_put_together_from_all_parts_of_a_request() -> None:
    incoming = request({"kind": "push"}, query="who=ada", headers={"x-source": "shop"})
    found = event(
        incoming, event="{request.headers['x-source']}_{request.body.kind}", distinct_id="{request.query.who}"
    )
    assert (found.name, found.distinct_id) == ("shop_push", "ada")


def test_a_liquid_template_works_as_well() -> None:
    trigger = settings()
    trigger["trigger"]["inputs"]["event"] = {"value": "{{ request.body.event | upcase }}", "templating": "liquid"}
    arrival = SOURCE.understood(SOURCE.receive(request(ORDER), {}), trigger)
    assert arrival.name == "ORDER_PAID"


def test_query_parameters_are_properties_and_the_body_comes_before_them() -> None:
    found = event(request(ORDER, query="total=1&a=b&a=c&empty="))
    assert found.properties == {**ORDER, "a": ["b", "c"], "empty": ""}


def test_the_properties_of_the_trigger_take_the_place_of_the_bodys() -> None:
    found = event(request(ORDER, query="a=b"), properties={"sum": "{request.body.total}", "fixed": 1})
    assert found.properties == {"a": "b", "sum": 12.5, "fixed": 1}


@pytest.mark.parametrize("body", [[1, {"a": 2}], "some text", 5, True])
def test_a_body_that_is_no_object_is_the_property_body(body: Any) -> None:
    found = event(request(body), event="fixed", distinct_id="somebody")
    assert found.properties == {"body": body}


def test_a_request_without_a_body_is_an_event_of_its_query() -> None:
    incoming = request(query="name=ping&who=7", method="GET")
    found = event(incoming, event="{request.query.name}", distinct_id="{request.query.who}", method="GET")
    assert (found.name, found.distinct_id, found.properties) == ("ping", "7", {"name": "ping", "who": "7"})


def test_a_form_is_read_as_an_object() -> None:
    incoming = request(
        raw=b"event=order+paid&distinct_id=%C3%A4da&x=1&x=2", content_type="application/x-www-form-urlencoded"
    )
    assert event(incoming).properties == {"event": "order paid", "distinct_id": "äda", "x": ["1", "2"]}


@pytest.mark.parametrize(
    ("raw", "content_type", "body"),
    [
        (b"plain words", "text/plain", "plain words"),
        (b'{"a": 1}', "text/plain", {"a": 1}),
        (b"{broken", "text/plain", "{broken"),
        (b"<a>1</a>", "application/xml", "<a>1</a>"),
        (b'\xef\xbb\xbf{"a": 1}', "", {"a": 1}),
        (b"[1]", "application/octet-stream", [1]),
        (b'{"a": 1}', "application/vnd.shop+json; charset=utf-8", {"a": 1}),
        (b"a\x00\xff", "text/plain", "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_body_is_what_its_content_type_says_or_what_it_looks_like(raw: bytes, content_type: str, body: Any) -> None:
    incoming = request(raw=raw, content_type=content_type)
    found = event(incoming, event="fixed", distinct_id="somebody", properties={"seen": "{request.body}"})
    assert found.properties == {"seen": body}


@pytest.mark.parametrize("name", ["event", "distinct_id"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "is empty"),
        ("", "is empty"),
        (" ", "is empty"),
        ({"a": 1}, "must be text, got an object"),
        ([1], "must be text, got a list"),
        (True, "must be text, got a boolean"),
        ("x" * 401, "is longer than 400 characters"),
    ],
)
def test_a_request_that_names_no_event_is_refused_by_the_name_of_the_input(name: str, value: Any, words: str) -> None:
    with pytest.raises(PayloadMalformed) as caught:
        arrive(request({**ORDER, name: value}))
    assert caught.value.message == f"{name} {words}"
    assert name in caught.value.hint


def test_a_number_names_an_event_as_text() -> None:
    assert event(request({**ORDER, "distinct_id": 17})).distinct_id == "17"


@pytest.mark.parametrize("properties", ["{request.body.total}", "{request.body.event}", ["{request.body.event}"]])
def test_properties_that_are_no_object_are_refused(properties: Any) -> None:
    with pytest.raises(PayloadMalformed, match="properties must be an object"):
        arrive(request(ORDER), properties=properties)


def test_a_template_that_fails_for_a_request_is_a_refusal_that_says_where() -> None:
    with pytest.raises(PayloadMalformed, match=r"trigger\.config\.inputs\.event"):
        arrive(request(ORDER), event="{upper(request.body.missing)}")


@pytest.mark.parametrize("name", ["$github_event_received", "$slack_message_received", "$scheduled", "$workflow_x"])
def test_an_event_that_only_loops_makes_is_known_and_ignored(name: str) -> None:
    found = parsed(request({**ORDER, "event": name}))
    assert isinstance(found, Ignored)
    assert name in found.reason


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "BREW"])
def test_another_method_than_the_triggers_is_not_taken(method: str) -> None:
    with pytest.raises(MethodNotTaken) as caught:
        arrive(request(ORDER, method=method))
    assert (caught.value.http_status, caught.value.allowed) == (405, "POST")


def test_debug_tells_the_sender_what_its_request_came_to() -> None:
    assert dict(arrive(request(ORDER), debug=True).told) == {"event": "order_paid", "distinct_id": "ada"}
    assert dict(arrive(request(ORDER)).told) == {}


@pytest.mark.parametrize("header", ["Idempotency-Key", "webhook-id", "svix-id", "x-github-delivery"])
def test_a_senders_own_id_tells_a_repetition(header: str) -> None:
    assert arrive(request(ORDER, headers={header.lower(): "k1"})).key == "k1"


def test_without_an_id_two_requests_are_two() -> None:
    assert arrive(request(ORDER)).key != arrive(request(ORDER)).key


def test_an_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(PayloadMalformed, match="idempotency-key"):
        arrive(request(ORDER, headers={"idempotency-key": "k" * 201}))


def test_only_harmless_headers_and_those_that_templates_read_are_kept() -> None:
    sent = {
        "user-agent": "shop/1",
        "x-topic": "orders",
        "x-other": "1",
        "authorization": "Bearer s3cr3t-value",
        "x-shop-token": "s3cr3t-value",
        "cookie": "s3cr3t-value",
    }
    arrival = arrive(
        request(ORDER, query="a=b", headers=sent),
        distinct_id="{request.headers['x-topic']}",
        properties={"token": "{request.headers['x-shop-token']}", "auth": "{request.headers.authorization}"},
    )
    assert arrival.headers == {
        ":method": "POST",
        ":query": "a=b",
        "content-type": "application/json",
        "user-agent": "shop/1",
        "x-topic": "orders",
    }
    assert "s3cr3t" not in repr(arrival)


def test_a_header_cannot_pose_as_the_method_or_the_query() -> None:
    incoming = request(ORDER, headers={":method": "GET", ":query": "a=b"})
    assert event(incoming).properties == ORDER


def test_a_trigger_that_changed_so_that_it_names_no_event_ignores_what_was_taken() -> None:
    arrival = arrive(request(ORDER))
    found = SOURCE.parse(stored(arrival, b"{}"), None, settings())
    assert found == Ignored("event is empty")
    assert isinstance(SOURCE.parse(stored(arrival, b"{}"), None, {}), Ignored)


@pytest.mark.parametrize(
    ("incoming", "words"),
    [
        (request(raw=b"--x", content_type="multipart/form-data; boundary=x"), "multipart"),
        (request(raw=b"{", content_type=""), "no JSON"),
        (
            request(raw=b"&".join([b"a=1"] * 1001), content_type="application/x-www-form-urlencoded"),
            "the form has more",
        ),
        (request(ORDER, query="&".join(["a=1"] * 1001)), "the query has more"),
        (request(raw=b"[" * 300 + b"]" * 300), "nests deeper"),
    ],
    ids=["multipart", "json", "form", "query", "nested"],
)
def test_what_cannot_be_read_is_refused_with_its_reason(incoming: Any, words: str) -> None:
    with pytest.raises((PayloadMalformed, PayloadTooLarge), match=words):
        arrive(incoming)
