"""Slack's signature over raw bytes, and its window of five minutes: SL-20, SL-21, UI-03."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import SignatureInvalid
from tests.unit.triggers.slack.deliveries import (
    NOW,
    REAL,
    SECRET,
    SECRETS,
    SOURCE,
    fixture,
    form,
    incoming,
    interaction,
    receive,
    sign,
)
from triggers.slack.signature import verify

BODY = b'{"type": "event_callback"}'


def refused(payload: Any, **headers: str | None) -> SignatureInvalid:
    with pytest.raises(SignatureInvalid) as caught:
        receive(payload, **headers)
    assert caught.value.message
    assert caught.value.hint
    return caught.value


def signed_at(seconds: int) -> dict[str, str | None]:
    body = fixture("message__plain")
    return {
        "x_slack_request_timestamp": str(seconds),
        "x_slack_signature": sign(incoming(body).body, str(seconds)),
    }


@pytest.mark.parametrize("minutes", [-4, 0, 4])
def test_sl_20_a_request_signed_within_five_minutes_is_taken(minutes: int) -> None:
    assert receive(fixture("message__plain"), **signed_at(NOW + 60 * minutes)).key == "Ev0000000001"


@pytest.mark.parametrize(("minutes", "way"), [(-6, "360 s behind"), (6, "360 s ahead of")])
def test_sl_20_a_request_signed_longer_ago_or_later_is_401_and_speaks_of_the_clock(minutes: int, way: str) -> None:
    error = refused(fixture("message__plain"), **signed_at(NOW + 60 * minutes))
    assert error.http_status == 401
    assert "clock" in error.message
    assert way in error.message
    assert "clock" in error.hint


@pytest.mark.parametrize(("apart", "taken"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_the_window_is_300_seconds_either_way(apart: int, taken: bool) -> None:
    headers = signed_at(NOW + apart)
    if taken:
        receive(fixture("message__plain"), **headers)
    else:
        refused(fixture("message__plain"), **headers)


@pytest.mark.parametrize(
    "timestamp",
    [
        None,
        "",
        "abc",
        "1e9",
        "\uff11\uff12\uff13",
        "٣",
        "²",
        "-1",
        "+1793610005",
        " 1793610005",
        "1793610005.0",
        "9" * 5000,
        "\udce9",
        "é",
    ],
    ids=repr,
)
def test_sl_21_a_timestamp_that_is_no_number_is_401(timestamp: str | None) -> None:
    error = refused(fixture("message__plain"), x_slack_request_timestamp=timestamp)
    assert error.http_status == 401
    assert "Timestamp" in error.message


@pytest.mark.parametrize(
    "signature", [None, "", "v0=", "v0=ü", "v1=" + "0" * 64, "é\udce9", "V0=" + "0" * 64, "v0=" + "0" * 64], ids=repr
)
def test_sl_21_a_signature_that_is_missing_or_malformed_is_401(signature: str | None) -> None:
    assert refused(fixture("message__plain"), x_slack_signature=signature).http_status == 401


def test_the_hex_digits_may_be_in_either_case_and_the_version_may_not() -> None:
    signature = sign(BODY)
    verify("v0=" + signature[3:].upper(), str(NOW), BODY, SECRET, NOW)
    with pytest.raises(SignatureInvalid):
        verify("V0=" + signature[3:], str(NOW), BODY, SECRET, NOW)


def test_the_signature_is_over_the_timestamp_too() -> None:
    refused(fixture("message__plain"), x_slack_request_timestamp=str(NOW - 1))


def test_without_a_signing_secret_nothing_is_verified() -> None:
    with pytest.raises(SignatureInvalid, match="no signing secret"):
        SOURCE.receive(incoming(BODY), {"bot_token": "xoxb-1"})
    with pytest.raises(SignatureInvalid):
        SOURCE.receive(incoming(BODY, x_slack_signature=sign(BODY, secret="")), {"signing_secret": ""})


def test_the_signature_comes_before_the_body_is_read() -> None:
    for body in (b"{", b"[]", b"\xff", b"payload=%7B", BODY):
        with pytest.raises(SignatureInvalid):
            SOURCE.receive(incoming(body, x_slack_signature="v0=" + "0" * 64), SECRETS)


def test_ui_03_commands_and_interactions_without_a_signature_are_401() -> None:
    for body in (
        form("slash_command__plain"),
        form("slash_command__plain") + b"&ssl_check=1",
        interaction(fixture("block_actions__button")),
        interaction(fixture("block_actions__button")) + b"&ssl_check=1",
    ):
        assert refused(body, x_slack_signature=None).http_status == 401


def test_a_check_of_the_certificate_needs_no_signature_and_is_not_stored() -> None:
    arrival = receive(form("ssl_check__plain"), x_slack_signature=None, x_slack_request_timestamp=None)
    assert not arrival.kept
    assert not arrival.verified
    assert arrival.ignored == "Slack checked this address's certificate"
    refused(b"ssl_check=1&token=x", content_type="text/plain", x_slack_signature=None)


@pytest.mark.skipif(not REAL.exists(), reason="the collection of real payloads is not on this machine")
def test_slacks_own_example_verifies() -> None:
    (path,) = REAL.glob("slash_command__webhook-collect__pysdk_*.form")
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    verify(signature, "1531420618", path.read_bytes(), SECRET, 1531420618)
    with pytest.raises(SignatureInvalid):
        verify(signature, "1531420618", path.read_bytes() + b"&", SECRET, 1531420618)


@given(
    st.text(st.characters(exclude_categories=()), max_size=80),
    st.text(st.characters(exclude_categories=()), max_size=20),
)
def test_any_headers_are_a_refusal_and_nothing_else(signature: str, timestamp: str) -> None:
    with pytest.raises(SignatureInvalid):
        verify(signature, timestamp, BODY, SECRET, NOW)
