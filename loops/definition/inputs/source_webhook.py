"""template-source-webhook: how a request becomes an event."""

from typing import Annotated, ClassVar, Literal

from pydantic import JsonValue

from loops.definition.inputs.base import REQUEST_ROOTS, HogText, Inputs, Templated


class WebhookInputs(Inputs):
    """What a webhook's event is called and whom it is about."""

    roots: ClassVar = REQUEST_ROOTS
    not_here: ClassVar = {"auth_header": "a secret is not kept in a workflow; it belongs to the webhook's connection"}

    event: HogText
    distinct_id: HogText
    properties: Annotated[JsonValue, Templated()] = None
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    debug: bool = False


class ManualInputs(WebhookInputs):
    """A start by hand is an event too; what it is called is settled."""

    event: HogText = "$workflow_triggered"
    distinct_id: HogText = "{request.body.user_id}"
