"""Secrets at rest and out of sight.

SecretBox encrypts what a connection stores; mask takes secret values out of text that people or log files will see.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from loops.errors import StoreError
from loops.event import JsonValue

MASKED = "***"
SHORTEST_MASKED = 6

_SHORTEST_LINE = 16
_URL_SAFE = str.maketrans("+/", "-_")
_STORED_SECRETS = b"loops stored secrets"


class SecretBox:
    """Encrypts and decrypts small JSON objects with keys derived from the service's secret keys.

    The first key encrypts, every key decrypts, so a key is rotated by putting the new one in front.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys or not all(keys):
            raise StoreError("there is no secret key to encrypt with", hint="set LOOPS_SECRET_KEY")
        self._keys = tuple(keys)
        derived = [base64.urlsafe_b64encode(_derived(key, _STORED_SECRETS)) for key in self._keys]
        self._fernet = MultiFernet([Fernet(key) for key in derived])

    def __repr__(self) -> str:
        return f"SecretBox({len(self._keys)} keys)"

    def seal(self, secrets: Mapping[str, JsonValue]) -> str:
        """ASCII text that only these keys open; the same object gives another text each time."""
        return self._fernet.encrypt(json.dumps(dict(secrets)).encode()).decode("ascii")

    def open(self, text: str) -> dict[str, JsonValue]:
        """What was sealed. StoreError when none of the keys fits or the text was altered."""
        try:
            plain = self._fernet.decrypt(text.encode())
        except InvalidToken as error:
            raise StoreError(
                "a stored secret cannot be decrypted with the keys of this service",
                hint="LOOPS_SECRET_KEY must hold the key it was stored with; put a new key in front, keep the old one",
            ) from error
        opened: dict[str, JsonValue] = json.loads(plain)
        return opened

    def reseal(self, text: str) -> str:
        """The same secrets under the first key. StoreError as from open."""
        return self.seal(self.open(text))

    def derive(self, purpose: str) -> bytes:
        """32 bytes for another purpose (such as signing sessions), from the key that encrypts; unlike any other's."""
        return self.derive_all(purpose)[0]

    def derive_all(self, purpose: str) -> tuple[bytes, ...]:
        """The same from each key, the encrypting one first: what was signed before a rotation stays known."""
        return tuple(_derived(key, b"loops purpose " + purpose.encode()) for key in self._keys)


def _derived(key: str, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(key.encode())


class Mask:
    """Replaces secret values in text, also where they stand URL-encoded, in base64 or hex, or escaped for JSON or HTML.

    Values under 6 characters are left alone: they would blot out ordinary words.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST_MASKED for form in _forms(secret)}
        # The longest first, so that no form leaves the rest of a longer one standing.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    def __call__(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASKED)
        return text


def mask(text: str, secrets: Iterable[str]) -> str:
    """`text` with every form of the secrets replaced; for many texts and the same secrets keep a Mask."""
    return Mask(secrets)(text)


def masked_json(value: Any, mask: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON value
    """The value with `mask` over every text in it, keys too; tuples become lists."""
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {mask(key): masked_json(item, mask) for key, item in value.items()}
        case list() | tuple():
            return [masked_json(item, mask) for item in value]
        case _:
            return value


def _forms(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    url_encoded = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    lower_case = {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in url_encoded}
    escaped = {
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
    }
    return {secret, raw.hex(), raw.hex().upper()} | url_encoded | lower_case | escaped | _lines(secret) | _base64(raw)


def _lines(secret: str) -> set[str]:
    """The lines of a key in PEM form, which a log may show one by one; not its BEGIN and END, which are no secret."""
    lines = {line.strip() for line in secret.splitlines()}
    return {line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith("-----")}


def _base64(raw: bytes) -> set[str]:
    """What stands in base64 text wherever the secret begins in it: three alignments, without the shared edges."""
    forms = set()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode("ascii")
        first = (before * 8 + 5) // 6
        last = (before + len(raw)) * 8 // 6
        forms |= {encoded[first:last], encoded[first:last].translate(_URL_SAFE)}
    return forms
