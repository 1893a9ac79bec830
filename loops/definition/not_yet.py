"""What a workflow may say and this release does not do yet: stored and exported as it is, and warned about.

An entry goes when what it names is built.
"""

from collections.abc import Mapping

from loops.definition.findings import Findings, join
from loops.definition.schema.actions import ActionShape, FunctionConfig, TriggerAction
from loops.definition.schema.triggers import GITHUB_EVENT, SLACK_EVENT, Trigger

UNSTARTED_TRIGGERS = frozenset({"event", "schedule", "manual", "webhook"})
FUNCTIONS_TO_COME = frozenset({"template-posthog-create-task", "template-slack", "template-email"})

_WHAT_STARTS = f"what starts a workflow now: internal-event with the event {GITHUB_EVENT}"


def not_built(template_id: str) -> str:
    """What is said of a function template that no part of this release carries out."""
    return f"{template_id} is not built in this release"


def warn_of_action(action: ActionShape, path: str, findings: Findings) -> None:
    """Warn where a trigger starts nothing, and where a step cannot do its work. `path` is where the action stands."""
    config = action.config
    if isinstance(action, TriggerAction):
        _warn_of_trigger(action.config, join(path, "config"), findings)
    elif isinstance(config, FunctionConfig) and config.template_id in FUNCTIONS_TO_COME:
        what = (
            "the step will fail and the run go on"
            if action.on_error == "continue"
            else "the run will fail at this step"
        )
        findings.warn(join(path, "config", "template_id"), f"{what}: {not_built(config.template_id)}")


def _warn_of_trigger(trigger: Trigger, path: str, findings: Findings) -> None:
    if trigger.type in UNSTARTED_TRIGGERS:
        findings.warn(
            join(path, "type"), "nothing starts a workflow of this trigger type in this release yet", _WHAT_STARTS
        )
        return
    events = (trigger.effective_filters() or {}).get("events")
    for index, event in enumerate(events if isinstance(events, list) else ()):
        if isinstance(event, Mapping) and event.get("id") == SLACK_EVENT:
            findings.warn(
                join(path, "filters", "events", index, "id"),
                f"nothing sends {SLACK_EVENT} in this release yet, so it starts nothing",
                _WHAT_STARTS,
            )
