from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import NotAllowed, RequestError
from server.auth import (
    ROLES,
    Principal,
    Role,
    bearer_token,
    digest,
    new_token,
    parse_role,
    read_session,
    require,
    same_origin,
    session_value,
)

KEY = b"k" * 32
NOW = datetime(2026, 7, 6, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
PUBLIC = "https://loops.example.org"
HOST = "loops.example.org"


def principal(role: Role) -> Principal:
    return Principal(token_id="t1", project_id="default", role=role, name="deploy")


def test_a_new_token_is_long_and_only_its_digest_is_kept() -> None:
    token, stored = new_token()
    assert token.startswith("loops_")
    assert len(token) == 6 + 43
    assert stored == digest(token)
    assert len(stored) == 64
    assert token[6:] not in stored
    assert new_token()[0] != token


@given(st.text())
def test_any_text_has_a_digest(text: str) -> None:
    assert len(digest(text)) == 64


def test_a_bearer_token_is_read_from_its_header() -> None:
    token, _ = new_token()
    assert bearer_token(f"Bearer {token}") == token
    assert bearer_token(f"bearer  {token} ") == token


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer x", "Basic loops_" + "a" * 43, "loops_" + "a" * 43, "Bearer loops_" + "ä" * 43],
)
def test_what_cannot_be_a_token_of_ours_is_none(header: str | None) -> None:
    assert bearer_token(header) is None


@pytest.mark.parametrize("needed", ROLES)
@pytest.mark.parametrize("held", ROLES)
def test_a_role_may_do_what_the_lesser_ones_may(held: Role, needed: Role) -> None:
    if ROLES.index(held) >= ROLES.index(needed):
        require(principal(held), needed)
    else:
        with pytest.raises(NotAllowed) as caught:
            require(principal(held), needed)
        assert needed in caught.value.hint
        assert caught.value.http_status == 403


def test_the_order_of_roles_is_viewer_editor_admin() -> None:
    assert ROLES == ("viewer", "editor", "admin")


def test_an_unknown_role_is_refused_by_name() -> None:
    assert parse_role("editor") == "editor"
    with pytest.raises(RequestError, match="'root' is not a role") as caught:
        parse_role("root")
    assert "viewer, editor, admin" in caught.value.hint


@given(st.text(max_size=40))
def test_a_session_names_its_token_until_it_expires(token_id: str) -> None:
    value = session_value(KEY, token_id, LATER)
    assert read_session(KEY, value, NOW) == token_id
    assert read_session(KEY, value, LATER - timedelta(seconds=1)) == token_id
    assert read_session(KEY, value, LATER) is None


def test_a_session_fits_into_a_cookie_without_quotes() -> None:
    value = session_value(KEY, "tok 1;é", LATER)
    assert all(char.isalnum() or char in "-_." for char in value)


def test_a_session_of_another_key_is_none() -> None:
    assert read_session(b"o" * 32, session_value(KEY, "t1", LATER), NOW) is None


def test_a_session_that_was_altered_in_any_place_is_none() -> None:
    value = session_value(KEY, "t1", LATER)
    for place, old in enumerate(value):
        for new in ("A", "B", "."):
            if new != old:
                assert read_session(KEY, value[:place] + new + value[place + 1 :], NOW) is None
        assert read_session(KEY, value[:place] + value[place + 1 :], NOW) is None
    assert read_session(KEY, value + "=", NOW) is None


@given(st.text())
def test_any_other_text_is_no_session(value: str) -> None:
    assert read_session(KEY, value, NOW) is None
    assert read_session(KEY, f"{value}.{value}", NOW) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site", "Origin": PUBLIC}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": PUBLIC}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"Origin": PUBLIC}, True),
        ({"Origin": "https://LOOPS.example.org"}, True),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "https://loops.example.org.evil.example"}, False),
        ({"Origin": "https://loops.example.org:444"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "https://[broken"}, False),
        ({}, False),
    ],
)
def test_a_form_is_taken_only_from_a_page_of_ours(headers: dict[str, str], expected: bool) -> None:
    assert same_origin(headers, PUBLIC, HOST) is expected


def test_a_form_over_an_address_that_is_not_the_public_one_is_taken_by_its_host() -> None:
    assert same_origin({"Origin": "http://10.0.0.5:8765"}, "http://127.0.0.1:8765", "10.0.0.5:8765")
    assert not same_origin({"Origin": "http://10.0.0.6:8765"}, "http://127.0.0.1:8765", "10.0.0.5:8765")


@pytest.mark.parametrize("origin", ["", "data:", "file://", "x"])
def test_an_origin_without_a_host_never_fits_a_missing_host_header(origin: str) -> None:
    assert not same_origin({"Origin": origin}, PUBLIC, "")
