"""/workflows/…/test-run: one action of a workflow on a sample, with everything outside mocked."""

from collections.abc import Mapping

from aiohttp import web

from loops.errors import RequestError
from loops.event import JsonValue
from server.api.call import Call, answer
from triggers.testing import Ask

_KEYS = ("current_action_id", "globals", "delivery", "mock_async_functions", "use_draft")


async def stored(call: Call) -> web.Response:
    """Test one action of a workflow (the trigger unless `current_action_id` names another) on `globals`, or on a
    `delivery` that came: `status`, `nextActionId`, the rendered `inputs`, the mocked `calls`, `variables`. Nothing is
    stored, sent or asked (docs/reference/workflow.md#test-runs)."""
    workflow, body = call.piece("id"), await call.document(*_KEYS)
    tested = await call.services.tester.stored(call.project, workflow, _ask(body))
    return answer(tested.as_json())


async def document(call: Call) -> web.Response:
    """The same for a workflow that is not stored: the one in `document`."""
    body = await call.document("document", *_KEYS)
    if "document" not in body:
        raise RequestError("document is missing", hint="the workflow, as an object", path="document")
    tested = await call.services.tester.document(call.project, body["document"], _ask(body))
    return answer(tested.as_json())


def _ask(body: Mapping[str, JsonValue]) -> Ask:
    """`use_draft` is taken: a workflow here has one definition, which is what is tested."""
    _flag(body, "use_draft")
    return Ask(
        action=_text(body, "current_action_id"),
        globals=body.get("globals"),
        delivery=_text(body, "delivery"),
        mock=_flag(body, "mock_async_functions") is not False,
    )


def _text(body: Mapping[str, JsonValue], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise RequestError(f"{name} is no text", hint="an id", path=name)
    return value


def _flag(body: Mapping[str, JsonValue], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(f"{name} is neither true nor false", path=name)
    return value
