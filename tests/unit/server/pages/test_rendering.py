import uuid

import pytest

from server.pages.outputs import OutputShown
from server.pages.rendering import _templates, short_ids


@pytest.mark.parametrize("text", ["", "no loop started", "12345678-1234-1234-1234-12345678901", "deadbeef"])
def test_a_text_without_ids_stays_as_it_is(text: str) -> None:
    assert short_ids(text) == text


def test_ids_in_a_list_are_cut_to_their_beginning() -> None:
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    assert short_ids(f"{first} into {second}.") == f"{first[:8]}… into {second[:8]}…."


@pytest.mark.parametrize(("status", "is_fault"), [("staged", False), ("written", False), ("refused", True)])
def test_a_reason_that_is_no_fault_is_not_shown_as_one(status: str, is_fault: bool) -> None:
    output = OutputShown("o", "Comment", status, "it would be written, and was not", "", "", None, None)
    page = _templates().from_string('{% from "task.html" import output_card %}{{ output_card(one) }}')
    card = page.render(one=output)
    assert ("call-why" in card, "call-failed" in card) == (is_fault, is_fault)
    assert "it would be written, and was not" in card
