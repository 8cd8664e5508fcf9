"""Encrypted items: only their server decrypts them, unchanged, for their owner."""

from __future__ import annotations

import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony.server.encryption import (
    DecryptionError,
    EncryptionKeyError,
    ItemCipher,
    rotate_keys,
)

CIPHER = ItemCipher([bytes(range(32))])
OTHER = ItemCipher([bytes(32)])
ITEM = {"text": "The user asks for a sum.", "tokens": [976, 1825, 31064, 200007]}
TEXT = CIPHER.encrypt(ITEM, "key_1")
TEXTS = st.text(st.characters(codec=None))


@given(
    st.dictionaries(TEXTS, TEXTS | st.lists(st.integers(0, 2**32)) | st.none()),
    TEXTS,
)
def test_decryption_undoes_encryption(item: dict[str, Any], owner: str) -> None:
    text = CIPHER.encrypt(item, owner)
    assert text.isascii()
    assert CIPHER.decrypt(text, owner) == item


def test_it_tells_nothing_and_never_the_same() -> None:
    assert CIPHER.encrypt(ITEM, "key_1") != TEXT
    data = base64.urlsafe_b64decode(TEXT.removeprefix("hr1."))
    assert b"user" not in data


def test_it_is_compressed() -> None:
    item = {"text": "Compare the numbers. " * 200, "tokens": list(range(500))}
    assert len(CIPHER.encrypt(item, "key_1")) < len(str(item)) / 2


@pytest.mark.parametrize(
    ("cipher", "owner"), [(OTHER, "key_1"), (CIPHER, "key_2"), (CIPHER, ""), (CIPHER, "key_1\0")]
)
def test_it_is_for_its_owner_at_its_server(cipher: ItemCipher, owner: str) -> None:
    with pytest.raises(DecryptionError, match="send it as it came, or leave the item out"):
        cipher.decrypt(TEXT, owner)


@given(st.integers(0, len(TEXT) - 1), st.characters(codec=None))
def test_a_change_is_seen(place: int, character: str) -> None:
    changed = TEXT[:place] + character + TEXT[place + 1 :]
    if changed != TEXT:
        with pytest.raises(DecryptionError):
            CIPHER.decrypt(changed, "key_1")


@given(st.integers(0, len(TEXT)), TEXTS)
def test_parts_and_additions_are_seen(place: int, more: str) -> None:
    for changed in (TEXT[:place] + more, TEXT[place:], TEXT + more + "=", more):
        if changed != TEXT:
            with pytest.raises(DecryptionError):
                CIPHER.decrypt(changed, "key_1")


FOREIGN = {
    "nothing": "",
    "a version alone": "hr1.",
    "another server's": "gAAAAABoISQ24OyVRYbkYfukdJoqdzWT-3uiErKInHDC-lgAaXeky44N",
    "another version": "hr2." + TEXT[4:],
    "a space before": " " + TEXT,
    "a line break behind": TEXT + "\n",
    "cut": TEXT[:20],
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)  # the key is new in each process
def test_foreign_text(text: str) -> None:
    with pytest.raises(DecryptionError):
        CIPHER.decrypt(text, "key_1")


@given(st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=3), TEXTS)
def test_a_signature_is_of_these_texts_and_this_owner(
    fields: list[str], others: list[str], owner: str
) -> None:
    signature = CIPHER.sign(fields, owner)
    assert CIPHER.is_signed(signature, fields, owner)
    assert CIPHER.is_signed(signature, others, owner) is (others == fields)
    assert not CIPHER.is_signed(signature, fields, owner + "x")
    assert not CIPHER.is_signed(signature.upper() + " ", fields, owner)
    assert not CIPHER.is_signed(signature[:-2], fields, owner)
    assert not OTHER.is_signed(signature, fields, owner)


# Keys


