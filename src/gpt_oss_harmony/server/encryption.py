"""Items that only the server can read: ``encrypted_content`` of reasoning, and compactions.

The encryption is AES-256-GCM with a key that only the server has. The text is bound to the owner
and the version of the format. A changed text, or one of another server or owner, is rejected.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import os
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..apis.items import HistoryItem
from ..conversation.messages import Message
from ..errors import HarmonyError
from ..sampled_messages import SampledMessage
from .private_files import make_private

_LOG = logging.getLogger(__name__)

_PREFIX = "hr1."  # names the format, and is bound to the text
_KEY_BYTES = 32
_NAME_BYTES = 4  # of the key's hash, which identify the key
_NONCE_BYTES = 12  # random: good for four thousand million items under one key


class DecryptionError(HarmonyError, ValueError):
    """The text was not encrypted by this server for this owner, or it was changed."""


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
        self._keys = _named_keys(keys)
        self._path: Path | None = None
        self._version: tuple[int, int] | None = None

    @classmethod
    def with_new_key(cls) -> ItemCipher:
        """Make a key that is forgotten with this object."""
        return cls([secrets.token_bytes(_KEY_BYTES)])

    @classmethod
    def from_file(cls, path: str | Path) -> ItemCipher:
        """Read the keys from a file, one per line; make the file if it is missing.

        If the file changes, it is read again (`rotate_keys`). Raises `EncryptionKeyError`.
        """
        path = Path(path)
        version = _version_of(path)
        cipher = cls(_read_keys(path))
        cipher._path, cipher._version = path, version
        return cipher

    def encrypt(self, item: Mapping[str, Any], owner: str) -> str:
        """Encrypt JSON for the owner with this id; the text is ASCII."""
        packed = zlib.compress(json.dumps(dict(item), separators=(",", ":")).encode("ascii"))
        sealed = self._seal(packed, _associated_data(owner))
        return _PREFIX + base64.urlsafe_b64encode(sealed).decode("ascii")

    def sign(self, fields: Sequence[str], owner: str) -> str:
        """Return hexadecimal digits with which `is_signed` knows these texts again."""
        return self._seal(b"", _signed_data(owner, fields)).hex()

    def is_signed(self, signature: str, fields: Sequence[str], owner: str) -> bool:
        """Return whether `sign` made this signature of the same texts for the same owner."""
        try:
            data = bytes.fromhex(signature)
        except ValueError:
            return False
        # Several texts are the same bytes, but only one of them was written by `sign`.
        return data.hex() == signature and self._open(data, _signed_data(owner, fields)) == b""

    def decrypt(self, text: str, owner: str) -> dict[str, Any]:
        """Decrypt a text of `encrypt` for the same owner. Raises `DecryptionError` otherwise."""
        try:
            data = base64.b64decode(text.removeprefix(_PREFIX), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        # Several texts decode to the same bytes, but only one of them was encrypted.
        if text == _PREFIX + base64.urlsafe_b64encode(data).decode("ascii"):
            packed = self._open(data, _associated_data(owner))
            if packed is not None:
                item: dict[str, Any] = json.loads(zlib.decompress(packed))
                return item
        raise DecryptionError(
            "the encrypted reasoning was not made by this server for this API key, or was changed; "
            "send it as it came, or leave the item out"
        )

    def _seal(self, data: bytes, associated: bytes) -> bytes:
        """Encrypt bytes, after the name of the key and a nonce."""
        self._read_again()
        name, key = self._keys[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return name + nonce + key.encrypt(nonce, data, associated)

    def _open(self, sealed: bytes, associated: bytes) -> bytes | None:
        """Decrypt what `_seal` made; None for anything else."""
        self._read_again()
        name, rest = sealed[:_NAME_BYTES], sealed[_NAME_BYTES:]
        # Short names of different keys may be equal, so every such key is tried.
        for key in [key for key_name, key in self._keys if key_name == name]:
            with suppress(InvalidTag, ValueError):  # ValueError: it is too short
                return key.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], associated)
        return None

    def _read_again(self) -> None:
        """Read the keys if the file has changed; keep the old ones if it cannot be read."""
        if self._path is None:
            return
        version = _version_of(self._path)
        if version in (None, self._version):
            return
        try:
            self._keys = _named_keys(_read_keys(self._path))
        except EncryptionKeyError:
            _LOG.exception("the key file cannot be read; the old keys stay in use")
        # Also after a failure, or each request would log it until the file changes.
        self._version = version


def rotate_keys(path: str | Path, *, keep: int | None = None) -> int:
    """Put a new key before the keys of a file; return the number of keys.

    From now on the new key encrypts, also at running servers. All keys decrypt; with `keep`, only
    this number of the newest keys is left. Raises `EncryptionKeyError`.
    """
    path = Path(path).resolve()  # what a link leads to is replaced, not the link
    if keep is not None and keep < 1:
        raise EncryptionKeyError(f"cannot keep {keep} keys: keep one or more")
    before = _read_keys(path) if path.exists() else []
    keys = [secrets.token_bytes(_KEY_BYTES), *before][:keep]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = _written_draft(path, keys)
        try:
            if before and os.name == "posix":
                owner = path.stat()
                os.chown(draft, owner.st_uid, owner.st_gid)  # the server's user, if root rotates
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error
    return len(keys)


def _named_keys(keys: Sequence[bytes]) -> list[tuple[bytes, AESGCM]]:
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise EncryptionKeyError(f"give one key or more, each of {_KEY_BYTES} bytes")
    return [
        (hashlib.sha256(b"name of a key " + key).digest()[:_NAME_BYTES], AESGCM(key))
        for key in keys
    ]


def _read_keys(path: Path) -> list[bytes]:
    """Read the keys of a file; make the file if it is missing."""
    try:
        if not path.exists():
            _make_key_file(path)
        with suppress(OSError):  # of a mounted secret, which its operator protects
            make_private(path)
        keys = [base64.b64decode(line, validate=True) for line in path.read_text("ascii").split()]
        _named_keys(keys)
        return keys
    except OSError as error:
        raise _unusable(path, error) from error
    except (ValueError, EncryptionKeyError) as error:
        raise EncryptionKeyError(
            f"the key file {path} has no valid keys: each line must be {_KEY_BYTES} bytes in "
            "base64, as 'openssl rand -base64 32' prints them"
        ) from error


def _unusable(path: Path, error: OSError) -> EncryptionKeyError:
    return EncryptionKeyError(f"the key file {path} cannot be used: {error.strerror}")


def _version_of(path: Path) -> tuple[int, int] | None:
    """Return a value that changes when a file is written again; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _associated_data(owner: str) -> bytes:
    return _PREFIX.encode() + owner.encode("utf-8", "surrogatepass")


