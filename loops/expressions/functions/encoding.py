"""Functions that encode, digest, and compare addresses."""

import base64
import hashlib
import hmac
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias
from urllib.parse import quote, unquote_to_bytes

from loops.expressions.evaluation import MAX_OUTPUT, Evaluation, Run
from loops.expressions.faults import fault
from loops.expressions.functions.function import AnyFunction, is_list, kind, lazy, plain, text_of
from loops.expressions.notation import HogValue, hog_text

_Written: TypeAlias = Callable[[bytes], str]

# What a character costs that Python handles one by one.
_SLOWLY = 8
_DIGESTING = 64  # what a digest costs, however short its text
_UNRESERVED = "!~*'()"  # what JavaScript leaves as it is, besides what Python does
_ESCAPED = re.compile(r"%(?![0-9a-fA-F]{2})")
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MASK = re.compile(r"\d{1,3}", re.ASCII)
_ENCODINGS: Mapping[str, _Written] = {
    "hex": bytes.hex,
    "base64": lambda digest: base64.b64encode(digest).decode(),
    "base64url": lambda digest: base64.urlsafe_b64encode(digest).decode().rstrip("="),
    "binary": lambda digest: digest.decode("latin-1"),
}
_DIGESTS: Mapping[str, Callable[[bytes], bytes]] = {
    "md5": lambda text: hashlib.md5(text, usedforsecurity=False).digest(),
    "sha1": lambda text: hashlib.sha1(text, usedforsecurity=False).digest(),
    "sha256": lambda text: hashlib.sha256(text).digest(),
}


def _encoded(text: str) -> bytes:
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).encode()


def _base64_encode(value: HogValue) -> str:
    return base64.b64encode(_encoded(text_of("base64Encode", value))).decode()


def _base64_decode(value: HogValue) -> str:
    """As leniently as JavaScript: both alphabets, any other character skipped, padding or not."""
    text = text_of("base64Decode", value).partition("=")[0].replace("-", "+").replace("_", "/")
    kept = _NO_BASE64.sub("", text)
    kept = kept[:-1] if len(kept) % 4 == 1 else kept
    return base64.b64decode(kept + "=" * (-len(kept) % 4)).decode("utf-8", "replace")


def _try_base64_decode(value: HogValue) -> str:
    return _base64_decode(value) if isinstance(value, str) else ""


def _encode_url(value: HogValue) -> str:
    text = hog_text(value, MAX_OUTPUT)
    try:
        return quote(text, safe=_UNRESERVED)
    except UnicodeEncodeError:
        raise fault("encodeURLComponent() got half of a character, which has no encoding") from None


def _decode_url(value: HogValue) -> str:
    text = hog_text(value, MAX_OUTPUT)
    decoded = _decoded(text)
    if decoded is None:
        raise fault(f"decodeURLComponent() got {kind(text)}, which is no encoded text", "use tryDecodeURLComponent()")
    return decoded


def _decoded(text: str) -> str | None:
    if _ESCAPED.search(text):
        return None
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeError:
        return None


def _digest(algorithm: str, function: str, value: HogValue, encoding: HogValue = "hex") -> HogValue:
    if value is None:
        return None
    return _encoding(function, encoding)(_DIGESTS[algorithm](_encoded(text_of(function, value))))


def _hmac_chain(algorithm: str, function: str, runs: Sequence[Run]) -> Run:
    """The digest of each text is the key of the next one's; the first item is the first key."""

    def run(evaluation: Evaluation) -> HogValue:
        chain, encoding = (*(argument(evaluation) for argument in runs), "hex")[:2]
        if not is_list(chain) or len(chain) < 2:
            raise fault(f"{function}() needs a list of a key and at least one text", f"as in {function}([key, text])")
        texts = [text_of(function, item) for item in chain]
        evaluation.spend(sum(_DIGESTING + len(text) for text in texts))
        key = _encoded(texts[0])
        for text in texts[1:]:
            key = hmac.digest(key, _encoded(text), algorithm)
        return evaluation.made(_encoding(function, encoding)(key))

    return run


def _encoding(function: str, name: HogValue) -> _Written:
    written = _ENCODINGS.get(name) if isinstance(name, str) else None
    if written is None:
        raise fault(f"{function}() does not know the encoding {kind(name)}", f"one of {', '.join(_ENCODINGS)}")
    return written


def _encoding_fault(name: HogValue) -> str:
    return "" if name in _ENCODINGS else f"the encoding must be one of {', '.join(_ENCODINGS)}"


def _is_in_range(address: HogValue, prefix: HogValue) -> bool:
    if not isinstance(address, str) or not isinstance(prefix, str):
        return False
    net, _, mask = prefix.partition("/")
    if not net or not _MASK.fullmatch(mask):
        return False
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(prefix, strict=False)
    except ValueError:
        return False


def _hashes() -> dict[str, AnyFunction]:
    made: dict[str, AnyFunction] = {}
    for name in _DIGESTS:
        made[f"{name}Hex"] = plain(partial(_digest, name, f"{name}Hex"), 1)
        made[name] = plain(partial(_digest, name, name), 1, 2, checks={1: _encoding_fault})
    for name in ("sha1", "sha256"):
        chain = f"{name}HmacChain"
        made[f"{chain}Hex"] = lazy(partial(_hmac_chain, name, f"{chain}Hex"), 1, 1)
        made[chain] = lazy(partial(_hmac_chain, name, chain), 1, 2, checks={1: _encoding_fault})
    return made


FUNCTIONS: Mapping[str, AnyFunction] = {
    "base64Decode": plain(_base64_decode, 1),
    "base64Encode": plain(_base64_encode, 1),
    "decodeURLComponent": plain(_decode_url, 1, weight=_SLOWLY, texts=(0,)),
    "encodeURLComponent": plain(_encode_url, 1, weight=_SLOWLY, texts=(0,)),
    "generateUUIDv4": plain(lambda: str(uuid.uuid4()), 0),
    "isIPAddressInRange": plain(_is_in_range, 2),
    "tryBase64Decode": plain(_try_base64_decode, 1),
    "tryDecodeURLComponent": plain(lambda value: _decoded(hog_text(value, MAX_OUTPUT)), 1, weight=_SLOWLY, texts=(0,)),
    **_hashes(),
}