def test_keys_change_while_the_old_ones_open(tmp_path: Path) -> None:
    path = tmp_path / "new" / "harmony.key"
    old = ItemCipher.from_file(path)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["harmony.key"]
    text = old.encrypt(ITEM, "key_1")
    path.chmod(0o644)
    assert ItemCipher.from_file(path).decrypt(text, "key_1") == ITEM
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    new = base64.b64encode(bytes(32)).decode()
    path.write_text(f"{new}\n{path.read_text()}")
    both = ItemCipher.from_file(path)
    assert both.decrypt(text, "key_1") == ITEM
    assert OTHER.decrypt(both.encrypt(ITEM, "key_1"), "key_1") == ITEM
    path.write_text(new)
    with pytest.raises(DecryptionError):
        ItemCipher.from_file(path).decrypt(text, "key_1")


def test_servers_that_start_together_have_one_key(tmp_path: Path) -> None:
    paths = [tmp_path / "harmony.key"] * 16
    with ThreadPoolExecutor(16) as pool:
        ciphers = list(pool.map(ItemCipher.from_file, paths))
    text = ciphers[0].encrypt(ITEM, "key_1")
    assert all(cipher.decrypt(text, "key_1") == ITEM for cipher in ciphers)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", ["", "\n", "secret", "AAAA", "é", "A" * 44])
def test_a_file_without_keys(tmp_path: Path, content: str) -> None:
    path = tmp_path / "harmony.key"
    path.write_text(content, "utf-8")
    with pytest.raises(
        EncryptionKeyError, match=r"harmony\.key has no valid keys: each line must be 32 bytes"
    ):
        ItemCipher.from_file(path)
    assert path.read_text("utf-8") == content


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EncryptionKeyError, match="cannot be used"):
        ItemCipher.from_file(tmp_path / "file" / "harmony.key")


@pytest.mark.parametrize("keys", [[], [b""], [bytes(32), bytes(31)]])
def test_keys_of_the_wrong_length(keys: list[bytes]) -> None:
    with pytest.raises(EncryptionKeyError, match="each of 32 bytes"):
        ItemCipher(keys)


@pytest.mark.skipif(os.name != "posix", reason="owners and links of POSIX")
def test_a_rotated_file_keeps_its_owner_and_its_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.key", tmp_path / "harmony.key"
    rotate_keys(target)
    if os.geteuid() == 0:
        os.chown(target, 65534, 65534)
    before = target.stat()
    link.symlink_to(target)
    assert rotate_keys(link) == 2
    assert link.is_symlink()
    after = target.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (
        before.st_uid,
        before.st_gid,
        before.st_mode,
    )
    assert sorted(tmp_path.iterdir()) == [link, target]


def test_a_rotated_key_seals_at_servers_that_run(tmp_path: Path) -> None:
    path = tmp_path / "harmony.key"
    running = ItemCipher.from_file(path)
    before = running.encrypt(ITEM, "key_1")
    assert rotate_keys(path) == 2
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    after = running.encrypt(ITEM, "key_1")
    assert after[:9] != before[:9]  # the name of the key
    for cipher in (running, ItemCipher.from_file(path)):
        assert cipher.decrypt(before, "key_1") == cipher.decrypt(after, "key_1") == ITEM

    assert rotate_keys(path, keep=2) == 2
    assert running.decrypt(after, "key_1") == ITEM
    with pytest.raises(DecryptionError):
        running.decrypt(before, "key_1")
    assert [file.name for file in tmp_path.iterdir()] == ["harmony.key"]


def test_a_key_file_that_was_broken_leaves_the_keys_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "harmony.key"
    running = ItemCipher.from_file(path)
    text = running.encrypt(ITEM, "key_1")
    path.write_text("no keys")
    assert running.decrypt(text, "key_1") == ITEM
    assert running.decrypt(running.encrypt(ITEM, "key_1"), "key_1") == ITEM
    with pytest.raises(EncryptionKeyError, match="has no valid keys"):
        rotate_keys(path)


def test_no_rotation_forgets_all_keys(tmp_path: Path) -> None:
    with pytest.raises(EncryptionKeyError, match="keep one or more"):
        rotate_keys(tmp_path / "harmony.key", keep=0)
