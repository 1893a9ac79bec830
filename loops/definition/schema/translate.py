"""pydantic's errors in our words: where in the document, what is wrong, what mends it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from loops.definition.findings import nearest, shown, suggestion
from loops.definition.schema.base import REFUSED, Kinds, Shape

Words = tuple[str, str]


def faults_of(
    error: ValidationError, annotation: object, raw: JsonValue
) -> Iterator[tuple[Sequence[str | int], str, str]]:
    """What is wrong with `raw`, which was validated against `annotation`: where in it, a message and a hint; one fault
    a place."""
    seen: set[tuple[str | int, ...]] = set()
    for detail in error.errors(include_url=False):
        parts, owner, reached = _place(detail, annotation, raw)
        if tuple(parts) not in seen:
            seen.add(tuple(parts))
            yield parts, *_words(detail, owner, reached)


def places_of(error: ValidationError, annotation: object, raw: JsonValue) -> Iterator[Sequence[str | int]]:
    """Where in `raw` something is wrong, without the words."""
    for detail in error.errors(include_url=False):
        yield _place(detail, annotation, raw)[0]


def _place(detail: ErrorDetails, annotation: object, raw: object) -> tuple[list[str | int], type[Shape] | None, object]:
    parts, owner, reached = _locate(annotation, raw, detail["loc"])
    if detail["type"].startswith("union_tag_"):
        parts.append(str(detail["ctx"]["discriminator"]).strip("'"))
    return parts, owner, reached


def _locate(
    annotation: object, raw: object, loc: Sequence[str | int]
) -> tuple[list[str | int], type[Shape] | None, object]:
    """The keys and indexes of `raw` that pydantic's `loc` stands for, the class that owns the last key, and what may
    stand there.

    pydantic also puts the tags of unions into a loc, and the places of lists that a validator made of a single value;
    neither is in the document.
    """
    parts: list[str | int] = []
    owner: type[Shape] | None = None
    for part in loc:
        annotation = _bare(annotation)
        member = _member(annotation, part)
        if member is not None:
            annotation, owner = member, member
            continue
        owner, annotation = _child(annotation, part)
        if isinstance(raw, dict) and isinstance(part, str):
            parts.append(part)
            raw = raw.get(part)
        elif isinstance(raw, list) and isinstance(part, int):
            parts.append(part)
            raw = raw[part]
    return parts, owner, _bare(annotation)


def _bare(annotation: object) -> object:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _options(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) in (Union, UnionType):
        return tuple(one for option in get_args(annotation) for one in _options(_bare(option)))
    return (annotation,)


def _member(annotation: object, part: str | int) -> type[Shape] | None:
    """The class of a union whose tag is this part of a loc."""
    options = _options(annotation)
    if len(options) > 1:
        for option in options:
            if isinstance(option, type) and issubclass(option, Shape) and part in tags(option):
                return option
    return None


def tags(shape: type[Shape]) -> tuple[str, ...]:
    """The values of its tag that a class of a union stands for."""
    field = shape.model_fields.get(shape.tag)
    return get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()


def _child(annotation: object, part: str | int) -> tuple[type[Shape] | None, object]:
    """The class that owns `part`, if one does, and what may stand there."""
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, Shape):
            known = keys(option)
            return option, known.get(str(part))
        arguments = get_args(option)
        if arguments and get_origin(option) in (list, tuple, dict):
            return None, arguments[-1] if get_origin(option) is dict else arguments[0]
    return None, None


def keys(shape: type[Shape]) -> Mapping[str, Any]:
    """The keys of a class as the JSON has them, with what may stand there."""
    return {field.alias or name: field.annotation for name, field in shape.model_fields.items()}


def _words(detail: ErrorDetails, owner: type[Shape] | None, reached: object) -> Words:
    kind, context, given = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == REFUSED:
        return context["message"], context["hint"]
    if kind == "extra_forbidden":
        return _unknown_key(str(detail["loc"][-1]), owner)
    if kind == "union_tag_invalid":
        return _unknown_type(str(context["tag"]), reached)
    words = _WORDS.get(kind)
    if words is None:
        return detail["msg"].removeprefix("Input should be ").strip(), ""
    return words(context, given)


def _unknown_type(name: str, union: object) -> Words:
    members = [option for option in _options(union) if isinstance(option, type) and issubclass(option, Shape)]
    kinds = next((member.kinds for member in members if member.kinds), Kinds("type"))
    return kinds.words(name, [tag for member in members for tag in tags(member)])


def _unknown_key(key: str, owner: type[Shape] | None) -> Words:
    if owner is None:
        return f'unknown key "{shown(key)}"', ""
    if key in owner.not_here:
        return owner.not_here[key], ""
    known = list(keys(owner))
    return f'unknown key "{shown(key)}"', nearest(key, [*known, *owner.not_here]) or suggestion(key, known)


def _wants(what: str) -> Callable[[Mapping[str, Any], object], Words]:
    return lambda _context, given: (f"must be {what}, not {_kind(given)}", "")


def _wants_text(_context: Mapping[str, Any], given: object) -> Words:
    hint = f'write "{_plain(given)}"' if isinstance(given, bool | int | float) else ""
    return f"must be text, not {_kind(given)}", hint


def _plain(given: object) -> str:
    return str(given).lower() if isinstance(given, bool) else shown(given, 30)


def _kind(given: object) -> str:
    if given is None:
        return "null"
    if isinstance(given, bool):
        return _plain(given)
    if isinstance(given, int | float):
        return f"the number {_plain(given)}"
    if isinstance(given, str):
        return f'the text "{shown(given, 30)}"'
    return "a list" if isinstance(given, list) else "an object"


def _choice(context: Mapping[str, Any], given: object) -> Words:
    allowed = str(context["expected"]).replace("'", '"')
    return f"must be {allowed}, not {_kind(given)}", ""


def _too_long(context: Mapping[str, Any], given: object) -> Words:
    size = f"has {len(given)} characters" if isinstance(given, str) else f"holds {context['actual_length']} entries"
    return size, f"at most {context['max_length']}"


_WORDS: Mapping[str, Callable[[Mapping[str, Any], object], Words]] = {
    "missing": lambda _context, _given: ("is required", ""),
    "string_type": _wants_text,
    "int_type": _wants("a whole number"),
    "bool_type": _wants("true or false"),
    "list_type": _wants("a list"),
    "tuple_type": _wants("a list"),
    "dict_type": _wants("an object"),
    "model_type": _wants("an object"),
    "model_attributes_type": _wants("an object"),
    "literal_error": _choice,
    "greater_than_equal": lambda context, given: (f"{shown(given)} is too small", f"at least {context['ge']}"),
    "less_than_equal": lambda context, given: (f"{shown(given)} is too large", f"at most {context['le']}"),
    "string_too_long": _too_long,
    "string_too_short": lambda _context, _given: ("must not be empty", ""),
    "too_long": _too_long,
    "union_tag_not_found": lambda _context, _given: ("is required", ""),
}
