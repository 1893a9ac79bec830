from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from loops.errors import StepUnavailable
from loops.runs.step import StepContext
from loops.runs.steps.function import FunctionStep
from loops.runs.templates.log import LogTemplate


async def test_a_template_that_is_not_built_fails_and_says_so():
    action = SimpleNamespace(id="told", config=SimpleNamespace(template_id="template-slack"))
    context = StepContext("run", action, datetime(2026, 11, 30, tzinfo=UTC), dict)

    with pytest.raises(StepUnavailable) as raised:
        await FunctionStep({"template-log": LogTemplate()}).run(context)

    assert raised.value.message == "template-slack is not built in this release"
    assert raised.value.hint == "built are: template-log"
