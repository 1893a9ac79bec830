from loops.brief import one_line


def test_a_reason_stands_on_one_line_without_what_python_says_of_objects():
    assert one_line("one\n\n two\t<asyncio.Lock object at 0x7f00dead> three") == "one two … three"


def test_a_long_reason_is_cut_and_a_short_one_is_whole():
    assert one_line("x" * 300) == "x" * 300
    assert one_line("x" * 301) == "x" * 299 + "…"
