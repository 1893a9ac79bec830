import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import StepFailed
from loops.event import JsonValue
from notify.compose import message_of
from notify.message import Address, EmailTarget, Message, SlackTarget

SLACK: dict[str, JsonValue] = {"slack_workspace": 7, "channel": "C0123456789", "text": "All is **well**"}
MAIL: dict[str, JsonValue] = {
    "from": {"integrationId": 8, "name": "", "email": None},
    "to": {"email": "ada@example.org", "name": "Ada"},
    "subject": "News",
    "text": "All is well",
    "html": "",
}


def slack(**changes):
    return message_of("slack", {**SLACK, **changes}, "run:notify")


def email(**changes):
    return message_of("email", {"email": {**MAIL, **changes}}, "run:notify")


def refusal(make, **changes):
    """The words and the hint of what makes no message."""
    with pytest.raises(StepFailed) as raised:
        make(**changes)
    assert raised.value.hint
    return raised.value.message


def test_a_slack_message_is_markdown_to_a_channel_of_a_connection_and_nothing_in_it_pings():
    assert slack() == Message(SlackTarget(7, "C0123456789"), "run:notify", "All is **well**", "markdown")


def test_an_email_is_plain_text_and_html_from_a_connection():
    target = EmailTarget(8, (Address("ada@example.org", "Ada"),))
    assert email() == Message(target, "run:notify", "All is well", "plain", subject="News")
    assert email(html="<p>All</p>").html == "<p>All</p>"


def test_an_email_has_copies_and_readers_of_answers_by_lists_of_addresses():
    made = email(cc='"Bo, the second" <bo@example.org>, cy@example.org', bcc="di@example.org", replyTo="", html="x")
    assert isinstance(made.target, EmailTarget)
    assert made.target.cc == (Address("bo@example.org", "Bo, the second"), Address("cy@example.org"))
    assert (made.target.bcc, made.target.reply_to) == ((Address("di@example.org"),), ())
    assert made.target.addressee == "ada@example.org, cc bo@example.org, cc cy@example.org, bcc di@example.org"
    assert Message.from_json(made.as_json()) == made


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("bo", "cc came to 'bo' is no email address"),
        ("bo@example.org\nBcc: x@example.org", "more than one line"),
        ("bo@example.org\u2028x@example.org", "more than one line"),
        ({"email": "bo@example.org"}, "a domain with marks that no domain has"),
        (",".join(f"a{n}@example.org" for n in range(51)), "51 addresses"),
        ("a" * 30_000, "30,000 characters"),
    ],
)
def test_a_list_that_rendered_to_no_addresses_fails_the_step(given, words):
    assert words in refusal(email, cc=given)


HIDDEN = '<div style="display:none;max-height:0;overflow:hidden">a &amp; &lt;b&gt;</div>'


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<p>x</p>", f"{HIDDEN}<p>x</p>"),
        ("<html><BODY class='y'><p>x</p>", f"<html><BODY class='y'>{HIDDEN}<p>x</p>"),
        ("", ""),
    ],
)
def test_a_preheader_stands_unseen_before_the_html(html, made):
    assert email(html=html, preheader=" a & <b> ").html == made


@pytest.mark.parametrize(
    ("given", "number"), [(7, 7), ("7", 7), (None, None), ("seven", None), (True, None), (0, None)]
)
def test_the_id_of_a_connection_is_a_number_or_its_text(given, number):
    assert slack(slack_workspace=given).target.connection_id == number
    assert email(**{"from": {"integrationId": given}}).target.connection_id == number


@pytest.mark.parametrize(
    ("given", "channel"),
    [
        ("C0123456789|#general", "C0123456789"),
        (" C1 ", "C1"),
        ("#général", "#général"),
        ("U0123456789", "U0123456789"),
    ],
)
def test_sl_32_a_channel_is_the_id_of_what_a_picker_stores(given, channel):
    assert slack(channel=given).target.channel == channel


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "channel came to nothing"),
        ("", "channel came to nothing"),
        ("|#general", "channel came to nothing"),
        ("a b", "'a b', which names no channel"),
        ("C1\nC2", "names no channel"),
        ("C" * 200, "names no channel"),
        (12, "'12', which is no text"),
        ({"id": "C1"}, "which is no text"),
    ],
)
def test_a_channel_that_rendered_to_none_fails_the_step(given, words):
    assert words in refusal(slack, channel=given)


