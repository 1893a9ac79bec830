"""What the settings of a project mean for the workflows in it."""

import json
from datetime import datetime
from functools import lru_cache

import sqlalchemy as sa

from loops.expressions.moments import zone_named
from loops.filters import ProjectFilters
from loops.store import projects as store
from loops.store.projects import ProjectSettings

_KEPT = 512


def project_filters(connection: sa.Connection, project_id: str, at: datetime | None = None) -> ProjectFilters:
    """What the project gives to its filters. `at` is the moment that relative dates are counted from, instead of that
    at which an event is matched. Raises DefinitionError for a time zone that is none."""
    settings = store.settings(connection, project_id)
    if at is None:
        return filters_of(settings)
    zone = zone_named(settings.time_zone)
    return ProjectFilters(time_zone=zone, test_accounts=settings.test_account_filters, now=lambda: at)


def filters_of(settings: ProjectSettings) -> ProjectFilters:
    """What such settings give to filters: one and the same object as long as they are the same, so that whoever keeps
    what was compiled with it can see whether that still holds. Raises DefinitionError for a time zone that is none."""
    return _kept(settings.time_zone, json.dumps(settings.test_account_filters, sort_keys=True))


@lru_cache(maxsize=_KEPT)
def _kept(time_zone: str, test_account_filters: str) -> ProjectFilters:
    return ProjectFilters(time_zone=zone_named(time_zone), test_accounts=tuple(json.loads(test_account_filters)))
