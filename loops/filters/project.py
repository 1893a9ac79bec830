"""What a project gives to the filters of its workflows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType

from loops.event import JsonValue


def _system_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, eq=False)
class ProjectFilters:
    """`time_zone` is what relative dates, and dates without an offset, are read in; `now` the clock they are read by.

    `test_accounts` are the property filters that `filter_test_accounts` stands for; `actions` saved actions and
    `cohorts` saved cohorts by id, as PostHog stores them: an object with `steps`, and a group of property filters with
    a `name`. `path_cleaning` holds pairs of a pattern and the text that replaces it, for `is_cleaned_path_exact`.

    Compiled filters are shared between workflows that have one and the same object of this class.
    """

    time_zone: tzinfo = UTC
    test_accounts: Sequence[JsonValue] = ()
    actions: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=lambda: MappingProxyType({}))
    cohorts: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=lambda: MappingProxyType({}))
    path_cleaning: Sequence[tuple[str, str]] = ()
    now: Callable[[], datetime] = _system_now


NO_PROJECT = ProjectFilters()
"""For what belongs to no project, or not yet: UTC, and nothing else that filters could name."""
