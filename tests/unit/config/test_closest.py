import pytest

from config.closest import closest


@pytest.mark.parametrize(
    ("written", "known", "meant"),
    [
        ("repositry", ["event_type", "repository"], "repository"),
        ("runer", ["runs_port", "runners"], "runners"),
        ("deliverys", ["delivery", "deliveries"], "delivery"),
        ("githb", ["github", "slack"], "github"),
        ("editr", ["viewer", "editor", "admin"], "editor"),
        ("enabel", ["enable", "disable"], "enable"),
        ("MEMBR", ["member"], "member"),
        ("nme", ["name", "number"], "name"),
        ("nofunc", ["round", "concat", "notEmpty"], None),
        ("runer", ["rerun_x", "server", "runs"], None),
        ("", ["name"], None),
        ("name", [], None),
    ],
)
def test_the_known_name_that_was_meant_is_found_and_none_that_only_shares_letters(written, known, meant):
    assert closest(written, known) == meant


def test_what_all_names_begin_with_brings_none_closer():
    assert closest("LOOPS_MODLE", ["LOOPS_MODEL", "LOOPS_PORT"], "LOOPS_") == "LOOPS_MODEL"
    assert closest("LOOPS_TRAP", ["LOOPS_PORT"], "LOOPS_") is None
