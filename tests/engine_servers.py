"""Small servers that answer as vLLM and llama.cpp do, with tokens from a model of noise.

Real sockets, so that connections really break; written from vLLM 0.33's protocol classes and from
the documentation of llama.cpp's server.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openai_harmony import load_harmony_encoding
from openai_harmony.engines.lost_tokens import text_of
from openai_harmony.grammar import Matcher
from openai_harmony.special_tokens import CALL, END_OF_TEXT, FIRST_SPECIAL, RETURN

ENCODING = load_harmony_encoding("HarmonyGptOss")
CONTEXT = 1000
CANDIDATES = 40  # tokens that the model of noise gives any probability


class Step(NamedTuple):
    """A sampled token, and the model's log-probabilities, the likeliest first."""

    token: int
    logprob: float
    tops: list[tuple[int, float]]
    reason: str | None = None


@dataclass
class Settings:
    """What both protocols say, under one name."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    frequency: float
    presence: float
    repetition: float
    seed: int | None
    stops: frozenset[int]
    logprobs: int | None
    grammar: str | None


class Noise:
    """Samples a completion from logits that depend on the tokens so far, and nothing else."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._random = random.Random(settings.seed)
        self._matcher = Matcher(settings.grammar) if settings.grammar is not None else None
        self._tokens: list[int] = []

    def __iter__(self) -> Iterator[Step]:
        settings = self._settings
        while True:
            logits = self._logits()
            token = self._choose(self._penalised(logits))
            self._tokens.append(token)
            if self._matcher is not None:
                assert self._matcher.accept(token)
            total = math.log(sum(map(math.exp, logits.values())))
            ordered = sorted(logits.items(), key=lambda item: -item[1])
            tops = [(one, logit - total) for one, logit in ordered]
            reason = None
            if token in settings.stops:
                reason = "stop"
            elif len(self._tokens) == settings.max_tokens:
                reason = "length"
            yield Step(token, logits[token] - total, tops, reason)
            if reason is not None:
                return

    def _logits(self) -> dict[int, float]:
        text = json.dumps([self._settings.prompt, self._tokens])
        noise = random.Random(hashlib.sha256(text.encode()).digest())
        known = noise.sample(whole_tokens(), CANDIDATES)
        if self._matcher is not None:
            mask = self._matcher.bitmask()
            ends = range(FIRST_SPECIAL, 8 * len(mask))
            known = [one for one in (*known, *ends) if mask[one // 8] >> one % 8 & 1]
            known = known or [noise.choice(self._matcher.allowed_tokens())]
        again = [token for token in self._tokens[-8:] if self._matcher is None]
        candidates = {*known, *again}
        return {token: noise.gauss(0, 2) for token in sorted(candidates)}

    def _penalised(self, logits: dict[int, float]) -> dict[int, float]:
        settings, scores = self._settings, dict(logits)
        for token in scores:
            if token in self._tokens or token in settings.prompt:
                factor = settings.repetition
                scores[token] *= 1 / factor if scores[token] > 0 else factor
            if token in self._tokens:
                scores[token] -= settings.presence
                scores[token] -= settings.frequency * self._tokens.count(token)
        return scores

    def _choose(self, scores: dict[int, float]) -> int:
        settings = self._settings
        ordered = sorted(scores, key=lambda token: -scores[token])
        if settings.temperature == 0:
            return ordered[0]
        best = scores[ordered[0]]
        weights = [math.exp((scores[token] - best) / settings.temperature) for token in ordered]
        kept = [weight for weight in weights if weight >= settings.min_p]
        if settings.top_k:
            kept = kept[: settings.top_k]
        total, sofar, count = sum(kept), 0.0, 0
        while count < len(kept) and (not count or sofar < settings.top_p * total):
            sofar += kept[count]
            count += 1
        return self._random.choices(ordered[:count], kept[:count])[0]


@dataclass
class Faults:
    """What goes wrong; numbers count events of an answer."""

    vanish_after: int | None = None
    hang_after: int | None = None
    garbage_after: int | None = None
    error_after: int | None = None
    stop_after: int | None = None
    busy: int = 0  # requests that are turned away first
    refuse: tuple[int, Any] | None = None
    page: bytes | None = None  # an answer that is no JSON
    script: list[int] | None = None  # tokens to send, whatever is asked for
    ignore_grammar: bool = False


@dataclass
class Counts:
    requests: int = 0
    running: int = 0
    aborted: int = 0
    steps: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)


class StandIn(ABC):
    """One server; `url` is where it listens, `counts` what it has been busy with."""

    path: str

    def __init__(self, *, pace: float = 0.0005, api_key: str | None = None) -> None:
        self.faults = Faults()
        self.counts = Counts()
        self.url = ""
        self._pace = pace
        self._api_key = api_key
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StandIn]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._answering:
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._converse(reader, writer)
        finally:
            self._answering.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split("\r\n")[0].split(" ")
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            if self._api_key and path != "/health":
                key = f"bearer {self._api_key}".lower()
                if headers.get("authorization", "").lower() != key:
                    await send(writer, 401, {"error": "Unauthorized"})
                    continue
            if method == "POST" and path == self.path:
                if not await self._complete(json.loads(body), reader, writer):
                    return
            else:
                await send(writer, *self.about(path))

    async def _complete(
        self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer a request for a completion; False where the connection is lost."""
        if not body:
            await send(writer, 400, refusal(400, "field required: token_ids"))
            return True
        self.counts.requests += 1
        self.counts.bodies.append(body)
        if self.counts.requests <= self.faults.busy:
            await send(writer, 503, refusal(503, "busy"))
            return True
        refused = self.faults.refuse or self.refuses(body)
        if refused is not None:
            await send(writer, *refused)
            return True
        if self.faults.page is not None:
            await send(writer, 200, self.faults.page, kind="text/html")
            return True
        self.counts.running += 1
        gone = asyncio.ensure_future(reader.read(1))
        try:
            return await self._stream(body, writer, gone)
        finally:
            gone.cancel()
            self.counts.running -= 1

    async def _stream(
        self, body: dict[str, Any], writer: asyncio.StreamWriter, gone: asyncio.Future[bytes]
    ) -> bool:
        steps = self._steps(body)
        if not body["stream"]:
            found = [step async for step in steps if not gone.done()]
            if gone.done():
                self.counts.aborted += 1
                return False
            await send(writer, 200, self.whole(body, found), close=True)
            return False
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        sent = 0
        async for step in steps:
            if gone.done():
                self.counts.aborted += 1
                return False
            for event in self.events(body, step):
                if not await self._fail(sent, writer, gone):
                    return False
                await send_chunk(writer, f"data: {event}\n\n".encode())
                sent += 1
        if not await self._fail(sent, writer, gone):
            return False
        for event in self.ending(body):
            await send_chunk(writer, f"data: {event}\n\n".encode())
        await send_chunk(writer, b"")
        return False

    async def _steps(self, body: dict[str, Any]) -> AsyncIterator[Step]:
        settings = self.settings(body)
        if self.faults.ignore_grammar:
            settings.grammar = None
        if self.faults.script is not None:
            last = len(self.faults.script) - 1
            for at, token in enumerate(self.faults.script):
                yield Step(token, -1.0, [(token, -1.0)], "stop" if at == last else None)
            return
        for step in Noise(settings):
            self.counts.steps += 1
            await asyncio.sleep(self._pace)
            yield step

    async def _fail(
        self, sent: int, writer: asyncio.StreamWriter, gone: asyncio.Future[bytes]
    ) -> bool:
        """Do what `faults` say for this place of the answer; False where it ends the connection."""
        faults = self.faults
        if sent == faults.vanish_after:
            writer.transport.abort()
            return False
        if sent == faults.hang_after:
            await gone
            self.counts.aborted += 1
            return False
        if sent == faults.garbage_after:
            await send_chunk(writer, b"data: {not json\n\n")
        if sent == faults.error_after:
            event = json.dumps(refusal(500, "the model broke"))
            await send_chunk(writer, f"data: {event}\n\n".encode())
        if sent == faults.stop_after:
            await send_chunk(writer, b"")
            return False
        return True

    @abstractmethod
    def about(self, path: str) -> tuple[int, Any]:
        """Answer a request for anything but a completion."""

    @abstractmethod
    def refuses(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        """Return the error for a request that is wrong."""

    @abstractmethod
    def settings(self, body: dict[str, Any]) -> Settings:
        """Read a request."""

    @abstractmethod
    def events(self, body: dict[str, Any], step: Step) -> Iterator[str]:
        """Return the events for a token."""

    def ending(self, body: dict[str, Any]) -> Iterator[str]:
        """Return the events after the last token."""
        yield "[DONE]"

    def whole(self, body: dict[str, Any], steps: list[Step]) -> Any:
        """Return an answer that is not streamed."""
        raise NotImplementedError


class VllmStandIn(StandIn):
    """``vllm serve``; with `completions`, one without ``--enable-scale-out``."""

    def __init__(self, *, completions: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._completions = completions
        self.path = "/v1/completions" if completions else "/inference/v1/generate"

    def about(self, path: str) -> tuple[int, Any]:
        if path == "/health":
            return 200, b""
        if path == "/v1/models":
            model = {"id": "noise", "object": "model", "owned_by": "vllm", "max_model_len": CONTEXT}
            adapter = {"id": "adapter", "object": "model", "max_model_len": None}
            return 200, {"object": "list", "data": [model, adapter]}
        if path == "/inference/v1/generate":
            return 403, refusal(403, "Scale-out endpoints are disabled.")
        return 404, {"detail": "Not Found"}

    def refuses(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        settings = self.settings(body)
        if (settings.logprobs or 0) > 20:
            return 400, refusal(400, "Requested sample logprobs of 21, which is greater than max")
        if body["model"] not in ("noise", "adapter"):
            return 404, refusal(404, f"The model `{body['model']}` does not exist.")
        return None

    def settings(self, body: dict[str, Any]) -> Settings:
        found = body if self._completions else body["sampling_params"]
        assert found["ignore_eos"] is True
        constraint = found.get("structured_outputs")
        if constraint and not self._completions:
            assert body["reasoning_ended"] is True
        return Settings(
            prompt=body["prompt" if self._completions else "token_ids"],
            max_tokens=found["max_tokens"],
            temperature=found["temperature"],
            top_k=found["top_k"],
            top_p=found["top_p"],
            min_p=found["min_p"],
            frequency=found["frequency_penalty"],
            presence=found["presence_penalty"],
            repetition=found["repetition_penalty"],
            seed=found.get("seed"),
            stops=frozenset(found["stop_token_ids"]),
            logprobs=found.get("logprobs"),
            grammar=constraint and constraint["grammar"],
        )

    def events(self, body: dict[str, Any], step: Step) -> Iterator[str]:
        settings = self.settings(body)
        choice: dict[str, Any] = {
            "index": 0,
            "logprobs": None,
            "finish_reason": step.reason,
            "stop_reason": step.token if step.reason == "stop" else None,
            "token_ids": [step.token],
        }
        if settings.logprobs is not None:
            tops = with_sampled(step, settings.logprobs)
            choice["logprobs"] = (self._logprobs if self._completions else generated)(step, tops)
        if not self._completions:
            yield json.dumps({"request_id": "1", "output_mode": "tokens", "choices": [choice]})
            return
        assert body["return_token_ids"] is True
        choice["text"] = ENCODING.decode([step.token])
        yield json.dumps(
            {"id": "cmpl-1", "object": "text_completion", "model": "noise", "choices": [choice]},
            ensure_ascii=False,  # as pydantic does
        )

    @staticmethod
    def _logprobs(step: Step, tops: list[tuple[int, float]]) -> dict[str, Any]:
        return {
            "text_offset": [0],
            "token_logprobs": [step.logprob],
            "tokens": [f"token_id:{step.token}"],
            "top_logprobs": [{f"token_id:{token}": value for token, value in tops}],
        }

    def ending(self, body: dict[str, Any]) -> Iterator[str]:
        yield json.dumps({"choices": [], "usage": {"completion_tokens": 1}})
        yield "[DONE]"


class LlamaCppStandIn(StandIn):
    """``llama-server``: one without llguidance dies of a grammar of it."""

    path = "/completion"

    def __init__(self, *, llguidance: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._llguidance = llguidance
        self._texts: dict[int, tuple[bytes, int]] = {}

    def about(self, path: str) -> tuple[int, Any]:
        if path == "/health":
            return 200, {"status": "ok"}
        if path == "/props":
            return 200, {"default_generation_settings": {"n_ctx": CONTEXT}, "total_slots": 4}
        if path == "/v1/models":
            return 200, {"data": [{"id": "noise.gguf", "owned_by": "llamacpp", "meta": None}]}
        return 404, refusal(404, "File Not Found")

    def refuses(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        assert not body.get("grammar") or self._llguidance, "the server aborted"
        if len(body["prompt"]) >= CONTEXT:
            error = refusal(400, "request exceeds the available context size")
            error["error"].update(type="exceed_context_size_error")
            error["error"].update(n_prompt_tokens=len(body["prompt"]), n_ctx=CONTEXT)
            return 400, error
        return None

    def settings(self, body: dict[str, Any]) -> Settings:
        grammar = body.get("grammar")
        assert grammar is None or grammar.startswith("%llguidance {}\n")
        assert body["samplers"] == ["penalties", "temperature", "top_k", "min_p", "top_p"]
        return Settings(
            prompt=body["prompt"],
            max_tokens=body["n_predict"],
            temperature=body["temperature"],
            top_k=body["top_k"],
            top_p=body["top_p"],
            min_p=body["min_p"],
            frequency=body["frequency_penalty"],
            presence=body["presence_penalty"],
            repetition=body["repeat_penalty"],
            seed=body.get("seed"),
            stops=frozenset((RETURN, CALL, END_OF_TEXT)),
            logprobs=body.get("n_probs"),
            grammar=grammar and grammar.partition("\n")[2],
        )

    def events(self, body: dict[str, Any], step: Step) -> Iterator[str]:
        text, predicted = self._texts.get(id(body), (b"", 0))
        text, predicted = text + text_of(step.token), predicted + 1
        if is_cut(text):
            self._texts[id(body)] = text, predicted
            return
        self._texts[id(body)] = b"", predicted
        event = {
            "index": 0,
            "content": text.decode(errors="replace"),
            "tokens": [step.token],
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": predicted,
            "tokens_evaluated": len(body["prompt"]),
        }
        if body.get("n_probs"):
            event["completion_probabilities"] = [probability(step, body["n_probs"])]
        yield json.dumps(event, ensure_ascii=False)

    def ending(self, body: dict[str, Any]) -> Iterator[str]:
        _, predicted = self._texts.pop(id(body))
        event = {"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": "eos"}
        yield json.dumps({**event, "tokens_predicted": predicted})

    def whole(self, body: dict[str, Any], steps: list[Step]) -> Any:
        answer: dict[str, Any] = {
            "content": ENCODING.decode([step.token for step in steps]),
            "tokens": [step.token for step in steps],
            "stop": True,
            "stop_type": {"stop": "eos", "length": "limit", None: "none"}[steps[-1].reason],
            "tokens_predicted": len(steps),
        }
        if count := body.get("n_probs"):
            answer["completion_probabilities"] = [probability(step, count) for step in steps]
        return answer


def with_sampled(step: Step, count: int) -> list[tuple[int, float]]:
    """Return what vLLM tells: the sampled token, then the `count` likeliest ones."""
    tops = [top for top in step.tops[:count] if top[0] != step.token]
    return [(step.token, step.logprob), *tops]


def generated(step: Step, tops: list[tuple[int, float]]) -> dict[str, Any]:
    """Return log-probabilities as they are at vLLM's endpoint for tokens."""
    found = [{"token_id": token, "logprob": value, "rank": None} for token, value in tops]
    content = {"token_id": step.token, "logprob": step.logprob, "rank": 1, "top_logprobs": found}
    return {"content": [content]}


def probability(step: Step, count: int) -> dict[str, Any]:
    """Return log-probabilities as llama.cpp writes them."""

    def entry(token: int, logprob: float) -> dict[str, Any]:
        text = ENCODING.decode([token])
        return {"id": token, "token": text, "bytes": [*text.encode()], "logprob": logprob}

    tops = [entry(*top) for top in step.tops[:count]]
    return {**entry(step.token, step.logprob), "top_logprobs": tops}


@functools.cache
def whole_tokens() -> list[int]:
    """Return the ordinary tokens that are text by themselves."""
    return [token for token in range(FIRST_SPECIAL) if is_text(text_of(token))]


def is_text(spelled: bytes) -> bool:
    try:
        spelled.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_cut(text: bytes) -> bool:
    """Tell whether the text ends within a character."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def refusal(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "type": "some_error"}}


async def send(
    writer: asyncio.StreamWriter,
    status: int,
    body: Any,
    *,
    kind: str = "application/json",
    close: bool = False,
) -> None:
    """Send a whole answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
    if close:
        lines.append("Connection: close")
    writer.write("\r\n".join([*lines, "\r\n"]).encode() + data)
    await writer.drain()


async def send_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()
