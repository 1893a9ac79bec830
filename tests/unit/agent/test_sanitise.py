import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.agent.sanitise import sanitised, sanitised_value
from loops.event import JsonValue
from loops.invisible import without_invisible

WORDS = st.text(st.characters(categories=("L", "Nd", "Sc", "Po", "Zs"), exclude_characters="!\\&'\"`~\u3164\uffa0"))
MARKUP = st.sampled_from(
    [
        *(
            "<!--",
            "-->",
            "--",
            "<!",
            "<",
            ">",
            "<?",
            "`",
            "``",
            "```",
            "\n```\n",
            "~~~\n",
            "\n",
            " ",
            "\\",
            "&",
            ";",
            ":",
        ),
        *(
            "[",
            "](",
            "![",
            "]",
            ")",
            "(",
            "]: ",
            "[a]: ",
            "[a]",
            ' "hidden"',
            " 'hidden'",
            "<a ",
            "<img ",
            " alt=",
            "=",
        ),
        *(
            "javascript:",
            "ws://",
            "data:text/html,",
            "&#58;",
            "&shy;",
            "\u200b",
            "\u202e",
            "\u200d",
            "\ufe0f",
            "x",
            "é",
        ),
        *("https://ok.example/a", "mailto:", "<https://", "title='", "//", "/", '"'),
    ]
)
TANGLES = st.lists(MARKUP, max_size=30).map("".join)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("before <!-- do as I say --> after", "before  after"),
        ("a<!-->b<!-- `c` \n\n d -->e", "abe"),
        ("<!-- never closed", "< !-- never closed"),
        ("<!<!-- x -->-- y -->", "< !-- y -->"),
        ("java<!-- -->script:alert(1)", "javascript :alert(1)"),
        ("<!doctype do as I say> <?do it?> <![CDATA[x]]>", "< !doctype do as I say> < ?do it?> < ![CDATA[x]]>"),
        ("z\u200bero\u2060 wid\ufeffth", "zero width"),
        ("\u202etxt.exe\u202c", "txt.exe"),
        ("tags\U000e0068\U000e0069 and se\ufe01\ufe02\ufe03lectors", "tags and selectors"),
        ("a&#8203;b&shy;c&ZeroWidthSpace;d &lt;e&gt; &amp;", "abcd &lt;e&gt; &amp;"),
        ("one\r\ntwo\u2028three", "one\ntwo\nthree"),
        ("\x1b[31mred\x07", "[31mred"),
    ],
)
def test_what_cannot_be_seen_goes_or_is_shown(said, shown):
    assert sanitised(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # a Persian word whose parts must not join
        "\u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3 \u00a9\ufe0e",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "\u845b\U000e0100\u57ce",
    ],
)
def test_what_words_and_emoji_are_made_of_stays(said):
    assert sanitised(said) == said


@pytest.mark.parametrize("hidden", ["\u200d\u200c\u200d\u200d", "\ufe00\ufe01\ufe02", "\U000e0101\U000e0102"])
def test_rows_of_joiners_and_selectors_spell_nothing(hidden):
    assert len(without_invisible(f"\u00e9{hidden}\u00e9")) <= 4
    assert without_invisible(f"a{hidden}b") == "ab"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("[a](javascript:alert(1))", "[a](javascript :alert(1))"),
        ("[a](JavaScript:alert(1) 'x')", "[a](JavaScript :alert(1))"),
        ("[a](java&#115;cript:x) [b](vbscript&colon;x)", "[a](#java&#115;cript:x) [b](#vbscript&colon;x)"),
        ("[a](<java\tscript:x>) [b](javascript\\:x)", "[a](<#java\tscript:x>) [b](#javascript\\:x)"),
        ("[a](data:text/html;base64,PHg+)", "[a](data :text/html;base64,PHg+)"),
        ("[a](tel:123) [b](app:open)", "[a](tel :123) [b](app :open)"),
        ("ws://a smb://b/c file:///etc/passwd ftp://d", "ws ://a smb ://b/c file :///etc/passwd ftp ://d"),
        ("javascript:alert(1) data:text/html,x", "javascript :alert(1) data :text/html,x"),
        ("<ws://a> <javascript:x> <smb://a|files>", "<ws ://a> <javascript :x> <smb ://a|files>"),
        ("[a]: file:///etc/passwd\n[a]", "[a]: file :///etc/passwd\n[a]"),
        ("<a href='javascript:x'>b</a> <a href=ws://x>c</a>", "<a href='javascript :x'>b</a> <a href=ws ://x>c</a>"),
        ("<a href='jav&#x09;ascript:x'>b</a>", "<a href='#jav&#x09;ascript:x'>b</a>"),
        ("[https://ok.example](javascript:x)", "[https://ok.example](javascript :x)"),
    ],
)
def test_a_link_with_another_scheme_leads_nowhere(said, shown):
    assert sanitised(said) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('[a](https://ok.example "do as I say")', "[a](https://ok.example)"),
        ("[a](https://ok.example\n'do\nit')", "[a](https://ok.example)"),
        ("[a](https://ok.example (do it))", "[a](https://ok.example)"),
        ("[a]\n[a]: https://ok.example 'do it'", "[a]\n[a]: https://ok.example"),
        ("[//]: # (do as I say)", "\\[//]: #"),
        ("![do as I say](https://ok.example/a.png 'x')", "[do as I say](https://ok.example/a.png)"),
        ("![](https://ok.example/a.png)", "[picture](https://ok.example/a.png)"),
        ("![a]\n\n[a]: https://ok.example/a.png", "[a]\n\n[a]: https://ok.example/a.png"),
        ("![[[[a](https://ok.example)", "! [[[[a](https://ok.example)"),
        ('<img src="https://ok.example" alt="do it">', '< img src="https://ok.example">'),
        ("<a href='https://ok.example'title='do it'>b</a>", "<a href='https://ok.example'>b</a>"),
        ("<p style='display:none' hidden data-x=1 onclick=go()>b</p>", "<p>b</p>"),
        ("<script>go()</script> <img alt='x", "< script>go()< /script> < img alt='x"),
    ],
)
def test_what_only_some_readers_see_goes_and_pictures_are_links(said, shown):
    assert sanitised(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "See https://ok.example/a?b=ws://c&d=javascript:e#f, http://10.0.0.1:8080/x and <https://ok.example>.",
        "[a](https://ok.example/a_(b)) [b](/relative#x) [c](mailto:ada@ok.example) <https://ok.example|c>",
        "note: yes, 12:30, C:\\dir, std::vector<int>, a < b > c, if (a <b or c> d), key:value, data: 5, file: x",
        "Wow![1] is **not** a picture; *neither* is this! [a]",
        "<!channel> <!here|here> <!subteam^S1|@team> <@U1> <#C1|general> @here @ada",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\n- [ ] item",
        "\\<!-- shown as it is --> 5 \\* 3",
    ],
)
def test_ag_14_addresses_mentions_and_plain_words_stay(said):
    assert sanitised(said) == said


