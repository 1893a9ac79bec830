import re
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from notify.message import Address, EmailTarget, Message
from notify.mime import LONGEST_LINE, compose, one_line, wire_address

NOW = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
ADA = Address("ada@example.org", "Ada")
LOOPS = Address("loops@example.org", "Loops")
HEADERS = {"From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "MIME-Version"} | {
    "Content-Transfer-Encoding"
}


def content(sender: Address = LOOPS, to: tuple[Address, ...] = (ADA,), **parts: str) -> bytes:
    message = Message(EmailTarget(1, to), "key", **{"text": "text", "subject": "News", **parts})  # type: ignore[arg-type]
    return compose(message, "0a1b", NOW, sender, to).content


def read(raw: bytes) -> EmailMessage:
    mail = message_from_bytes(raw, policy=default)
    assert isinstance(mail, EmailMessage)
    assert mail.defects == []
    return mail


@pytest.mark.parametrize(
    "subject",
    [
        "Hi\r\nBcc: x@y",
        "Hi\n",
        "=?utf-8?q?a=0Ab?=",
        "=?UTF-8?Q?=0ABcc:_x@y?=",
        "a\u2028Bcc: x@y",
        "a\x00b",
        "a\rb\x0bc",
        "=?utf-8?q?=3D=3Futf-8=3Fq=3F=0ABcc=3A_x=3F=3D?=",
        "=?x?q?y?=",
        "=?utf-8?b?!!?=",
    ],
)
def test_em_01_nothing_written_into_a_subject_makes_another_header(subject: str):
    for mail in (read(content(subject=subject)), read(content(Address("a@b.org", subject))), read(
        content(to=(Address("a@b.org", subject),))
    )):  # fmt: skip
        assert set(mail.keys()) <= HEADERS
        assert len(mail.keys()) == len(set(mail.keys()))
        again = read(f"Subject: {mail['Subject']}\r\n\r\n".encode("utf-8", "replace"))
        assert again.keys() == ["Subject"]
        assert len(f"{mail['Subject']}.".splitlines()) == 1


@pytest.mark.parametrize(
    "subject", ['Отчёт 🎉 " , é', "plain", "a" * 300, "é" * 300, "two  spaces é  here", "", "a, b; c"]
)
def test_em_03_a_subject_decodes_to_what_was_written(subject: str):
    assert read(content(subject=subject))["Subject"] == subject


@given(st.text(max_size=200))
def test_any_subject_is_one_header_of_short_ascii_lines(subject: str):
    raw = content(subject=subject)
    head = raw.partition(b"\r\n\r\n")[0]
    assert head.isascii()
    assert all(len(line) <= 78 for line in head.split(b"\r\n"))
    assert {line.partition(b":")[0].decode() for line in head.split(b"\r\n") if line[:1] not in b" \t"} <= HEADERS


@given(st.text(max_size=100))
def test_a_line_stays_as_it_is_when_it_is_one_already(text: str):
    assert one_line(one_line(text)) == one_line(text)
    assert len(f"{one_line(text)}.".splitlines()) == 1


@pytest.mark.parametrize("name", ['Ada "the first"', "Löwe, Ada", "Ada " * 40, "", "ада"])
def test_a_name_decodes_to_what_was_written(name: str):
    mail = read(content(to=(Address("ada@example.org", name), Address("bob@example.org"))))
    # Python's reader doubles a space between encoded words of a name, which others join.
    assert [(" ".join(one.display_name.split()), one.addr_spec) for one in mail["To"].addresses] == [
        (name.strip(), "ada@example.org"), ("", "bob@example.org"),
    ]  # fmt: skip


def test_em_08_the_same_message_is_the_same_mail_whenever_it_is_made():
    mail = read(content())
    assert mail["Message-ID"] == "<loops.0a1b@example.org>"
    assert mail["Date"].datetime == NOW
    assert content() == content()


def test_em_07_an_empty_html_is_plain_text_alone():
    mail = read(content(text="only text", html=""))
    assert mail.get_content_type() == "text/plain"
    assert not mail.is_multipart()
    assert mail.get_content() == "only text\r\n"


def test_em_07_text_and_html_are_alternatives():
    mail = read(content(text="plain", html="<p>rich</p>"))
    assert mail.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]


def test_html_alone_is_html():
    assert read(content(text="", html="<p>rich</p>")).get_content_type() == "text/html"


@pytest.mark.parametrize(
    "text", ["x" * 5000, ".\n..\n.x", "ü" * 5000, "From me\n", "tab\t \ntrailing  ", "日本\n" * 500]
)
def test_a_body_decodes_to_what_was_written_and_has_no_long_line(text: str):
    raw = content(text=text)
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert raw.isascii()
    assert read(raw).get_content().replace("\r\n", "\n").rstrip("\n") == text.rstrip("\n")


