"""Every path of the API, in one table: what docs/reference/api.md lists."""

from dataclasses import dataclass

from server.api import (
    alerts,
    channels,
    connectors,
    deliveries,
    forecast,
    function_templates,
    integrations,
    notes,
    notifications,
    outputs,
    quotas,
    repositories,
    runs,
    schedules,
    skills,
    spaces,
    starts,
    stats,
    tasks,
    test_accounts,
    testing,
    tokens,
    workflow_logs,
    workflows,
)
from server.api.call import Handler
from server.auth import Role

PREFIX = "/api"

_PROJECT = "/projects/{project}"


@dataclass(frozen=True, slots=True)
class Route:
    """One path. `role` is the least that a token needs; `takes` are the parameters of the query or keys of the body."""

    method: str
    path: str
    handler: Handler
    role: Role
    takes: str = ""

    @property
    def summary(self) -> str:
        """What it does, from the handler's docstring."""
        return " ".join((self.handler.__doc__ or "").split())


def _routes(*rows: tuple[str, str, Handler, Role, str]) -> tuple[Route, ...]:
    return tuple(Route(method, _PROJECT + path, handler, role, takes) for method, path, handler, role, takes in rows)


_SCHEDULE = "rrule, cron, starts_at, timezone, variables, catch_up"
_OF_WORKFLOW = "/workflows/{id}/schedules/{schedule}"

