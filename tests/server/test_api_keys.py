"""API keys: made, checked, revoked, limited."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from gpt_oss_harmony.server.auth import api_keys
from gpt_oss_harmony.server.auth.api_keys import ApiKeyError, ApiKeys
from gpt_oss_harmony.server.auth.limits import KeyLimiter
from gpt_oss_harmony.server.store import KeyLimits, NotFoundError, Store
from gpt_oss_harmony.server.store.keys import KeyRecord
from support.databases import Clock

pytest_plugins = ("support.postgres_server", "support.databases")


def test_a_key_opens_until_it_is_revoked(store: Store, clock: Clock) -> None:
    keys = ApiKeys(store.keys, clock=clock)
    limits = KeyLimits(60, 4, 100_000)
    new = keys.create("laptop", limits)
    assert re.fullmatch(r"sk-harmony-[\w-]{43}", new.key)
    assert keys.check(new.key) == new.record
    assert (new.record.name, new.record.limits) == ("laptop", limits)
    assert new.record.created_at == int(clock.time)
    other = keys.create("\0phone é")
    assert keys.all() == sorted((new.record, other.record), key=lambda record: record.id)
    clock.time += 10
    assert keys.revoke(new.record.id).revoked_at == int(clock.time)
    with pytest.raises(ApiKeyError, match="was revoked"):
        keys.check(new.key)
    assert keys.check(other.key) == other.record
    clock.time += 10
    assert keys.revoke(new.record.id).revoked_at == int(clock.time) - 10
    with pytest.raises(NotFoundError):
        keys.revoke("key_9")


def test_nothing_that_is_kept_or_shown_is_the_key(store: Store) -> None:
    new = ApiKeys(store.keys).create("laptop")
    with store._database.reading() as connection:
        row = connection.execute(text("SELECT * FROM api_keys")).one()
    secret = new.key.removeprefix("sk-harmony-")
    assert hashlib.sha256(new.key.encode()).hexdigest() in row
    assert secret not in repr(tuple(row))
    assert secret not in repr(new)
    assert new.record.hash not in repr(new)


@pytest.mark.parametrize(
    "key", ["", "sk-harmony-", "SECRET", "secret ", "secret\0", "\ud800", "é" * 9000]
)
def test_other_keys_open_nothing(store: Store, key: str) -> None:
    for keys in (ApiKeys(store.keys, ["secret"]), ApiKeys(given=["secret", "more"])):
        with pytest.raises(ApiKeyError, match="unknown"):
            keys.check(key)
        with pytest.raises(ApiKeyError, match="Authorization: Bearer"):
            keys.check(None)


def test_keys_that_were_given_own_the_same_after_a_restart() -> None:
    first, second = (ApiKeys(given=["secret", "other"]).check("secret") for _ in range(2))
    assert first == second
    assert first is not None
    assert first.id.startswith("key_")
    assert "secret" not in repr(first)
    with pytest.raises(ValueError, match="is empty"):
        ApiKeys(given=[" "])


def test_a_server_without_keys_is_open_until_it_has_one(store: Store) -> None:
    keys = ApiKeys(store.keys)
    assert keys.check(None) is None
    assert keys.check("anything") is None
    keys.revoke(keys.create("first").record.id)
    for key in (None, "anything"):
        with pytest.raises(ApiKeyError):
            keys.check(key)


def test_keys_need_a_store_and_sensible_limits(store: Store) -> None:
    with pytest.raises(ApiKeyError, match="has no store"):
        ApiKeys().create("laptop")
    with pytest.raises(ValueError, match="concurrent_requests is 0; give 1 or more"):
        ApiKeys(store.keys).create("laptop", KeyLimits(concurrent_requests=0))
    assert ApiKeys(store.keys).all() == []


# Limits


class Seconds:
    """A clock that goes when it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_requests_per_minute() -> None:
    clock = Seconds()
    limiter = KeyLimiter(clock)
    limits = KeyLimits(requests_per_minute=2)
    assert limiter.begin("a", limits) is None
    clock.now += 10
    assert limiter.begin("a", limits) is None
    clock.now += 20
    refusal = limiter.begin("a", limits)
    assert refusal == ("2 requests are allowed to this API key in a minute", 30)
    assert limiter.begin("b", limits) is None  # each key has its own
    clock.now += 30
    assert limiter.begin("a", limits) is None
    assert limiter.begin("a", limits) is not None


def test_concurrent_requests() -> None:
    limiter = KeyLimiter(Seconds())
    limits = KeyLimits(concurrent_requests=1)
    assert limiter.begin("a", limits) is None
    refusal = limiter.begin("a", limits)
    assert refusal == ("1 request is allowed to this API key at a time", 1)
    limiter.end("a", limits)
    assert limiter.begin("a", limits) is None


