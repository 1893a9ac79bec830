"""Payloads as no sender should write them: keys dropped, nulled, renamed and doubled, wrong types, huge values, broken
encodings. A change is made of a `random.Random` alone, so that its number tells it again."""

import base64
import copy
import gzip
import json
import os
import random
import string
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

MUTATIONS = int(os.environ.get("MUTATIONS", "1000"))
"""How many changed requests are sent to each database; CONTRIBUTING.md tells when to send more."""

_LETTERS = string.ascii_lowercase + string.digits + "/#:-_.%"
PICTURES = "".join(map(chr, range(0x1F300, 0x1F5FF)))
_PLAIN: Sequence[Any] = (
    None, True, False, 0, -1, 7, 2**31, 2**53 + 1, 2**63, 2**70, -(10**40), 1.5, 1e300, "", " ", "0", "null", [], {},
    [[]], [None], {"": {}}, [{}] * 3, {"id": [], "login": {}}, {"type": "Bot", "login": "x[bot]"},
)  # fmt: skip
# Texts that are replaced once the payload is bytes: by what no encoder of ours writes.
_RAW = {
    "@deep@": b'{"n":[' * 60 + b"1" + b"]}" * 60,
    "@too deep@": b'{"n":[' * 110 + b"1" + b"]}" * 110,
    "@deepest@": b"[" * 5000 + b"]" * 5000,
    "@infinite@": b"1e999",
    "@long@": b"9" * 5000,
    "@no utf-8@": b'"a\xff\xc3(\xed\xa0\x80"',
    "@control@": b'"a\x01\tb"',
    "@no text@": b'"\\ud800\\u0000\\udc00"',
}
READABLE = tuple(name for name in _RAW if name not in {"@too deep@", "@deepest@", "@control@"})
"""Those of them after which the whole payload is still JSON that is taken."""


def noise(chance: random.Random, size: int, letters: str = _LETTERS) -> str:
    """A text that does not compress."""
    return "".join(chance.choices(letters, k=size))


def odd(chance: random.Random, raw: Sequence[str] = tuple(_RAW)) -> Any:
    """A value that hardly any field is meant to have. A text that is not empty is no other's."""
    match chance.randrange(12):
        case 0:
            return noise(chance, chance.choice([300, 3000, 9000]))
        case 1:
            return noise(chance, chance.choice([99, 399, 400, 2000]), PICTURES)
        case 2:
            return f"a\0b\ud800{noise(chance, 9)}\udc00"
        case 3:
            return {noise(chance, 3000): 1, "\0": "\0"}
        case 4:
            return {str(number): noise(chance, 20) for number in range(chance.choice([5, 200]))}
        case 5:
            return list(range(chance.choice([10, 1000])))
        case 6:
            return f"<script>{{{{ 7*7 }}}} {{event}} ${{x}} %s \r\n\x1b[31m\u2028\u202e {noise(chance, 9)}"
        case 7:
            return chance.choice(raw)
        case _:
            return copy.deepcopy(chance.choice(_PLAIN))


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of everything inside of a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def at(root: Any, path: Path) -> Any:
    """What stands at a path."""
    for key in path:
        root = root[key]
    return root


def mutated(
    payload: Any, chance: random.Random, *, kept: Collection[Path] = (), raw: Sequence[str] = tuple(_RAW)
) -> Any:
    """A copy with up to five changes, of which none touches what stands at the paths that are `kept`."""
    root = copy.deepcopy(payload)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 5])):
        found = [path for path in places(root) if not any(one[: len(path)] == path for one in kept)]
        if not found:
            break
        path = chance.choice(found)
        if chance.random() < 0.15:  # what lies far out is read most
            path = next((path[:end] for end in range(1, len(path)) if path[:end] in found), path)
        _change(at(root, path[:-1]), path[-1], chance, raw)
    return root


def _change(holder: Any, key: Any, chance: random.Random, raw: Sequence[str]) -> None:
    way = chance.random()
    if way < 0.25:
        del holder[key]
    elif way < 0.4:
        holder[key] = None
    elif way < 0.9:
        holder[key] = odd(chance, raw)
    elif way < 0.95 and isinstance(holder, dict):
        holder[noise(chance, 4)] = holder.pop(key)
    else:
        holder[key] = [copy.deepcopy(holder[key])] * 2


def encoded(payload: Any, chance: random.Random) -> bytes:
    """As JSON, with or without escapes."""
    body = json.dumps(payload, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    for name, raw in _RAW.items():
        body = body.replace(b'"%s"' % name.encode(), raw)
    return body


def damaged(body: bytes, chance: random.Random) -> bytes:
    """What a bad line, a wrong encoder or a stranger makes of a body."""
    way = chance.choice(_DAMAGES)
    return way(body, chance.randrange(len(body) + 1), chance)


def _decoded(body: bytes) -> str:
    return body.decode("utf-8", "replace")


_ALONE = (b"", b"null", b"[]", b"5", b'"x"', b"{}", b"[{}]", b"\0", b"[" * 100_000, b'{"a":' * 5000)
_DAMAGES: Sequence[Callable[[bytes, int, random.Random], bytes]] = (
    lambda body, at, _: body[:at],
    lambda body, at, chance: body[:at] + chance.randbytes(chance.randint(1, 4)) + body[at:],
    lambda body, at, _: body[:at] + b"\xff\xfe\xc3(" + body[at + 2 :],
    lambda body, _at, _: b"\xef\xbb\xbf" + body,
    lambda body, _at, _: _decoded(body).encode("utf-16"),
    lambda body, _at, _: _decoded(body).encode("latin-1", "replace"),
    lambda body, _at, _: body.replace(b":", b': NaN, "x":', 1),
    lambda body, _at, _: body.replace(b"{", b'{"x": 1e999, "x": -Infinity, ', 1),
    lambda body, _at, _: body.replace(b"{", b'{"x": ' + b"1" * 5000 + b", ", 1),
    lambda body, _at, _: body.replace(
        b"{", b'{"action": "closed", "action": "opened", "type": "x", "event": null, ', 1
    ),
    lambda body, _at, _: body + b"}",
    lambda body, _at, _: body.replace(b'"', b"'"),
    lambda body, _at, chance: gzip.compress(body)[: -chance.randint(1, 9)],
    lambda body, _at, _: base64.b64encode(body)[:-1],
    lambda _body, _at, chance: chance.choice(_ALONE),
)
