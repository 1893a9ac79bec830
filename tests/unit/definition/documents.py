"""Workflows in the shapes that people send them in, as JSON values, and what comes of them."""

import copy
import itertools
from typing import Any

import pytest

from loops.definition import compile_workflow, export_workflow, parse_workflow
from loops.errors import DefinitionError, Fault

Document = dict[str, Any]


def only(key: str, *values: str) -> Document:
    return {"key": key, "value": list(values), "operator": "exact", "type": "event"}


def unset(key: str) -> Document:
    return {"key": key, "value": "is_not_set", "operator": "is_not_set", "type": "event"}


GITHUB: Document = {
    "type": "internal-event",
    "filters": {
        "source": "internal-events",
        "events": [{"id": "$github_event_received", "type": "events"}],
        "properties": [only("repository", "acme/widgets"), only("event_type", "issues"), only("actor_access", "write")],
    },
}
SLACK: Document = {
    "type": "internal-event",
    "filters": {
        "source": "internal-events",
        "events": [{"id": "$slack_message_received", "type": "events"}],
        "properties": [only("channel", "C0ALERTS"), unset("bot_id"), unset("thread_ts")],
    },
}
EVENT: Document = {
    "type": "event",
    "filters": {
        "events": [{"id": "signed_up", "name": "signed_up", "type": "events", "order": 0, "properties": []}],
        "properties": [],
        "filter_test_accounts": False,
    },
}
SCHEDULE: Document = {"type": "schedule"}
MANUAL: Document = {
    "type": "manual",
    "template_id": "template-source-webhook",
    "inputs": {"event": {"value": "$workflow_triggered"}, "distinct_id": {"value": "{request.body.user_id}"}},
}
WEBHOOK: Document = {
    "type": "webhook",
    "template_id": "template-source-webhook",
    "inputs": {"event": {"value": "{request.body.event}"}, "distinct_id": {"value": "{request.body.distinct_id}"}},
}
TRIGGERS: dict[str, Document] = {
    "github": GITHUB,
    "slack": SLACK,
    "event": EVENT,
    "schedule": SCHEDULE,
    "manual": MANUAL,
    "webhook": WEBHOOK,
}

SLACK_MESSAGE: Document = {
    "template_id": "template-slack",
    "inputs": {
        "slack_workspace": {"value": 7},
        "channel": {"value": "C0RESULTS"},
        "text": {"value": "Triage finished: {variables.task_final_message}"},
    },
}
EMAIL: Document = {
    "template_id": "template-email",
    "inputs": {
        "email": {
            "value": {
                "from": {"integrationId": 8},
                "to": {"email": "ada@example.com", "name": ""},
                "subject": "Triage finished",
                "text": "{{ variables.task_final_message }}",
                "html": "",
            }
        }
    },
}
NOTIFIERS: dict[str, Document | None] = {
    "slack": {"id": "notify", "name": "Notify", "type": "function", "config": SLACK_MESSAGE},
    "email": {"id": "notify", "name": "Notify", "type": "function_email", "config": EMAIL},
    "nobody": None,
}


def edge(source: str, target: str, **more: Any) -> Document:
    return {"from": source, "to": target, "type": "continue", **more}


def loop(trigger: str = "github", notify: str = "slack", *, structured: bool = False) -> Document:
    """The shape of a loop: a trigger, an AI task, a notification or none, an exit."""
    outputs = [{"key": "task_final_message", "result_path": "final_message"}]
    variables = [{"key": "task_final_message", "type": "string", "default": ""}]
    if structured:
        outputs.append({"key": "severity", "result_path": "output.severity"})
        outputs.append({"key": "duplicates", "result_path": "output.duplicates"})
        variables.append({"key": "severity", "type": "string", "default": "unknown"})
        variables.append({"key": "duplicates", "type": "number", "default": "0"})
    actions: list[Document | None] = [
        {"id": "trigger", "name": "Trigger", "type": "trigger", "config": TRIGGERS[trigger]},
        {
            "id": "create_task",
            "name": "Create AI task",
            "type": "function",
            "config": {
                "template_id": "template-posthog-create-task",
                "inputs": {
                    "prompt": {"value": "Read the text property of the triggering event and answer in one line."},
                    "repository": {"value": "acme/widgets"},
                    "skills": {"value": ["triage"]},
                    "posthog_mcp_scopes": {"value": "read_only"},
                    "non_failure_status_codes": {"value": [409]},
                },
            },
            "output_variable": outputs,
        },
        NOTIFIERS[notify],
        {"id": "exit", "name": "Exit", "type": "exit", "config": {"reason": "Task finished"}},
    ]
    present = [action for action in actions if action is not None]
    document = {
        "name": "Triage",
        "description": "",
        "status": "draft",
        "origin_product": "loops",
        "exit_condition": "exit_only_at_end",
        "variables": variables,
        "actions": present,
        "edges": [edge(a["id"], b["id"]) for a, b in itertools.pairwise(present)],
    }
    return copy.deepcopy(document)


def with_action(action: Document, trigger: str = "github") -> Document:
    """A workflow whose only step is this action; its id becomes `step`."""
    document = loop(trigger, "nobody")
    step = {"id": "step", "name": "Step", **copy.deepcopy(action), "output_variable": None}
    document["actions"][1] = step
    document["edges"] = [edge("trigger", "step"), edge("step", "exit")]
    document["variables"] = []
    return document


def with_function(template_id: str, **values: Any) -> Document:
    """A workflow whose only step is a function with these input values."""
    inputs = {name: {"value": value} for name, value in values.items()}
    return with_action({"type": "function", "config": {"template_id": template_id, "inputs": inputs}})


def with_email(**changes: Any) -> Document:
    """A workflow whose only step is an email, its parts changed, or removed where the change is None."""
    mail = {**EMAIL["inputs"]["email"]["value"], "text": "done", **changes}
    mail = {part: value for part, value in mail.items() if value is not None}
    config = {"template_id": "template-email", "inputs": {"email": {"value": mail}}}
    return with_action({"type": "function_email", "config": config})


def at(document: Any, path: str) -> Any:
    """The part of a document at a dotted path, list entries by their number."""
    for part in path.split(".") if path else []:
        document = document[int(part) if isinstance(document, list) else part]
    return document


def changed(document: Document, path: str, value: Any) -> Document:
    """The document with one part set to another value."""
    copied = copy.deepcopy(document)
    holder, _, last = path.rpartition(".")
    parent = at(copied, holder)
    parent[int(last) if isinstance(parent, list) else last] = copy.deepcopy(value)
    return copied


def without(document: Document, path: str) -> Document:
    """The document without one of its parts."""
    copied = copy.deepcopy(document)
    holder, _, last = path.rpartition(".")
    parent = at(copied, holder)
    del parent[int(last) if isinstance(parent, list) else last]
    return copied


def warned(workflow: Any) -> list[Fault]:
    """A workflow's warnings but those about what this release lacks, which all say "yet" or "in this release"."""
    lacking = ("yet", "in this release")
    return [warning for warning in workflow.warnings if not any(words in warning.message for words in lacking)]


def parsed(document: Any) -> Any:
    return parse_workflow(document)


def compiled_of(document: Any) -> Any:
    return compile_workflow(parse_workflow(document))


def exported_from(workflow: Any) -> Any:
    return export_workflow(workflow)


def faults_of(document: Any) -> list[Fault]:
    with pytest.raises(DefinitionError) as refused:
        parse_workflow(document)
    return list(refused.value.faults)