def _signed_data(owner: str, fields: Sequence[str]) -> bytes:
    # As JSON, no two lists of texts become the same bytes; `signed` sets them apart from items.
    return _associated_data(json.dumps(["signed", owner, *fields]))


def _make_key_file(path: Path) -> None:
    """Make a file with a new key atomically; another server may do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _written_draft(path, [secrets.token_bytes(_KEY_BYTES)])
    try:
        os.link(draft, path)  # fails if the other was first; then its key is read
    except FileExistsError:
        return
    finally:
        draft.unlink()


def _written_draft(path: Path, keys: Iterable[bytes]) -> Path:
    """Write keys into a new file beside `path`, which will replace it."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"".join(base64.b64encode(key) + b"\n" for key in keys))
        file.flush()
        os.fsync(file.fileno())
    return draft


@dataclass(frozen=True)
class OwnerCipher:
    """Encrypts and decrypts items, with their tokens, for one owner.

    >>> cipher = OwnerCipher(ItemCipher.with_new_key(), owner="key_1")
    >>> text = cipher.encrypt([HistoryItem({"type": "reasoning", "content": []}, (17171,))])
    >>> cipher.decrypt(text)
    [HistoryItem(item={'type': 'reasoning', 'content': []}, tokens=(17171,), messages=())]
    >>> cipher.decrypt("another server's")
    """

    cipher: ItemCipher
    owner: str

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
        return self.cipher.encrypt({"items": packed}, self.owner)

    def encrypt_reasoning(self, message: Message) -> str:
        """Encrypt a message of reasoning, as the item that it becomes."""
        content = [{"type": "reasoning_text", "text": message.text}]
        tokens = message.sampled_tokens if isinstance(message, SampledMessage) else None
        return self.encrypt([HistoryItem({"type": "reasoning", "content": content}, tokens)])

    def decrypt(self, text: str) -> Sequence[HistoryItem] | None:
        """Decrypt items; None if they were not encrypted here for this owner."""
        try:
            packed = self.cipher.decrypt(text, self.owner)["items"]
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
