"""/function-templates: what a step of type function or function_email may do, and which inputs it takes."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from loops.definition.findings import suggestion
from loops.definition.inputs import FUNCTIONS, Inputs, templated
from loops.errors import NotFound
from server.api.call import Call, answer

_DOES: Mapping[str, str] = {
    "template-posthog-create-task": "Create an AI task and wait for it. The result has status, final_message, pr_urls "
    "and output.<name> for each output variable that asks for one.",
    "template-slack": "Post a message to a Slack channel or thread.",
    "template-email": "Send an email; the action's type is function_email.",
    "template-log": "Write a line on the run's trace.",
}


async def listing(call: Call) -> web.Response:
    """The function templates, without their inputs."""
    call.query()
    return answer({"items": [_item(name, inputs) for name, inputs in FUNCTIONS.items()], "next": None})


async def read(call: Call) -> web.Response:
    """One template with its inputs: JSON schema of each value, whether it is required, and the language of its
    templates."""
    name = call.piece("id")
    inputs = FUNCTIONS.get(name)
    if inputs is None:
        raise NotFound(f"there is no function template {name!r}", hint=suggestion(name, tuple(FUNCTIONS)))
    return answer({**_item(name, inputs), "inputs_schema": _inputs_schema(inputs)})


def _item(name: str, inputs: type[Inputs]) -> dict[str, Any]:
    return {"template_id": name, "action_type": inputs.action_type, "description": _DOES[name]}


def _inputs_schema(inputs: type[Inputs]) -> list[dict[str, Any]]:
    whole = inputs.model_json_schema()
    parts = whole.get("$defs", {})
    listed = []
    for key, field in inputs.model_fields.items():
        template = templated(field)
        listed.append(
            {
                "key": field.alias or key,
                "required": field.is_required(),
                "templating": None if template is None else template.language,
                "schema": _plain(whole["properties"][field.alias or key], parts),
            }
        )
    return listed


def _plain(schema: Any, parts: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a piece of JSON schema
    """The schema with its parts in their places, and without the titles that repeat its keys."""
    match schema:
        case {"$ref": str(place)}:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return _plain({**parts[place.rpartition("/")[2]], **rest}, parts)
        case {"properties": dict(properties)}:
            inner = {key: _plain(value, parts) for key, value in properties.items()}
            rest = {key: value for key, value in schema.items() if key not in {"properties", "title"}}
            return {**_plain(rest, parts), "properties": inner}
        case dict():
            return {key: _plain(value, parts) for key, value in schema.items() if key != "title"}
        case list():
            return [_plain(one, parts) for one in schema]
        case _:
            return schema
