"""Items that only the server can read: ``encrypted_content`` of reasoning, and compactions.

AES-256-GCM under a key that only the server has. The owner and the version of the format are bound
to the text. It is rejected after any change, at another server, and for another owner.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ...apis.items import HistoryItem, message_text
from ...conversation.messages import Message
from ...errors import HarmonyError
from ...sampled_messages import SampledMessage
from ..private_files import make_private

__all__ = ["DecryptionError", "EncryptionKeyError", "ItemCipher", "OwnerCipher"]

_PREFIX = "hr1."  # names the format, and is bound to the text
_KEY_BYTES = 32
_NAME_BYTES = 4  # of the hash of the key, to find it again
_NONCE_BYTES = 12  # random: good for four thousand million items under one key


class DecryptionError(HarmonyError, ValueError):
    """The text was not encrypted by this server for this owner, or it was changed since."""


class EncryptionKeyError(HarmonyError):
    """The file of keys cannot be read or made."""


class ItemCipher:
    """Encrypts with the first of `keys`, each of 32 bytes, and decrypts with any of them.

    >>> cipher = ItemCipher.with_new_key()
    >>> text = cipher.encrypt({"text": "Two and two.", "tokens": [17171, 326]}, owner="key_1")
    >>> cipher.decrypt(text, owner="key_1")
    {'text': 'Two and two.', 'tokens': [17171, 326]}
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise EncryptionKeyError(f"give one key or more, each of {_KEY_BYTES} bytes")
        self._keys = [
            (hashlib.sha256(b"name of a key " + key).digest()[:_NAME_BYTES], AESGCM(key))
            for key in keys
        ]

    @classmethod
    def with_new_key(cls) -> ItemCipher:
        """Make a key that is forgotten with this object."""
        return cls([secrets.token_bytes(_KEY_BYTES)])

    @classmethod
    def from_file(cls, path: str | Path) -> ItemCipher:
        """Read the keys from a file, one in a line; make the file where there is none.

        To change the key, put a new line before the others. Remove an old line when the texts that
        it encrypted are no longer used. ``openssl rand -base64 32`` makes a key. Raises
        `EncryptionKeyError`.
        """
        path = Path(path)
        try:
            if not path.exists():
                _make_key_file(path)
            with suppress(OSError):  # of a mounted secret, which its operator protects
                make_private(path)
            lines = path.read_text("ascii").split()
            return cls([base64.b64decode(line, validate=True) for line in lines])
        except OSError as error:
            raise EncryptionKeyError(
                f"the key file {path} cannot be used: {error.strerror}"
            ) from error
        except (ValueError, EncryptionKeyError) as error:
            raise EncryptionKeyError(
                f"the key file {path} holds no keys: each line is {_KEY_BYTES} bytes in base64, "
                "as 'openssl rand -base64 32' prints them"
            ) from error

    def encrypt(self, item: Mapping[str, Any], owner: str) -> str:
        """Encrypt JSON for the owner with this id; the text is ASCII."""
        name, key = self._keys[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        packed = zlib.compress(json.dumps(dict(item), separators=(",", ":")).encode("ascii"))
        ciphertext = key.encrypt(nonce, packed, _associated_data(owner))
        return _PREFIX + base64.urlsafe_b64encode(name + nonce + ciphertext).decode("ascii")

    def decrypt(self, text: str, owner: str) -> dict[str, Any]:
        """Decrypt a text of `encrypt` for the same owner. Raises `DecryptionError` otherwise."""
        try:
            data = base64.b64decode(text.removeprefix(_PREFIX), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        # Several texts stand for the same bytes, and only one of them was encrypted.
        if text == _PREFIX + base64.urlsafe_b64encode(data).decode("ascii"):
            name, data = data[:_NAME_BYTES], data[_NAME_BYTES:]
            nonce, ciphertext = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            for key in [key for key_name, key in self._keys if key_name == name]:
                try:
                    packed = key.decrypt(nonce, ciphertext, _associated_data(owner))
                except (InvalidTag, ValueError):  # ValueError: it is too short
                    continue
                item: dict[str, Any] = json.loads(zlib.decompress(packed))
                return item
        raise DecryptionError(
            "the encrypted reasoning was not made by this server for this API key, or was changed; "
            "send it as it came, or leave the item out"
        )


def _associated_data(owner: str) -> bytes:
    return _PREFIX.encode() + owner.encode("utf-8", "surrogatepass")


def _make_key_file(path: Path) -> None:
    """Make a file with a new key, whole or not at all; another server may do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # fails where the other was first; then its key is read
        except FileExistsError:
            return
    finally:
        draft.unlink()


class OwnerCipher:
    """Encrypts and decrypts items, with their tokens, for one owner.

    >>> cipher = OwnerCipher(ItemCipher.with_new_key(), owner="key_1")
    >>> text = cipher.encrypt([HistoryItem({"type": "reasoning", "content": []}, (17171,))])
    >>> cipher.decrypt(text)
    [HistoryItem(item={'type': 'reasoning', 'content': []}, tokens=(17171,), messages=())]
    >>> cipher.decrypt("another server's")
    """

    def __init__(self, cipher: ItemCipher, owner: str) -> None:
        self._cipher = cipher
        self._owner = owner

    def encrypt(self, items: Iterable[HistoryItem]) -> str:
        """Encrypt items."""
        packed = []
        for item in items:
            fields: dict[str, Any] = {"item": dict(item.item)}
            if item.tokens is not None:
                fields["tokens"] = list(item.tokens)
            if item.messages:
                fields["messages"] = list(item.messages)
            packed.append(fields)
        return self._cipher.encrypt({"items": packed}, self._owner)

    def encrypt_reasoning(self, message: Message) -> str:
        """Encrypt a message of reasoning, as the item that it becomes."""
        content = [{"type": "reasoning_text", "text": message_text(message)}]
        tokens = message.sampled_tokens if isinstance(message, SampledMessage) else None
        return self.encrypt([HistoryItem({"type": "reasoning", "content": content}, tokens)])

    def decrypt(self, text: str) -> Sequence[HistoryItem] | None:
        """Decrypt items; None where they were not encrypted here for this owner."""
        try:
            packed = self._cipher.decrypt(text, self._owner)["items"]
        except DecryptionError:
            return None
        return [
            HistoryItem(
                fields["item"],
                tuple(fields["tokens"]) if "tokens" in fields else None,
                fields.get("messages", ()),
            )
            for fields in packed
        ]