@pytest.mark.parametrize(("given", "text"), [(5, "5"), (True, "true"), (["a"], "['a']"), ({"k": 1}, "{'k': 1}")])
def test_a_text_of_another_type_is_shown_as_text(given, text):
    assert slack(text=given).text == text


@pytest.mark.parametrize("text", [None, "", " \n\t"])
@pytest.mark.parametrize("blocks", [None, "", " ", [], {"blocks": []}])
def test_a_slack_message_without_text_and_blocks_fails_the_step(text, blocks):
    assert "would be empty" in refusal(slack, text=text, blocks=blocks)


DIVIDER = {"type": "divider"}


@pytest.mark.parametrize(
    "given", [[DIVIDER], {"blocks": [DIVIDER]}, json.dumps([DIVIDER]), json.dumps({"blocks": [DIVIDER]})]
)
def test_blocks_are_a_list_or_what_the_block_kit_builder_gives_also_as_text(given):
    message = slack(text=None, blocks=given)
    assert (message.blocks, message.text) == ((DIVIDER,), "")


def deep(levels):
    value: JsonValue = "x"
    for _level in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("hello", "a text that is not JSON"),
        ("[" * 100_000, "a text that is not JSON"),
        (5, "'5', which is no list"),
        ('"text"', "which is no list"),
        ({"type": "divider"}, "which is no list"),
        ([DIVIDER, "x"], "blocks[1] is no block"),
        ([{"text": "x"}], "blocks[0] is no block"),
        ([{"type": "section", "fields": deep(60)}], "nested too deep"),
    ],
)
def test_blocks_that_are_none_fail_the_step(given, words):
    assert words in refusal(slack, blocks=given)


@pytest.mark.parametrize(
    ("given", "thread"), [(None, ""), ("", ""), ("1751800000.000100", "1751800000.000100"), (" 1.2 ", "1.2")]
)
def test_a_thread_is_answered_in_where_there_is_one(given, thread):
    assert slack(thread_ts=given).target.thread == thread


@pytest.mark.parametrize("given", [1751800000.0001, "yesterday", "1751800000", "\uff11.\uff12", ["1.2"], True])
def test_a_thread_that_is_no_ts_fails_the_step_instead_of_posting_to_the_channel(given):
    assert "no ts of a message" in refusal(slack, thread_ts=given)


def test_a_name_and_an_icon_stay_one_line():
    target = slack(username="Loops\r\nand more", icon_emoji=":hedgehog:").target
    assert (target.username, target.icon_emoji) == ("Loops  and more", ":hedgehog:")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "to.email came to nothing"),
        (None, "to.email came to nothing"),
        ("ada", "'ada' is no email address"),
        ("ada@example.org, bob@example.org", "is no email address"),
        ("ada@example.org\nBcc: bob@example.org", "is no email address"),
        ("Ada <ada@example.org>", "is no email address"),
        ("{{ x }}@example.org", "is no email address"),
    ],
)
def test_an_address_that_rendered_to_none_fails_the_step(given, words):
    assert words in refusal(email, to={"email": given, "name": ""})


def test_an_email_may_show_another_sender():
    assert email(**{"from": {"integrationId": 8, "name": "Triage"}}).target.sender == Address("", "Triage")
    own = {"integrationId": 8, "name": "", "email": "triage@example.org"}
    assert email(**{"from": own}).target.sender == Address("triage@example.org")
    assert "from.email came to" in refusal(email, **{"from": {"integrationId": 8, "email": "triage"}})


@pytest.mark.parametrize("text", [None, "", " \n"])
@pytest.mark.parametrize("html", [None, "", "\n"])
def test_an_email_without_text_and_html_fails_the_step(text, html):
    assert "would be empty" in refusal(email, text=text, html=html)


