"""Messages between servers over PostgreSQL: any text arrives; other notifications are ignored."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony.server.peers import JoinedPieces, PostgresChannel
from gpt_oss_harmony.server.store import Store

pytest_plugins = ("support.postgres_server", "support.databases")

TEXTS = [
    "",
    "'); DROP TABLE responses; --",
    "\0\x01%s %(a)s {}",
    "\ud83d é 🙂",
    "x" * 200_000,
    '"\\',
]
GARBAGE = ["", "x", "a b c", "a b 0 {", "a b 0 {}", "a b 0 []", "a b 0 null", "a b 0 " + "[" * 5000]


@pytest.fixture
def url(empty_postgres: str) -> Any:
    with Store(empty_postgres) as store:
        assert store.postgres_url is not None
        return store.postgres_url


def test_every_text_arrives_and_garbage_ends_nothing(url: Any, empty_postgres: str) -> None:
    async def flow() -> list[Any]:
        received: list[Any] = []
        arrived = asyncio.Event()

        def receive(text: str) -> None:
            message = json.loads(text)
            received.append(message["text"])
            if len(received) == 2 * len(TEXTS):
                arrived.set()

        one, other = PostgresChannel(url, "one"), PostgresChannel(url, "other")
        await one.open(receive)
        try:
            for text in TEXTS:
                await other.send("one", json.dumps({"text": text}))
                async with await psycopg.AsyncConnection.connect(empty_postgres) as client:
                    for garbage in GARBAGE:
                        await client.execute("SELECT pg_notify('harmony_one', %s)", [garbage])
                await other.send("one", json.dumps({"text": text}))
            await arrived.wait()
        finally:
            await one.close()
            await other.close()
        return received

    assert asyncio.run(flow()) == [text for text in TEXTS for _ in range(2)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.text()), max_size=40))
def test_unfinished_messages_are_bounded(sent: list[tuple[str, int, str]]) -> None:
    """A user of the database begins messages and never ends them; those of servers arrive."""
    messages = JoinedPieces(most=2_000)
    for sender, number, piece in sent:
        assert messages.add(f"{sender} {number} 7 {piece}") is None
        assert messages.size <= 2_000
        assert messages.add(f"server 1 1 {piece}") is None
        assert messages.add("server 1 0 , whole") == f"{piece}, whole"


def test_a_message_that_is_too_long_is_never_whole() -> None:
    messages = JoinedPieces(most=2_000)
    for _ in range(100):
        assert messages.add("a 1 1 " + "x" * 500) is None
    assert len(messages.add("a 1 0 y") or "") < 2_000