_TESTS = "current_action_id, globals, delivery, mock_async_functions, use_draft"
ROUTES = _routes(
    ("GET", "/workflows", workflows.listing, "viewer", "status, origin_product, name, search, space, limit, cursor"),
    ("POST", "/workflows", workflows.create, "editor", "the workflow"),
    ("POST", "/workflows/apply", workflows.apply, "editor", "document, enable"),
    ("POST", "/workflows/validate", workflows.validate, "viewer", "document"),
    ("POST", "/workflows/test-run", testing.document, "viewer", f"document, {_TESTS}"),
    ("POST", "/workflows/{id}/test-run", testing.stored, "viewer", _TESTS),
    ("POST", "/workflows/forecast", forecast.document, "viewer", "document or id, days"),
    ("POST", "/workflows/{id}/forecast", forecast.stored, "viewer", "days"),
    ("GET", "/workflows/{id}", workflows.read, "viewer", ""),
    ("PUT", "/workflows/{id}", workflows.replace, "editor", "the workflow; base_version, base_updated_at"),
    ("PATCH", "/workflows/{id}", workflows.patch, "editor", "keys of the workflow; base_version, base_updated_at"),
    ("PATCH", "/workflows/{id}/graph", workflows.patch_graph, "editor", "operations, base_updated_at, base_version"),
    ("DELETE", "/workflows/{id}", workflows.archive, "editor", "running"),
    ("POST", "/workflows/{id}/enable", workflows.enable, "editor", ""),
    ("POST", "/workflows/{id}/disable", workflows.disable, "editor", "running"),
    ("GET", "/schedules", schedules.listing, "viewer", "workflow, status, limit, cursor"),
    ("GET", "/schedules/{id}", schedules.read, "viewer", ""),
    ("GET", "/workflows/{id}/schedules", schedules.of_workflow, "viewer", "status, limit, cursor"),
    ("POST", "/workflows/{id}/schedules", schedules.create, "editor", _SCHEDULE),
    ("POST", "/workflows/{id}/schedules/preview", schedules.preview_draft, "viewer", f"{_SCHEDULE}, count"),
    ("GET", _OF_WORKFLOW, schedules.read_of_workflow, "viewer", ""),
    ("PATCH", _OF_WORKFLOW, schedules.update, "editor", _SCHEDULE),
    ("DELETE", _OF_WORKFLOW, schedules.delete, "editor", ""),
    ("POST", f"{_OF_WORKFLOW}/pause", schedules.pause, "editor", ""),
    ("POST", f"{_OF_WORKFLOW}/resume", schedules.resume, "editor", ""),
    ("GET", f"{_OF_WORKFLOW}/preview", schedules.upcoming, "viewer", "count"),
    ("GET", f"{_OF_WORKFLOW}/occurrences", schedules.past, "viewer", "limit, cursor"),
    ("POST", "/workflows/{id}/run", starts.run, "editor", "variables; Idempotency-Key as a header"),
    ("POST", "/workflows/{id}/replay", starts.replay_missed, "editor", "since, until, cursor"),
    ("GET", "/workflows/{id}/logs", workflow_logs.read, "viewer", "level, search, limit, cursor"),
    ("GET", "/workflows/{id}/webhook", starts.webhook, "editor", ""),
    ("POST", "/workflows/{id}/webhook/rotate", starts.rotate_webhook, "editor", ""),
    ("POST", "/deliveries/{id}/replay", starts.replay, "editor", "workflow"),
    ("GET", "/deliveries", deliveries.listing, "viewer", "status, prefix, limit, cursor"),
    ("GET", "/deliveries/{id}", deliveries.read, "viewer", ""),
    ("GET", "/deliveries/{id}/verdicts", deliveries.verdicts, "viewer", "workflow"),
    ("GET", "/runs", runs.listing, "viewer", "status, workflow, delivery, prefix, space, limit, cursor"),
    ("GET", "/runs/{id}", runs.read, "viewer", ""),
    ("POST", "/runs/{id}/cancel", runs.cancel, "editor", ""),
    ("POST", "/runs/{id}/resume", runs.resume, "editor", "payload"),
    ("GET", "/notifications", notifications.listing, "viewer", "run, status, limit, cursor"),
    ("GET", "/notifications/{id}", notifications.read, "viewer", ""),
    ("POST", "/notifications/{id}/resend", notifications.resend, "editor", "connection"),
    ("GET", "/alerts", alerts.read, "viewer", ""),
    ("PUT", "/alerts", alerts.replace, "editor", "target"),
    ("GET", "/runs/{id}/export", runs.export, "viewer", ""),
    ("GET", "/tasks", tasks.listing, "viewer", "status, workflow, limit, cursor"),
    ("GET", "/tasks/{id}", tasks.read, "viewer", ""),
    ("GET", "/tasks/{id}/trace", tasks.trace, "viewer", ""),
    ("POST", "/tasks/{id}/cancel", tasks.cancel, "editor", ""),
    ("POST", "/tasks/{id}/outputs/{number}/settle", outputs.settle, "editor", "url"),
    ("POST", "/tasks/{id}/outputs/{number}/send", outputs.send, "editor", ""),
    ("GET", "/tasks/{id}/outputs/{number}/patch", outputs.patch, "viewer", ""),
    ("GET", "/quotas", quotas.read, "viewer", ""),
    ("PUT", "/quotas", quotas.replace, "admin", "quotas"),
    ("GET", "/stats", stats.read, "viewer", "workflow, after, before"),
    ("GET", "/function-templates", function_templates.listing, "viewer", ""),
    ("GET", "/function-templates/{id}", function_templates.read, "viewer", ""),
    ("GET", "/skills", skills.listing, "viewer", "search, limit, cursor"),
    ("POST", "/skills", skills.create, "editor", "text, files"),
    ("GET", "/skills/{id}", skills.read, "viewer", ""),
    ("PUT", "/skills/{id}", skills.replace, "editor", "text, files"),
    ("DELETE", "/skills/{id}", skills.delete, "editor", ""),
    ("GET", "/spaces", spaces.listing, "viewer", ""),
    ("GET", "/spaces/{id}", spaces.read, "viewer", "limit, cursor"),
    ("GET", "/mcp-connections", connectors.listing, "viewer", "search, limit, cursor"),
    ("GET", "/notes", notes.listing, "viewer", "status, workflow, subject, limit, cursor"),
    ("POST", "/notes/{id}/close", notes.close, "editor", "reason"),
    ("GET", "/integrations", integrations.listing, "viewer", "kind, limit, cursor"),
    ("POST", "/integrations", integrations.create, "admin", "kind, name, settings"),
    ("POST", "/integrations/rotate", integrations.rotate, "admin", ""),
    ("PATCH", "/integrations/{id}", integrations.update, "admin", "settings"),
    ("DELETE", "/integrations/{id}", integrations.delete, "admin", "force"),
    ("GET", "/integrations/{id}/github_repos", repositories.listing, "viewer", "limit, offset, search"),
    ("GET", "/integrations/{id}/check", integrations.check, "editor", ""),
    ("GET", "/integrations/{id}/channels", channels.listing, "viewer", "limit, offset, search"),
    ("GET", "/test-account-filters", test_accounts.read, "viewer", ""),
    ("PUT", "/test-account-filters", test_accounts.replace, "editor", "filters"),
    ("GET", "/tokens", tokens.listing, "admin", "limit, cursor"),
    ("POST", "/tokens", tokens.create, "admin", "role, name"),
    ("DELETE", "/tokens/{id}", tokens.revoke, "admin", ""),
)