@pytest.mark.parametrize(
    "code",
    [
        "`<!-- a --> ws://b`",
        "``a ` <!-- b -->``",
        "```html\n<!-- a -->\n<img alt='b'>\nws://c [d](javascript:e)\n```",
        "~~~\n```\n<!-- a -->\n~~~",
        "```\n<!-- never closed",
    ],
)
def test_the_visible_text_of_code_is_left_alone(code):
    assert sanitised(code) == code
    assert sanitised(f"a <!-- b -->\n{code}") == f"a \n{code}"


def test_code_holds_no_letters_that_cannot_be_seen_either():
    assert sanitised("`a\u200bb`\n```\n\u202ec\n```") == "`ab`\n```\nc\n```"


@pytest.mark.parametrize("code", ["`a\n<!-- b --> `", "<a title='`'> <!-- b --> `", "    ```\n<!-- b -->\n    ```"])
def test_what_a_reader_may_not_take_for_code_is_none(code):
    assert "<!--" not in sanitised(code)


def test_every_text_of_a_value_is_sanitised_and_nothing_else_changed():
    given: JsonValue = {"a": "x<!-- y -->", "b": [1, True, None, "ws://z"], "c": {"d": 1.5}}
    assert sanitised_value(given) == {"a": "x", "b": [1, True, None, "ws ://z"], "c": {"d": 1.5}}


@given(st.one_of(TANGLES, st.text()))
def test_sanitising_again_changes_nothing_and_nothing_raises(said):
    once = sanitised(said)
    assert sanitised(once) == once
    assert without_invisible(once) == once


@given(TANGLES)
def test_whatever_is_tangled_into_each_other_hides_and_loads_nothing(said):
    shown = re.sub(r"```[\s\S]*|~~~[\s\S]*|`[^\n]*", "", sanitised(said))  # more than what is code
    shown = re.sub(r"\\.", "x", shown)
    assert "<!--" not in shown
    assert re.search(r"<img", shown) is None
    assert re.search(r"(?<!\S)(?:ws:/|javascript:\S|data:text/html,)", shown) is None


@given(WORDS)
def test_no_visible_word_is_lost(said):
    plain = "".join(said.split("\u3164"))
    assert sanitised(plain) == plain


@given(st.lists(WORDS, max_size=5), st.sampled_from(["<!-- x -->", "\u200b", "ws://y", "<?z?>"]))
def test_the_words_around_what_is_taken_out_stay(words, between):
    kept = sanitised(between.join(words))
    assert all(word.strip() in kept for word in words)


def test_what_is_nested_without_end_becomes_plain_text():
    said = "&shy;"
    for _number in range(20):
        said = f"&sh{said}y;"
    shown = sanitised(f"`a` <b> [c](d) {said}")
    assert shown.startswith("'a' (b) (c)(d) +sh+sh")
    assert sanitised(shown) == shown


@pytest.mark.parametrize(
    "piece", ["<!--", "](", "![", "` `` ", '<a "', "<a b=c ", "[a]: b\n", "](a '", "&", "\\", "[", "```\n"]
)
def test_no_text_takes_long(piece):
    said = piece * (60_000 // len(piece))
    assert sanitised(said)
