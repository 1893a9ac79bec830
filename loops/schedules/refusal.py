"""What is said of a rule that is refused: each begins with the same sentence, whatever rule it is of."""

from loops.errors import ScheduleError


def invalid(why: str, hint: str = "") -> ScheduleError:
    """What is said of an RRULE that is none."""
    return ScheduleError.at("rrule", f"Invalid RRULE. {why}", hint)


def never(path: str, why: str = "") -> ScheduleError:
    """What is said of a rule that nothing comes of (any more)."""
    message = f"Schedule produces no future occurrences. {why}".rstrip()
    return ScheduleError.at(path, message, "give a start, an end and days that lie ahead")


def too_often(path: str, why: str, hint: str) -> ScheduleError:
    """What is said of a rule whose occurrences stand too close."""
    return ScheduleError.at(path, f"Schedules must run at most once per hour. {why}", hint)
