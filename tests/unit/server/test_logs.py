import io
import json
import logging
from collections.abc import Callable, Iterator

import dbos
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.logs import LogSecrets, log_context, setup_logging

SECRET = "ghp_s3cret/token+value"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Logging is of the whole interpreter: each test leaves it as it found it."""
    names = ["", "dbos", "aiohttp.access", "slack_bolt", "asyncio", "alembic"]
    loggers = [logging.getLogger(name) for name in names]
    before = [(one, one.level, one.propagate, list(one.handlers)) for one in loggers]
    yield
    for one, level, propagate, handlers in before:
        one.setLevel(level)
        one.propagate = propagate
        one.handlers[:] = handlers


def json_log(level="info", secrets=()) -> tuple[io.StringIO, LogSecrets]:
    return _alone(io.StringIO(), lambda stream: setup_logging(level, "json", secrets, stream))


def text_log(level="info", secrets=()) -> tuple[io.StringIO, LogSecrets]:
    return _alone(io.StringIO(), lambda stream: setup_logging(level, "text", secrets, stream))


def _alone(stream: io.StringIO, set_up: Callable[[io.StringIO], LogSecrets]) -> tuple[io.StringIO, LogSecrets]:
    """Without pytest's own handlers: their record of such texts cannot be sent between its processes."""
    register = set_up(stream)
    log.root.handlers[:] = [one for one in log.root.handlers if getattr(one, "stream", None) is stream]
    return stream, register


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def raised(error: Exception) -> Exception:
    """The error with the traceback that it gets by being raised."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


log = logging.getLogger("loops.test")


def test_a_json_line_has_time_level_logger_message_and_fields() -> None:
    stream, _ = json_log()
    log.info("took %d deliveries", 3, extra={"batch": 7, "ratio": 0.5, "odd": float("nan"), "where": ["a"]})
    (line,) = lines(stream)
    time = line.pop("time")
    assert time.endswith("Z")
    assert len(time) == len("2026-07-06T12:00:00.000Z")
    assert line == {
        "level": "info",
        "logger": "loops.test",
        "message": "took 3 deliveries",
        "batch": 7,
        "ratio": 0.5,
        "odd": "nan",
        "where": "['a']",
    }


def test_an_extra_field_cannot_take_the_place_of_the_level() -> None:
    stream, _ = json_log()
    log.warning("x", extra={"level": "debug", "time": "never"})
    (line,) = lines(stream)
    assert (line["level"], line["level_"], line["time_"]) == ("warning", "debug", "never")


def test_bound_ids_are_on_every_line_of_the_block_and_gone_after_it() -> None:
    stream, _ = json_log()
    with log_context(delivery_id="d1"):
        with log_context(run_id="r1", workflow_id="w1"):
            log.info("inner")
        log.info("outer")
    log.info("after")
    inner, outer, after = lines(stream)
    assert {"delivery_id": "d1", "run_id": "r1", "workflow_id": "w1"}.items() <= inner.items()
    assert outer["delivery_id"] == "d1"
    assert "run_id" not in outer
    assert "delivery_id" not in after


def test_a_level_below_the_set_one_is_not_written() -> None:
    stream, _ = json_log("warning")
    log.info("no")
    log.warning("yes")
    assert [line["message"] for line in lines(stream)] == ["yes"]


@pytest.mark.parametrize("make", [json_log, text_log])
def test_secrets_are_masked_in_messages_fields_and_tracebacks(make) -> None:
    stream, secrets = make("info", [SECRET])
    error = raised(ValueError(f"bad token {SECRET}"))
    log.error("calling with %s", SECRET, exc_info=error, extra={"url": f"https://x/?t={SECRET}"})
    secrets.add(["another-secret"])
    with log_context(run_id="another-secret"):
        log.info("now another-secret")
    shown = stream.getvalue()
    assert "s3cret" not in shown
    assert "another-secret" not in shown
    assert "***" in shown
    assert "ValueError" in shown


def test_arguments_that_do_not_fit_are_still_written_and_masked(capsys: pytest.CaptureFixture[str]) -> None:
    stream, _ = json_log("info", [SECRET])
    log.info("%d deliveries", SECRET)
    assert lines(stream)[0]["message"].startswith("%d deliveries")
    assert "s3cret" not in stream.getvalue() + capsys.readouterr().err


def test_a_text_line_is_one_line_whatever_the_text_holds() -> None:
    stream, _ = text_log()
    log.info("title: %s", "x\n2026-01-01 ERROR loops: forged\r\x1b[31m\u2028\u202e\ud800é🎉", extra={"b": "c\nd e"})
    (line,) = stream.getvalue().split("\n")[:-1]
    assert "\\n2026-01-01 ERROR loops: forged\\r\\x1b[31m\\u2028\\u202e\\ud800é🎉" in line
    assert line.endswith('b="c\\nd e"')


@given(st.text(), st.text(min_size=1))
def test_no_text_ever_makes_a_second_line_or_raw_control_characters(message: str, value: str) -> None:
    for make in (json_log, text_log):
        stream, _ = make()
        log.info("%s", message, extra={"field": value})
        shown = stream.getvalue()
        assert shown.endswith("\n")
        assert len(shown.splitlines()) == 1
        assert "\x1b" not in shown


def test_a_field_cannot_be_forged_by_the_value_of_another() -> None:
    stream, _ = text_log()
    log.info("x", extra={"name_given": 'a run_id=r9 "'})
    assert 'name_given="a run_id=r9 \\""' in stream.getvalue()


def test_the_lines_of_a_traceback_are_set_apart() -> None:
    stream, _ = text_log()
    log.error("failed", exc_info=raised(ValueError("x\n2026-01-01T00:00:00.000Z ERROR loops: forged")))
    first, *rest = stream.getvalue().rstrip("\n").split("\n")
    assert "ERROR   loops.test: failed" in first
    assert len(rest) > 2
    assert all(line.startswith("  | ") for line in rest)


def test_setting_up_again_replaces_the_former_one() -> None:
    former, _ = json_log()
    stream, _ = json_log()
    log.info("once")
    logging.getLogger("dbos").warning("once")
    assert former.getvalue() == ""
    assert len(lines(stream)) == 2


def test_requests_and_daily_work_of_libraries_are_not_logged() -> None:
    stream, _ = json_log()
    logging.getLogger("aiohttp.access").info("GET / 200")
    logging.getLogger("slack_bolt.App").info("bolt is running")
    logging.getLogger("dbos").info("Initializing")
    logging.getLogger("slack_bolt.App").error("broken")
    assert [line["message"] for line in lines(stream)] == ["broken"]


def test_the_engines_tracebacks_for_cancelled_workflows_are_left_out_and_real_errors_kept() -> None:
    stream, _ = json_log()
    engine = logging.getLogger("dbos")
    engine.error("Exception in workflow:", exc_info=raised(dbos.error.DBOSAwaitedWorkflowCancelledError("run:1")))
    engine.error("Exception in workflow:", exc_info=raised(ValueError("real")))
    (line,) = lines(stream)
    assert line["error"] == "ValueError"
    assert "real" in line["traceback"]


def test_the_engines_fields_stay_out_of_the_lines() -> None:
    stream, _ = json_log()
    logging.getLogger("dbos").warning("slow", extra={"applicationVersion": "1", "executorID": "local"})
    assert set(lines(stream)[0]) == {"time", "level", "logger", "message"}


@pytest.mark.parametrize("secret", ["loops_" + "a1_-" * 10 + "xyz", "sha256=" + "0f" * 32])
def test_tokens_and_signatures_are_masked_by_their_form(secret: str) -> None:
    assert secret not in LogSecrets().mask(f"header {secret!r} refused")
    assert LogSecrets().mask("loops_short sha256=12") == "loops_short sha256=12"
