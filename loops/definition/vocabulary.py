"""What events of GitHub and Slack are made of: the names of their properties, and the values that those can have.

A test holds the names against what real deliveries come to.
"""

from collections.abc import Mapping
from types import MappingProxyType

from loops.definition.schema.triggers import GITHUB_EVENT, SLACK_EVENT

EVENT_FIELDS = ("uuid", "event", "source", "distinct_id", "timestamp", "url", "subject", "properties", "verified")
"""What templates may read of any event: the names below `event`."""

PROPERTIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        GITHUB_EVENT: (
            "integration_id", "event_type", "action", "repository", "repository_id", "repository_visibility", "sender",
            "bot_sender", "own_app", "author_association", "actor_access", "actor_access_reason", "title", "number",
            "body", "url", "review_state", "ref", "branch", "installation_id", "github_event",
        ),
        SLACK_EVENT: (
            "integration_id", "channel", "channel_type", "slack_team_id", "user", "bot_id", "app_id", "own_app",
            "subtype", "text", "message_text", "ts", "thread_ts", "is_thread_reply", "is_ext_shared_channel", "files",
            "slack_event",
        ),
    }
)  # fmt: skip
"""The properties of each kind of event."""

VALUES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        GITHUB_EVENT: {
            "actor_access": ("write", "read"),
            "repository_visibility": ("private", "public"),
            "author_association": (
                "OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER", "MANNEQUIN",
                "NONE",
            ),
            "review_state": ("approved", "changes_requested", "commented", "dismissed", "pending"),
            "own_app": ("false",),
        },
        SLACK_EVENT: {
            "channel_type": ("channel", "group", "im", "mpim", "app_home"),
            "subtype": ("bot_message", "file_share", "me_message", "thread_broadcast"),
            "is_thread_reply": ("true", "false"),
            "is_ext_shared_channel": ("true", "false"),
            "own_app": ("false",),
        },
    }
)  # fmt: skip
"""The values of properties that have few. What the own app did starts nothing, so `own_app` is never true."""

ACTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "issues": (
            "opened", "reopened", "closed", "edited", "deleted", "labeled", "unlabeled", "assigned", "unassigned",
            "pinned", "unpinned", "transferred", "locked", "unlocked", "milestoned", "demilestoned", "typed", "untyped",
        ),
        "pull_request": (
            "opened", "reopened", "closed", "synchronize", "edited", "ready_for_review", "converted_to_draft",
            "review_requested", "review_request_removed", "labeled", "unlabeled", "assigned", "unassigned", "locked",
            "unlocked", "milestoned", "demilestoned", "auto_merge_enabled", "auto_merge_disabled", "enqueued",
            "dequeued",
        ),
        "issue_comment": ("created", "edited", "deleted", "pinned", "unpinned"),
        "pull_request_review": ("submitted", "edited", "dismissed"),
        "push": (),
    }
)  # fmt: skip
"""What may happen, by GitHub's name of the delivery."""

NEVER_SET: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "issues": frozenset({"review_state", "branch"}),
        "pull_request": frozenset({"review_state"}),
        "issue_comment": frozenset({"review_state", "branch"}),
        "pull_request_review": frozenset(),
        "push": frozenset({"action", "title", "number", "body", "url", "review_state", "author_association"}),
    }
)
"""The properties that a delivery of a name never has."""

EVENT_TYPES = (
    *ACTIONS, "branch_protection_rule", "check_run", "check_suite", "code_scanning_alert", "commit_comment", "create",
    "delete", "dependabot_alert", "deploy_key", "deployment", "deployment_status", "discussion", "discussion_comment",
    "fork", "gollum", "label", "member", "merge_group", "milestone", "package", "page_build", "public",
    "pull_request_review_comment", "pull_request_review_thread", "registry_package", "release", "repository",
    "repository_dispatch", "repository_ruleset", "repository_vulnerability_alert", "secret_scanning_alert",
    "security_and_analysis", "star", "status", "sub_issues", "issue_dependencies", "team_add", "watch",
    "workflow_dispatch", "workflow_job", "workflow_run",
)  # fmt: skip
"""Names of deliveries that tell of a repository. GitHub makes new ones: another is not wrong for not being here."""

BUSY_EVENTS = frozenset(
    {
        "$pageview", "$pageleave", "$autocapture", "$screen", "$identify", "$set", "$groupidentify",
        "$feature_flag_called", "$web_vitals", "$rageclick", "$$heatmap", "$dead_click", "$exception", "$ai_generation",
        "$ai_span", "$ai_trace", "Application Opened", "Application Backgrounded",
    }
)  # fmt: skip
"""PostHog events that SDKs send by themselves, for everybody who does anything."""
