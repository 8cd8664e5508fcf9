"""Reasoning that a client keeps for the server and cannot read: ``encrypted_content``.

AES-256-GCM under a key that only the server has. Whose it is, and the version of the form, are
bound to it: text that was changed, that another server or another key's owner was given, or that is
something else altogether, is recognised and never believed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..errors import HarmonyError

__all__ = ["ReasoningSeal", "SealKeyError", "UnsealError"]

_PREFIX = "hr1."  # names the form, and is bound to what is sealed
_KEY_BYTES = 32
_NAME_BYTES = 4  # of the hash of the key, to find it again
_NONCE_BYTES = 12  # random: good for four thousand million items under one key


class UnsealError(HarmonyError, ValueError):
    """The text was not sealed by this server for this owner, or it was changed since."""


class SealKeyError(HarmonyError):
    """The file of keys cannot be read or made."""


class ReasoningSeal:
    """Seals with the first of `keys`, each of 32 bytes, and opens what any of them has sealed.

    >>> seal = ReasoningSeal.with_new_key()
    >>> text = seal.seal({"text": "Two and two.", "tokens": [17171, 326]}, owner="key_1")
    >>> seal.unseal(text, owner="key_1")
    {'text': 'Two and two.', 'tokens': [17171, 326]}
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise SealKeyError(f"give one key or more, each of {_KEY_BYTES} bytes")
        self._keys = [(_name(key), AESGCM(key)) for key in keys]

    @classmethod
    def with_new_key(cls) -> ReasoningSeal:
        """Make a key that is forgotten with this object."""
        return cls([secrets.token_bytes(_KEY_BYTES)])

    @classmethod
    def from_file(cls, path: str | Path) -> ReasoningSeal:
        """Read the keys from a file, one in a line; make the file where there is none.

        To change the key, put a new line before the others, and take an old one away when what it
        sealed is no longer used. ``openssl rand -base64 32`` makes one. Raises `SealKeyError`.
        """
        path = Path(path)
        try:
            if not path.exists():
                _make_file(path)
            lines = path.read_text("ascii").split()
            return cls([base64.b64decode(line, validate=True) for line in lines])
        except OSError as error:
            raise SealKeyError(f"the key file {path} cannot be used: {error.strerror}") from error
        except (ValueError, SealKeyError) as error:
            raise SealKeyError(
                f"the key file {path} holds no keys: each line is {_KEY_BYTES} bytes in base64, "
                "as 'openssl rand -base64 32' prints them"
            ) from error

    def seal(self, item: Mapping[str, Any], owner: str) -> str:
        """Seal JSON for the owner with this id; the text is ASCII."""
        name, key = self._keys[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        packed = zlib.compress(json.dumps(dict(item), separators=(",", ":")).encode("ascii"))
        sealed = key.encrypt(nonce, packed, _bound(owner))
        return _PREFIX + base64.urlsafe_b64encode(name + nonce + sealed).decode("ascii")

    def unseal(self, text: str, owner: str) -> dict[str, Any]:
        """Open what `seal` returned for the same owner. Raises `UnsealError` for all else."""
        data = _decoded(text)
        name, data = data[:_NAME_BYTES], data[_NAME_BYTES:]
        nonce, sealed = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
        for known, key in self._keys:
            if known != name:
                continue
            try:
                packed = key.decrypt(nonce, sealed, _bound(owner))
            except (InvalidTag, ValueError):  # or it is too short
                continue
            item: dict[str, Any] = json.loads(zlib.decompress(packed))
            return item
        raise UnsealError(
            "the encrypted reasoning was not made by this server for this API key, or was changed; "
            "send it as it came, or leave the item out"
        )


def _decoded(text: str) -> bytes:
    """Return the bytes behind the prefix; none where the text is no such thing."""
    encoded = text.removeprefix(_PREFIX)
    try:
        data = base64.b64decode(encoded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    # Several texts stand for the same bytes, and only one of them was sealed.
    is_own = text == _PREFIX + base64.urlsafe_b64encode(data).decode("ascii")
    return data if is_own else b""


def _bound(owner: str) -> bytes:
    return _PREFIX.encode() + owner.encode("utf-8", "surrogatepass")


def _name(key: bytes) -> bytes:
    return hashlib.sha256(b"name of a key " + key).digest()[:_NAME_BYTES]


def _make_file(path: Path) -> None:
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
