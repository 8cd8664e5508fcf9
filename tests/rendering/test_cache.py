"""The cache of rendered messages: what it keeps, what it drops, and who makes a value."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from gpt_oss_harmony.rendering import cache
from gpt_oss_harmony.rendering.cache import BoundedCache, SharedCache

LIMIT = 10
"""A generation is full with more than half of these bytes."""


def cache_of(*values: str, limit: int = LIMIT) -> BoundedCache[str, bytes]:
    """Return a cache in which these values were put, each under its own text."""
    cache = BoundedCache[str, bytes](limit=limit, size=len)
    cache.put_all((value, value.encode()) for value in values)
    return cache


@pytest.mark.parametrize(
    ("put", "kept", "dropped"),
    [
        ("a bb", "a bb", "x"),
        ("aaaaa", "aaaaa", "x"),  # half the cache
        ("aaaaaa", "", "aaaaaa"),  # more than half
        ("aaaaaa b", "b", "aaaaaa"),  # what is too large does not end the rest
        ("aaaa bbbb c", "aaaa bbbb c", "x"),  # one full generation, and the next
        ("aaaa bbbb cccc dddd", "cccc dddd", "aaaa bbbb"),
        ("aaa bbb ccc dd e", "ccc dd e", "x"),  # full with the sixth byte, and then anew
    ],
)
def test_a_full_generation_is_dropped_with_the_next(put: str, kept: str, dropped: str) -> None:
    for value in kept.split():
        assert cache_of(*put.split()).get(value) == value.encode()
    for value in dropped.split():
        assert cache_of(*put.split()).get(value) is None


def test_what_is_read_becomes_young() -> None:
    cache = cache_of("aaaa", "bbbb")  # both are old now
    assert not cache.young
    assert cache.get("aaaa") == b"aaaa"
    assert list(cache.young) == ["aaaa"]
    cache.put("cccc", b"cccc")
    assert (cache.get("aaaa"), cache.get("bbbb")) == (b"aaaa", None)


def test_a_value_that_is_discarded_leaves_its_room() -> None:
    cache = cache_of("aaaa")
    cache.discard("aaaa")
    cache.discard("nothing")
    cache.put_all([("bb", b"bb"), ("ccc", b"ccc")])
    assert list(cache.young) == ["bb", "ccc"]
    cache = cache_of("aaaa", "bbbb")
    cache.discard("aaaa")
    assert (cache.get("aaaa"), cache.get("bbbb")) == (None, b"bbbb")


def test_a_new_limit_empties_it_and_counts_from_nothing() -> None:
    cache = cache_of("aaaa", "bbbb", "cc")
    cache.set_limit(4)
    assert [cache.get(value) for value in ("aaaa", "bbbb", "cc")] == [None] * 3
    cache.put_all([("d", b"d"), ("e", b"e"), ("fff", b"fff")])
    assert list(cache.young) == ["d", "e"]
    cache.set_limit(0)
    cache.put("d", b"d")
    assert cache.get("d") is None


def test_a_value_is_made_once() -> None:
    cache = SharedCache[str, bytes](limit=LIMIT, size=len)
    made: list[str] = []

    def make() -> bytes:
        made.append("once")
        return b"value"

    assert [cache.get_or_make("a", make) for _ in range(3)] == [b"value"] * 3
    assert cache.get("a") == b"value"
    assert made == ["once"]


def test_a_value_that_came_meanwhile_is_not_made() -> None:
    class Late(SharedCache[str, bytes]):
        """Another thread stores the value after the first look."""

        looks = 0

        def get(self, key: str) -> bytes | None:
            self.looks += 1
            return b"theirs" if self.looks == 2 else None

    assert Late(LIMIT, len).get_or_make("a", lambda: b"ours") == b"theirs"


@pytest.mark.parametrize("fails", [False, True])
def test_threads_wait_for_the_one_that_makes_the_value(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, awaited = threading.Event(), threading.Event()

    class Awaited(Future[bytes]):
        def result(self, timeout: float | None = None) -> bytes:
            awaited.set()
            return super().result(timeout)

    def make() -> bytes:
        begun.set()
        assert awaited.wait(60)
        if fails:
            raise KeyError("no value")
        return b"value"

    shared = SharedCache[str, bytes](limit=LIMIT, size=len)
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(cache, "Future", Awaited)
        first = pool.submit(shared.get_or_make, "a", make)
        assert begun.wait(60)
        second = pool.submit(shared.get_or_make, "a", lambda: b"another")
        for thread in (first, second):
            if fails:
                with pytest.raises(KeyError, match="no value"):
                    thread.result()
            else:
                assert thread.result() == b"value"
    expected = b"another" if fails else b"value"  # an error is not kept
    assert shared.get_or_make("a", lambda: b"another") == expected
