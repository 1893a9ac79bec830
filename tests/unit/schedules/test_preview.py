"""What a preview says of days on which clocks change."""

from loops.schedules.preview import preview
from tests.unit.schedules.tables import DAILY, HOURLY, at, cron, table

BERLIN = "Europe/Berlin"


def told(found, after, count=3):
    return [(f"{one.at:%m-%d %H:%M}", f"{one.local:%H:%M}", one.mark) for one in preview(found, at(after), count)]


def test_sc11_a_preview_over_a_change_has_the_instants_that_fire_and_marks_the_change():
    found = table(DAILY, "2026-01-01T09:00:00", BERLIN)
    assert told(found, "2026-03-27T12:00") == [
        ("03-28 08:00", "09:00", None), ("03-29 07:00", "09:00", "changed"), ("03-30 07:00", "09:00", None),
    ]  # fmt: skip
    assert preview(found, at("2026-03-27T12:00"), 2)[1].note == "clocks have changed: the offset is now UTC+0200"


def test_a_skipped_time_is_marked_with_the_time_that_it_becomes():
    (one,) = preview(table(DAILY, "2026-01-01T02:30:00", BERLIN), at("2026-03-28T12:00"), 1)
    assert (one.mark, one.note) == (
        "skipped", "clocks go forward: 02:30 does not exist that day, so it is 03:30",
    )  # fmt: skip


def test_a_doubled_time_is_marked_and_says_which_it_is():
    (one,) = preview(table(DAILY, "2026-01-01T02:30:00", BERLIN), at("2026-10-24T12:00"), 1)
    assert (one.mark, one.note) == ("doubled", "clocks go back: 02:30 comes twice, this is the first")
    hourly = preview(table(HOURLY, "2026-01-01T00:00:00", BERLIN), at("2026-10-24T23:00"), 3)
    assert [one.note.rpartition(" ")[2] for one in hourly] == ["first", "second", ""]


def test_a_preview_of_cron_is_in_local_time_too():
    assert told(cron("0 9 * * *", "Asia/Kolkata"), "2026-06-15T12:00", 1) == [("06-16 03:30", "09:00", None)]


def test_a_preview_ends_where_the_schedule_does():
    assert len(preview(table("FREQ=DAILY;COUNT=2"), at("2026-01-01T00:00"), 10)) == 2