def test_values_in_the_text_are_as_they_were_and_nothing_is_escaped_here():
    text = 'a & "b" <c> <img src=x onerror=1>'
    assert read(content(text=text)).get_content().strip() == text


@pytest.mark.parametrize(
    "address",
    [
        "ada",
        "ada@",
        "@b",
        "a@b\r\nBcc: x",
        "a b@c.org",
        "a@b,c@d",
        "ü@b.org",
        "<a@b>",
        "a@ü..de",
        "ada@example.org\uff0ceve\uff20evil.example",
        "a@b.org\uff1e",
        "a@\uff1cb.org",
        "a@b.org\uff1bc",
        "a@b\u3000c.org",
        "ada\uff20example.org",
        "a@b\u2028.org",
        "a@b.org\uff08c\uff09",
        "a@b\x7f.org",
        "a@b.org\x85",
    ],
)
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(ValueError, match=r"address|letters|domain"):
        wire_address(address)


def test_a_domain_outside_ascii_goes_over_the_wire_in_ascii():
    assert wire_address("ada@bücher.example") == "ada@xn--bcher-kva.example"


def test_a_recipient_named_twice_is_one():
    twice = (ADA, Address("ada@example.org"))
    message = Message(EmailTarget(1, twice), "key", "t")
    assert compose(message, "0a", NOW, LOOPS, twice).recipients == ("ada@example.org",)


CHARSETS = [
    "utf-8",
    "iso-2022-jp",
    "utf-7",
    "idna",
    "punycode",
    "hex",
    "rot13",
    "undefined",
    "unicode_escape",
    "unknown-8bit",
]
LETTERS = ["é", "\ufffd", "\ud800", "\0", "AAA", "YQ==", "=0A", "=41", "a", " ", "\n", "\u202e", "\u2066", "*"]
WORDS = ["=?", "?=", "?q?", "?b?", "?", "="]
ENCODED = st.lists(st.sampled_from([*WORDS, *CHARSETS, *LETTERS]), max_size=16).map("".join)


@given(ENCODED | st.builds("=?{}?{}?{}?=".format, ENCODED | st.text(max_size=8), st.sampled_from("qbQBx"), ENCODED))
@example("=?é?q?a?=")
@example("hello =?ü?B?YQ==?= x")
@example("=\u202a?utf-8?q?a=0Ab?=")
@example("=?\ud800?q?a?=")
def test_words_that_only_look_encoded_are_a_line_all_the_same(text: str):
    line = one_line(text)
    assert len(f"{line}.".splitlines()) == 1
    assert "=?" not in line
    assert one_line(line) == line
    assert set(read(content(Address("a@b.org", text), subject=text)).keys()) <= HEADERS


@pytest.mark.parametrize(
    "text", ["=?", "=?x?q?", "=?utf-8?q?a?= ", "=?utf-8?q?=0A?= =?", "é=?x?b?", "\n", "=? "], ids=repr
)
def test_a_text_of_any_length_becomes_a_line_of_bounded_length(text: str):
    """Looked through as a whole, some of these would take minutes: that this comes back is half of the test."""
    long = text * (1_000_000 // len(text))
    line = one_line(long)
    assert len(line) <= LONGEST_LINE
    assert line == "" or line[-1] == "…"
    assert one_line(line) == line
    assert len(content(subject=long)) < 10_000


@pytest.mark.parametrize("mark", [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))])
def test_no_mark_turns_the_direction_of_a_subject_or_a_name(mark: str):
    hidden = f"=?utf-8?q?{''.join(f'={byte:02X}' for byte in mark.encode())}b?="
    assert one_line(f"invoice {mark}gnp.exe") == "invoice gnp.exe"
    assert one_line(f"a {hidden}") == "a b"


@given(
    st.text(alphabet=st.sampled_from("aß-.1\u200b\u3002\uff0e\uff0c\uff20\uff1c\uff1e½ⅷ xn@,<>é\ud800"), max_size=20)
)
def test_an_address_that_goes_over_the_wire_is_one(domain: str):
    try:
        wire = wire_address(f"ada@{domain}")
    except ValueError:
        return
    assert re.fullmatch(r"ada@[A-Za-z0-9_.-]+", wire)
    assert wire_address(wire) == wire


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("=?utf-8?q?a?= … 日本", "a … 日本"),
        ("日本 =?utf-8?q?a?=", "日本 a"),
        ("=?utf-8?b?w6k=?= =?utf-8?q?=C3=A9?=", "éé"),
        ("é=?utf-8?q?é?=", "é= ?utf-8?q?é?="),
        ("x =?utf-8?q?a?= y", "x a y"),
    ],
)
def test_what_stands_beside_an_encoded_word_stays(written: str, line: str):
    assert one_line(written) == line
