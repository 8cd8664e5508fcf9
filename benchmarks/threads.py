"""What two threads gain.

    python -m benchmarks.threads [--least N]

parses, streams and renders in one thread and in two, each with tokens and prompts of its own, and
prints how many times as fast two are; with less than N, the exit status is 1. Only a free-threaded
Python can gain much.

`thread_rows` measures where nothing but tiktoken works: two texts of a long prompt each.

The pattern that cuts text into words has a lookahead, and patterns with one share their memory
between threads. The thread that used it first is fastest, the others take locks at each word.
Processes share nothing, nor do threads whose pattern has no lookahead.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import queue
import random
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

from benchmarks.workloads import ENCODING, conversation, objects
from benchmarks.workloads import render as render_prompt
from gpt_oss_harmony.tokens.tiktoken_core import WORD_PATTERN, TiktokenCore
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary
from openai_harmony import Conversation, Role, StreamableParser

TIKTOKEN = TiktokenCore(load_vocabulary().ranks()).bpe
HEADINGS = ("two texts", "ms", "times as fast as the first row")

_Texts = tuple[str, str]


def thread_rows(runs: int) -> list[dict[str, Any]]:
    """Measure each way to encode two texts; return its name and its median milliseconds."""
    encode(" ".join(text(0)))  # in this thread first
    pattern = WORD_PATTERN.replace(r"|\s+(?!\S)", "")
    free = type(TIKTOKEN)(load_vocabulary().ranks(), {}, pattern)

    def free_encode(text: str) -> None:
        free.encode_to_tiktoken_buffer(text, set())

    shared = [Worker(), Worker()]
    processes = [spawned(), spawned()]
    ways: dict[str, Callable[[_Texts], None]] = {
        "one after the other, in the first thread to encode": in_turn,
        "one after the other, in another thread": lambda texts: wait(
            [shared[0].start(in_turn, texts)]
        ),
        "in two threads": lambda texts: wait(
            [worker.start(encode, item) for worker, item in zip(shared, texts, strict=True)]
        ),
        "in two threads, without the lookahead in the pattern": lambda texts: wait(
            [worker.start(free_encode, item) for worker, item in zip(shared, texts, strict=True)]
        ),
        "in two processes": lambda texts: exchange(processes, texts),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for run in range(runs + 1):
        for name, way in ways.items():
            texts = (" ".join(text(2 * run)), " ".join(text(2 * run + 1)))
            gc.collect()
            gc.disable()
            start = time.perf_counter()
            way(texts)
            times[name].append(time.perf_counter() - start)
            gc.enable()
    for process in processes:
        process.send("")
    return [{"work": name, "ms": 1e3 * median(found[1:])} for name, found in times.items()]


def text(seed: int) -> list[str]:
    """The texts of a conversation of 50 turns, about 84,000 characters."""
    messages = conversation(random.Random(4000 + seed), 50)["messages"]
    return [item["content"] for item in messages if isinstance(item["content"], str)]


def encode(text: str) -> None:
    """Encode by tiktoken alone."""
    TIKTOKEN.encode_to_tiktoken_buffer(text, set())


def in_turn(texts: _Texts) -> None:
    """Encode one text after the other."""
    for item in texts:
        encode(item)


class Worker:
    """A thread that goes on from run to run, as those of a server do."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[Any], None], Any, threading.Event]]
        self._work = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def start(self, work: Callable[[Any], None], value: Any) -> threading.Event:
        """Have work done; the event says when it is."""
        done = threading.Event()
        self._work.put((work, value, done))
        return done

    def _run(self) -> None:
        while True:
            work, value, done = self._work.get()
            work(value)
            done.set()


def wait(events: list[threading.Event]) -> None:
    """Wait for all of them."""
    for event in events:
        event.wait()


def spawned() -> Connection:
    """A process that encodes what it is sent, until that is empty."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    context.Process(target=serve, args=(there,), daemon=True).start()
    return here


def serve(connection: Connection) -> None:
    """Encode in a process of its own."""
    while received := connection.recv():
        encode(received)
        connection.send(None)


def exchange(processes: list[Connection], texts: _Texts) -> None:
    """Send a text to each process, and wait for both."""
    for process, item in zip(processes, texts, strict=True):
        process.send(item)
    for process in processes:
        process.recv()


def cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The texts of the table."""
    return [[r["work"], f"{r['ms']:.2f}", f"{rows[0]['ms'] / r['ms']:.2f}"] for r in rows]


# Parsing and rendering


def completions(seed: int) -> list[list[int]]:
    """The tokens of long answers."""
    marked = (f"<|channel|>final<|message|>{' '.join(text(seed + n))}<|return|>" for n in range(8))
    return [ENCODING.encode(item, allowed_special="all") for item in marked]


def prompts(seed: int) -> list[Conversation]:
    """Conversations that were never rendered."""
    return [objects(conversation(random.Random(9000 + 10 * seed + n), 50)) for n in range(8)]


def stream(items: list[list[int]]) -> None:
    """Parse one token at a time."""
    for item in items:
        parser = StreamableParser(ENCODING, role=Role.ASSISTANT)
        for token in item:
            parser.process(token)


def parse(items: list[list[int]]) -> None:
    """Parse whole completions."""
    for item in items * 5:
        ENCODING.parse_messages_from_completion_tokens(item, Role.ASSISTANT)


def render(items: list[Conversation]) -> None:
    """Render prompts."""
    for item in items:
        render_prompt(item)


WORKS: dict[str, tuple[Callable[[int], Any], Callable[[Any], None]]] = {
    "stream": (completions, stream),
    "parse": (completions, parse),
    "render": (prompts, render),
}


def seconds(name: str, threads: int, seed: int) -> float:
    """The time in which threads do a work at once; each first makes what it reads."""
    make, work = WORKS[name]
    begin, end = threading.Barrier(threads + 1), threading.Barrier(threads + 1)

    def run(own: int) -> None:
        items = make(own)
        begin.wait()
        work(items)
        end.wait()

    for number in range(threads):
        threading.Thread(target=run, args=(100 * seed + 50 * number,), daemon=True).start()
    begin.wait()
    start = time.perf_counter()
    end.wait()
    return time.perf_counter() - start


def main() -> int:
    """Print a line for each work."""
    parser = argparse.ArgumentParser(description="Measure what two threads gain")
    parser.add_argument("--least", type=float, default=0, help="less than this is an error")
    least = parser.parse_args().least
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, {'with' if has_lock else 'without'} the GIL")
    gains = []
    for name in WORKS:
        seconds(name, 1, 0)  # what is made once
        runs = range(1, 8)
        one, two = (median(seconds(name, count, 2 * run) for run in runs) for count in (1, 2))
        gains.append(2 * one / two)
        print(f"{name}: two threads are {gains[-1]:.2f} times as fast as one")
    return 1 if min(gains) < least else 0


if __name__ == "__main__":
    sys.exit(main())
