"""What events need of a payload, decoded without building the rest.

No field is required and none has to have the right type: real payloads lack every one of them somewhere. The fast
decode refuses a wrong type; such a body is read once more, tolerantly, and what does not fit counts as absent.
"""

from functools import lru_cache
from typing import TypeVar, get_args

import msgspec

from loops.event import JsonValue
from triggers.json_body import check_nesting, tolerant_object, too_nested


class Account(msgspec.Struct, gc=False):
    """A user, an organization or a bot."""

    login: str | None = None
    id: int | None = None
    type: str | None = None


class Repository(msgspec.Struct, gc=False):
    """`private` also where it is internal."""

    id: int | None = None
    full_name: str | None = None
    private: bool | None = None


class Installation(msgspec.Struct, gc=False):
    """Of an app."""

    id: int | None = None


class Head(msgspec.Struct, gc=False):
    """A pull request's source branch."""

    ref: str | None = None


class Subject(msgspec.Struct, gc=False):
    """What an event is about: an issue, a pull request, a comment, a review, a discussion, a release, a check."""

    node_id: str | None = None
    number: int | None = None
    title: str | None = None
    name: str | None = None
    body: str | None = None
    html_url: str | None = None
    user: Account | None = None
    author: Account | None = None
    author_association: str | None = None
    state: str | None = None
    updated_at: str | int | None = None
    head: Head | None = None
    head_branch: str | None = None


class Payload(msgspec.Struct, gc=False):
    """What is read of a delivery, whatever its event; the first of the subjects says what it is about."""

    action: str | None = None
    repository: Repository | None = None
    sender: Account | None = None
    installation: Installation | None = None
    ref: str | None = None
    before: str | None = None
    after: str | None = None
    comment: Subject | None = None
    review: Subject | None = None
    pull_request: Subject | None = None
    issue: Subject | None = None
    discussion: Subject | None = None
    release: Subject | None = None
    workflow_run: Subject | None = None
    workflow_job: Subject | None = None
    check_suite: Subject | None = None
    check_run: Subject | None = None


class Decoded(msgspec.Struct, gc=False):
    """A payload and the JSON bytes that it was read from."""

    body: bytes
    payload: Payload


S = TypeVar("S", bound=msgspec.Struct)
_DECODER = msgspec.json.Decoder(Payload)


def decode(body: bytes) -> Decoded:
    """Raises PayloadMalformed for what is no JSON object, or nests too deep."""
    try:
        payload = _DECODER.decode(body)
    except msgspec.DecodeError:
        return Decoded(body, _picked(Payload, tolerant_object(body)))
    except RecursionError:
        raise too_nested(body) from None
    check_nesting(body)
    return Decoded(body, payload)


def _picked(struct: type[S], fields: dict[str, JsonValue]) -> S:
    return struct(**{name: _fitting(fields.get(name), kinds) for name, kinds in _kinds(struct)})


def _fitting(value: JsonValue, kinds: tuple[type, ...]) -> object:
    for kind in kinds:
        if issubclass(kind, msgspec.Struct):
            return _picked(kind, value) if isinstance(value, dict) else None
        # bool is an int to Python, but no number to anyone else
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
    return None


@lru_cache
def _kinds(struct: type[msgspec.Struct]) -> tuple[tuple[str, tuple[type, ...]], ...]:
    return tuple(
        (field.name, tuple(kind for kind in get_args(field.type) if kind is not type(None)))
        for field in msgspec.structs.fields(struct)
    )
