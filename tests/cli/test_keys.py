"""``harmony keys``: keys are shown once, listed without their secrets, and revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.server.auth.api_keys import ApiKeyError, ApiKeys
from gpt_oss_harmony.server.encryption import DecryptionError, ItemCipher
from gpt_oss_harmony.server.store import KeyLimits, Store


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'keys.db'}"


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.strip()


def test_a_key_that_was_made_opens_the_server_until_it_is_revoked(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "create", "laptop", "--database", database]) == 0
    key = said(capsys)
    with Store(database) as store:
        record = ApiKeys(store.keys).check(key)
    assert record is not None
    assert (record.name, record.limits) == ("laptop", KeyLimits())

    assert main(["keys", "list", "--database", database]) == 0
    listed = said(capsys)
    assert record.id in listed
    assert "laptop" in listed
    assert key not in listed

    assert main(["keys", "revoke", record.id, "--database", database]) == 0
    assert "revoked" in said(capsys)
    with Store(database) as store, pytest.raises(ApiKeyError, match="revoked"):
        ApiKeys(store.keys).check(key)


def test_limits_are_kept_and_listed(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--requests-per-minute", "60", "--tokens-per-minute", "1000"]
    assert main(["keys", "create", "ci", *limits, "--database", database]) == 0
    key = said(capsys)
    with Store(database) as store:
        record = ApiKeys(store.keys).check(key)
    assert record is not None
    assert record.limits == KeyLimits(requests_per_minute=60, tokens_per_minute=1000)
    main(["keys", "list", "--database", database])
    assert said(capsys).endswith("requests-per-minute 60, tokens-per-minute 1000")


def test_an_unknown_key_is_one_clear_line(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(database).close()
    assert main(["keys", "revoke", "key_0", "--database", database]) == 1
    error = capsys.readouterr().err
    assert "there is no key 'key_0'; 'harmony keys list' shows the ids" in error
    assert error.count("\n") == 1


def test_a_database_without_keys_says_so(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    Store(database).close()
    assert main(["keys", "list", "--database", database]) == 0
    assert capsys.readouterr() == ("", "no keys yet; 'harmony keys create NAME' makes one\n")


def test_listing_and_revoking_make_no_database(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["keys", "list"]) == 0
    assert capsys.readouterr() == ("", "no keys yet; 'harmony keys create NAME' makes one\n")
    for arguments in (["revoke", "key_0"], ["list", "--database", database]):
        assert main(["keys", *arguments]) == 1
        assert "there is no database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_used_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database" * 100)
    assert main(["keys", "list", "--database", f"sqlite:///{broken}"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_new_key_seals_and_the_old_ones_still_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sealing.key"
    text = ItemCipher.from_file(path).encrypt({"text": "Hm."}, "key_1")
    assert main(["keys", "rotate", "--key-file", str(path)]) == 0
    assert said(capsys) == f"a new key seals from now on; {path} has 2"
    assert ItemCipher.from_file(path).decrypt(text, "key_1") == {"text": "Hm."}
    assert main(["keys", "rotate", "--keep", "1", "--key-file", str(path)]) == 0
    with pytest.raises(DecryptionError):
        ItemCipher.from_file(path).decrypt(text, "key_1")
