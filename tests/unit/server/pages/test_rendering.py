import uuid

import pytest

from server.pages.rendering import short_ids


@pytest.mark.parametrize("text", ["", "no loop started", "12345678-1234-1234-1234-12345678901", "deadbeef"])
def test_a_text_without_ids_stays_as_it_is(text: str) -> None:
    assert short_ids(text) == text


def test_ids_in_a_list_are_cut_to_their_beginning() -> None:
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    assert short_ids(f"{first} into {second}.") == f"{first[:8]}… into {second[:8]}…."