def test_tokens_per_minute() -> None:
    clock = Seconds()
    limiter = KeyLimiter(clock)
    limits = KeyLimits(tokens_per_minute=1_000)
    for tokens in (400, 100, 5_000):
        assert limiter.begin("a", limits) is None
        limiter.end("a", limits, tokens)
        clock.now += 10
    refusal = limiter.begin("a", limits)
    assert refusal == ("1,000 tokens are allowed to this API key in a minute", 50)
    clock.now += 50
    assert limiter.begin("a", limits) is None


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=60),
    st.integers(1, 5),
    st.integers(1, 20),
)
def test_no_minute_has_more_than_is_allowed(
    steps: Sequence[tuple[int, int]], requests: int, tokens: int
) -> None:
    clock = Seconds()
    limiter = KeyLimiter(clock)
    limits = KeyLimits(requests_per_minute=requests, tokens_per_minute=tokens)
    begun: list[tuple[float, int]] = []
    for pause, amount in steps:
        clock.now += pause
        last = [entry for entry in begun if entry[0] > clock.now - 60]
        is_free = len(last) < requests and sum(used for _, used in last) < tokens
        refusal = limiter.begin("a", limits)
        assert (refusal is None) == is_free
        if refusal is not None:
            assert 0 < refusal.retry_after <= 60
            clock.now += refusal.retry_after  # then there is room, unless for another reason
            refusal = limiter.begin("a", limits)
        if refusal is None:
            limiter.end("a", limits, amount)
            begun.append((clock.now, amount))


def test_a_caller_is_remembered_for_a_second(store: Store, clock: Clock) -> None:
    """Within it, a revoked key opens; refusals are not remembered, so a new key opens at once."""
    keys = ApiKeys(store.keys, clock=clock)
    assert keys.caller("").owner == ""
    remembered = keys.recent_caller("")
    assert remembered is not None
    new = keys.create("laptop", KeyLimits(60))
    assert keys.recent_caller("") is None  # whoever makes a key in this process means it at once
    with pytest.raises(ApiKeyError):
        keys.caller("")
    assert keys.recent_caller(new.key) is None
    caller = keys.caller(new.key)
    assert (caller.owner, caller.limits) == (new.record.id, KeyLimits(60))
    elsewhere = ApiKeys(store.keys, clock=clock)
    elsewhere.revoke(new.record.id)
    clock.time += 0.9
    assert keys.recent_caller(new.key) == caller
    clock.time += 0.2
    assert keys.recent_caller(new.key) is None
    clock.time -= 3600  # somebody set the clock back
    assert keys.recent_caller(new.key) is None
    clock.time += 3600
    with pytest.raises(ApiKeyError, match="was revoked"):
        keys.caller(new.key)
    assert keys.recent_caller(new.key) is None


def test_a_caller_in_the_midst_of_its_requests_waits_for_no_look_up(
    store: Store, clock: Clock
) -> None:
    keys, elsewhere = ApiKeys(store.keys, clock=clock), ApiKeys(store.keys, clock=clock)
    first, second = keys.create("first"), keys.create("second")
    keys.check_recent()  # does nothing, as nobody asked
    caller = keys.caller(first.key)
    assert keys.recent_caller(first.key) == caller
    keys.check_recent()  # forgets them once: it did not know what was in the database
    caller = keys.caller(first.key)
    for _ in range(10):
        clock.time += 0.5
        keys.check_recent()
        assert keys.recent_caller(first.key) == caller
    elsewhere.revoke(second.record.id)
    clock.time += 0.5
    keys.check_recent()
    assert keys.recent_caller(first.key) is None
    caller = keys.caller(first.key)
    elsewhere.revoke(first.record.id)
    clock.time += 1
    assert keys.recent_caller(first.key) is None  # also where nothing is checked


def test_a_check_in_the_midst_of_a_request_lets_no_revoked_key_through(store: Store) -> None:
    checks: list[ApiKeys] = []

    class Interrupted(Clock):
        def __call__(self) -> float:
            """Another thread checks the keys, just before the time is read."""
            if checks:
                checks.pop().check_recent()
            return super().__call__()

    clock = Interrupted()
    keys, elsewhere = ApiKeys(store.keys, clock=clock), ApiKeys(store.keys)
    new, other = keys.create("laptop"), keys.create("server")
    keys.recent_caller("")
    keys.check_recent()
    keys.caller(new.key)
    elsewhere.revoke(new.record.id)
    clock.time += 36_000
    keys.recent_caller(other.key)
    checks.append(keys)
    assert keys.recent_caller(new.key) is None


def test_a_key_that_is_revoked_while_it_is_looked_up_is_not_remembered(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, elsewhere = ApiKeys(store.keys, clock=clock), ApiKeys(store.keys, clock=clock)
    new = keys.create("laptop")
    check = keys.check

    def slow_check(key: str | None) -> KeyRecord | None:
        record = check(key)
        elsewhere.revoke(new.record.id)
        keys.recent_caller(new.key)
        keys.check_recent()
        return record

    monkeypatch.setattr(keys, "check", slow_check)
    keys.caller(new.key)
    assert keys.recent_caller(new.key) is None


def test_callers_of_many_keys_are_not_all_remembered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "_MOST_REMEMBERED", 8)
    keys = ApiKeys(store.keys)
    for number in range(20):
        keys.caller(f"key {number}")
    remembered = [keys.recent_caller(f"key {number}") is not None for number in range(20)]
    assert remembered[-1]
    assert 1 <= sum(remembered) <= 8
