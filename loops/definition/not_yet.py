"""What a workflow may say and this release does not do yet: stored and exported as it is, and warned about.

An entry goes when what it names is built.
"""

from collections.abc import Mapping

from loops.definition.findings import Findings, join
from loops.definition.schema.actions import ActionShape, FunctionConfig

INPUTS_TO_COME: Mapping[str, Mapping[str, str]] = {
    "template-posthog-create-task": {
        "connectors": "connectors are not built yet: the agent has none of their tools",
        "skills": "skills are not built yet: the agent does not see them",
        "channel": "spaces are not built yet: the run is on its own page alone",
    },
}


def not_built(template_id: str) -> str:
    """What is said of a function template that no part of this release carries out."""
    return f"{template_id} is not built in this release"


def warn_of_action(action: ActionShape, path: str, findings: Findings) -> None:
    """Warn where a step does not do all of its work. `path` is where the action stands."""
    config = action.config
    if isinstance(config, FunctionConfig):
        for name, words in INPUTS_TO_COME.get(config.template_id, {}).items():
            given = config.inputs.get(name)
            if given is not None and given.value:
                findings.warn(join(path, "config", "inputs", name), words)
