from datetime import UTC, datetime
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import NotFound, RequestError
from server.pages.addresses import (
    delivery_cursor,
    local_path,
    moment_cursor_text,
    one_of,
    path_of,
    run_cursor,
    wanted_id,
)

HERE = "https://loops.example.org/sign-in"
ODD = st.text(st.sampled_from("/\\.:@?#%&=\t\n\r \x00aeilv0-9\u202eä")) | st.text()


@pytest.mark.parametrize("path", ["/runs", "/runs/1?status=failed&before=1.a", "/deliveries/a%2Fb", "/deliveries/ä"])
def test_a_path_of_this_service_is_kept(path: str) -> None:
    assert urlsplit(local_path(path)).path == urlsplit(path).path.replace("ä", "%C3%A4")


@pytest.mark.parametrize(
    "path",
    [
        None,
        "",
        "runs",
        "https://evil.example/",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "javascript:alert(1)",
        "/runs\r\nSet-Cookie: a=b",
        "/sign-in?next=/runs",
        "/" + "a" * 3000,
    ],
)
def test_what_may_lead_elsewhere_becomes_the_first_page(path: str | None) -> None:
    assert local_path(path) == "/deliveries"


@given(ODD)
def test_no_text_leads_to_another_host(text: str) -> None:
    for candidate in (text, f"/{text}", f"//{text}"):
        led = urljoin(HERE, local_path(candidate))
        assert urlsplit(led)[:2] == ("https", "loops.example.org")
        assert led.isascii()
        assert led.isprintable()


@given(st.text(min_size=1), st.text())
def test_whatever_stands_in_a_path_or_query_is_quoted(segment: str, value: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in segment + value):
        return
    parts = urlsplit(path_of("runs", segment, status=value, before=None))
    assert parts.path.count("/") == 2
    assert parts.query.startswith("status=")
    assert "&" not in parts.query
    assert not parts.fragment


def test_a_place_in_the_list_of_runs_is_read_back_exactly() -> None:
    at = datetime(2026, 7, 6, 12, 30, 15, 123457, tzinfo=UTC)
    assert run_cursor(moment_cursor_text(at, "18d7ec9b-c305-415a-975c-e30bb6b55493")) == (
        at,
        "18d7ec9b-c305-415a-975c-e30bb6b55493",
    )
    assert run_cursor(None) is None


@pytest.mark.parametrize("text", ["x", "1", ".a", "1.", "1.a b", "99999999999999999999.a", "-1.a", "\u0661.a"])
def test_what_is_no_place_in_the_list_of_runs_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        run_cursor(text)


@pytest.mark.parametrize("text", ["A", "a b", "a" * 41, "'", "\x00"])
def test_what_is_no_place_in_the_list_of_deliveries_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        delivery_cursor(text)


@pytest.mark.parametrize("text", ["a\x00b", "a\nb", "x" * 301, "\ud800"])
def test_what_can_be_the_id_of_nothing_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        wanted_id(text, "run")


def test_a_word_of_no_closed_set_is_refused_with_the_set() -> None:
    assert one_of("failed", ("failed", "done"), "status") == "failed"
    assert one_of("", ("failed",), "status") is None
    with pytest.raises(RequestError) as refused:
        one_of("lost", ("failed", "done"), "status")
    assert refused.value.hint == "one of failed, done"