@pytest.mark.parametrize("html", ["", "\n ", None])
def test_html_that_says_nothing_is_no_part_of_the_email(html):
    assert email(html=html).html == ""


@pytest.mark.parametrize("subject", ["Hi\r\nBcc: x@y", "Hi\n", "=?utf-8?q?a=0Ab?=", "a\u2028b", "a\0b"])
def test_a_subject_is_one_line_before_it_is_stored(subject):
    assert len(f"{email(subject=subject).subject}.".splitlines()) == 1
    assert "\0" not in email(subject=subject).subject


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SLACK_INPUTS = st.dictionaries(st.sampled_from([*SLACK, "blocks", "thread_ts", "username", "icon_emoji"]), JSON)
MAIL_PARTS = st.dictionaries(st.sampled_from([*MAIL]), JSON | st.dictionaries(st.sampled_from(["email", "name"]), JSON))


@given(
    SLACK_INPUTS.map(lambda inputs: ("slack", {**SLACK, **inputs}))
    | MAIL_PARTS.map(lambda parts: ("email", {"email": {**MAIL, **parts}}))
)
def test_whatever_templates_render_to_makes_a_message_or_a_failure_with_its_mend(asked):
    kind, inputs = asked
    try:
        message = message_of(kind, inputs, "key")
    except StepFailed as failed:
        told = (failed.message, failed.hint)
    else:
        assert Message.from_json(json.loads(json.dumps(message.as_json()))) == message
        told = ("made", "")
    assert told == ("made", "") or all(told)


@pytest.mark.parametrize("made", [
    lambda: slack(text="é" * 500_001),
    lambda: slack(blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 1_000_000}}]),
    lambda: slack(text="x" * 600_000, blocks=[{"type": "section", "text": "x" * 400_000}]),
    lambda: email(text="x" * 600_000, html="x" * 400_001),
])  # fmt: skip
def test_a_message_that_is_too_large_fails_the_step(made):
    assert "bytes: it may hold 1,000,000" in refusal(made)


def test_blocks_in_a_text_that_is_too_large_fail_the_step():
    assert "a text of 1,000,001 characters" in refusal(slack, blocks="[" * 1_000_001)


def test_a_message_as_large_as_may_be_is_made():
    assert len(slack(text="x" * 1_000_000).text) == 1_000_000


@pytest.mark.parametrize("given", ["a" * 100_000, "=?" * 50_000, "=?utf-8?q?a?= " * 10_000, "é x" * 40_000])
def test_a_subject_and_names_are_cut_with_an_ellipsis(given):
    made = email(subject=given, to={"email": "ada@example.org", "name": given}, **{"from": {"name": given}})
    names = [made.target.to[0].name, made.target.sender.name, slack(username=given).target.username]
    assert made.subject[-1] == "…"
    assert len(made.subject) <= 2000  # a space parts what only looks encoded
    assert all(name[-1] == "…" and len(name) <= 400 for name in names)


def test_a_subject_as_long_as_may_be_stays():
    assert email(subject="a" * 1000).subject == "a" * 1000


@pytest.mark.parametrize("subject", ["=?é?q?a?= broken", "=?\ufffd?b?YQ==?="])
def test_a_subject_that_only_looks_encoded_makes_a_message(subject):
    assert email(subject=subject).subject == subject.replace("=?", "= ?")


def test_marks_of_direction_are_no_part_of_a_subject_or_a_name():
    made = email(subject="in\u202evoice", to={"email": "ada@example.org", "name": "A\u2066da"})
    assert (made.subject, made.target.to[0].name) == ("invoice", "Ada")


@pytest.mark.parametrize("given", ["9" * 25, "9" * 5000])
def test_a_number_that_no_connection_can_have_is_still_one(given):
    assert slack(slack_workspace=given).target.connection_id > 2**64


def test_an_address_with_full_width_marks_fails_the_step():
    words = refusal(email, to={"email": "ada@example.org\uff0ceve\uff20evil.example", "name": ""})
    assert "a domain with marks that no domain has" in words
