"""A GGUF file in this process: llama.cpp's own server, started, owned and ended by an engine.

The wheels of ``xllamacpp`` have that server as a library. It listens at a port of the loopback
address that the system chooses, and takes only requests with a key that nobody else has. So it is
the same protocol as with a server of its own (`LlamaCppEngine`), and nothing of it stays behind
when this process ends, however it ends. Its build has llguidance.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import xllamacpp

from ..grammar import Matcher
from ..tokens.special_tokens import FIRST_SPECIAL, VOCABULARY_SIZE
from .engine import EngineError, FinishReason, SampledToken, Sampling, check_sizes
from .gguf_header import ARCHITECTURE, OLLAMA_ARCHITECTURE, GgufHeader, read_gguf_header
from .http_client import HttpClient
from .llama_cpp_engine import LlamaCppEngine
from .local_memory import LocalPlan, plan_local_memory
from .parallel import available_memory, thread_count

_LOG = logging.getLogger(__name__)

_MOST_CACHED_PROMPTS = 8192  # MiB of main memory; llama.cpp's default
_FEW = 1024
"""Tokens that are allowed next and given to llama.cpp; of more, wrong ones are sampled again."""
_MOST_TRIALS = 100
_ROWS = VOCABULARY_SIZE - 1  # the models have no logit for the last token of the encoding
_QUIET = 1  # errors only


class GgufEngine(LlamaCppEngine):
    """A model in llama.cpp in this process; `GgufEngine.load` makes it from a file.

    ::

        engine = await GgufEngine.load("gpt-oss-20b-mxfp4.gguf")
    """

    def __init__(
        self,
        server: Any,
        client: HttpClient,
        model: str,
        context_length: int,
        *,
        origin: str = "",
        stream: bool = True,
    ) -> None:
        super().__init__(client, model, context_length, llguidance=True, stream=stream)
        self.origin = origin
        self._server = server

    @classmethod
    async def load(
        cls,
        file: str | Path,
        *,
        name: str | None = None,
        context_length: int | None = None,
        max_requests: int = 16,
        threads: int | None = None,
        gpu_layers: int | None = None,
        stream: bool = True,
    ) -> GgufEngine:
        """Load a file and start the server in this process.

        - `context_length`: the most tokens of prompt and completion together; the default is that
          of the model, or less if it does not fit into the memory.
        - `max_requests`: the most requests at once; each has a cache of `context_length` tokens.
          Further requests wait. There are fewer if the memory is short.
        - `threads`: the threads on the CPU; the default depends on the size of the model and the
          available cores.
        - `gpu_layers`: how many layers run on GPUs; by default as many as llama.cpp finds room for.
        - `stream`: as in `LlamaCppEngine`.

        Raises `EngineError` if the file is damaged, has another model, or needs too much memory.
        """
        check_sizes(context_length=context_length, max_requests=max_requests, threads=threads)
        header = await asyncio.to_thread(read_gguf_header, Path(file))
        plan = plan_gguf(header, _free_memory(), context_length, max_requests)
        plan.report(_LOG, context_length, max_requests)
        threads = threads or thread_count(header.weights)
        options = xllamacpp.CommonParams()
        options.model.path = str(file)
        # llama.cpp divides this context among its slots.
        options.n_ctx = plan.context_length * plan.max_requests
        options.n_parallel = plan.max_requests
        if plan.free is not None:
            spare = (plan.free - plan.needed) // 2
            options.cache_ram_mib = min(_MOST_CACHED_PROMPTS, spare // 2**20)
        options.api_keys = [secrets.token_urlsafe(32)]
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
        options.verbosity = _QUIET
        # Only this engine uses the server: it needs no page, and no page may read it.
        options.ui = False
        options.cors_origins = ""
        options.no_perf = True
        if gpu_layers is not None:
            options.n_gpu_layers = gpu_layers
        try:
            server = await asyncio.to_thread(xllamacpp.Server, options)
        except RuntimeError as error:
            raise EngineError(
                f"llama.cpp cannot load {file}; the lines above on standard error have its reason"
            ) from error
        return cls(
            server,
            HttpClient(server.listening_address, api_key=options.api_keys[0]),
            name or str(file),
            plan.context_length,
            origin=f"{file}, {header.quantization} in llama.cpp with "
            f"{threads} {'thread' if threads == 1 else 'threads'}",
            stream=stream,
        )

    def goes_on_without(self, token: int) -> bool:
        """Return True for special tokens: llama.cpp takes them for their text in a JSON string."""
        return token >= FIRST_SPECIAL

    async def go_on(
        self, prompt: list[int], sampling: Sampling, max_tokens: int, done: list[int]
    ) -> AsyncGenerator[SampledToken, None]:
        """Sample the rest of a completion one by one, under the grammar of this process.

        A grammar of llama.cpp cannot begin in the middle. So it gets the tokens that are allowed
        next, if they are few; of many, it must not sample the special ones, and samples again if a
        token was wrong.
        """
        assert sampling.grammar is not None
        matcher = await asyncio.to_thread(Matcher, sampling.grammar)
        matcher.accept_all(done)
        for length in range(len(done) + 1, max_tokens + 1):
            sampled = await self._sample_one([*prompt, *done], sampling, matcher)
            done.append(sampled.token)
            if sampled.token in sampling.stop_tokens or matcher.is_finished:
                sampled = sampled._replace(finish_reason=FinishReason.STOP, cached_tokens=0)
            elif length == max_tokens:
                sampled = sampled._replace(finish_reason=FinishReason.LENGTH, cached_tokens=0)
            yield sampled
            if sampled.finish_reason is not None:
                return

    async def _sample_one(
        self, text: list[int], sampling: Sampling, matcher: Matcher
    ) -> SampledToken:
        """Sample until the matcher accepts a token; those that it did not accept are barred."""
        # Each token is a request of its own, in which the same seed would draw the same number.
        seed = None if sampling.seed is None else sampling.seed + len(text)
        settings = replace(sampling, grammar=None, seed=seed)
        # Without the cache, the whole text would be read again for each token.
        body = {**self.request_body(text, settings, 1), "cache_prompt": True}
        mask = int.from_bytes(matcher.bitmask(), "little")
        if mask.bit_count() <= _FEW:
            allowed = ",".join(map(str, matcher.allowed_tokens()))
            body["grammar"] = self._grammar(f"start: <[{allowed}]>")
        special = mask >> FIRST_SPECIAL
        barred = [t for t in range(FIRST_SPECIAL, _ROWS) if not special >> t - FIRST_SPECIAL & 1]
        for _ in range(_MOST_TRIALS):
            body["logit_bias"] = [[token, False] for token in barred]
            async with aclosing(self._answer(body, self.answer_reader(settings, 1))) as tokens:
                sampled = await anext(tokens)
            if matcher.accept(sampled.token):
                return sampled._replace(finish_reason=None, cached_tokens=None)
            barred.append(sampled.token)
        raise EngineError(f"llama.cpp sampled only forbidden tokens, such as {sampled.token}")

    async def close(self) -> None:
        """End the server; running requests end with an `EngineError`."""
        await super().close()
        # No reference stays here, so that `_end` drops the last one.
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(_end, [server])


def _end(servers: list[Any]) -> None:
    """Drop the last reference, which stops the server and waits for its threads."""
    servers.clear()


def plan_gguf(
    header: GgufHeader, free: int | None, context_length: int | None, max_requests: int
) -> LocalPlan:
    """Choose the context of a model, and compute its memory; `free` is that of the machine.

    Raises `EngineError` for another model, a missing part, and too little memory.
    """
    if header.architecture == OLLAMA_ARCHITECTURE:
        raise EngineError(
            f"{header.file} was written by Ollama, in a form that only Ollama reads; "
            f"'harmony models --convert {header.file}' copies it once into llama.cpp's form"
        )
    if header.architecture != ARCHITECTURE:
        raise EngineError(
            f"{header.file} holds a model of the architecture "
            f"{header.architecture or 'unknown'!r}, and harmony is the format of gpt-oss; choose a "
            "file of gpt-oss"
        )
    missing = [part.name for part in header.parts() if not part.is_file()]
    if missing:
        raise EngineError(
            f"{header.file} is one of {len(header.parts())} parts, and {missing[0]} is not beside "
            "it; download all of them"
        )
    weights = sum(part.stat().st_size for part in header.parts())
    figures = header.figures()
    return plan_local_memory(str(header.file), figures, weights, free, context_length, max_requests)


def _free_memory() -> int | None:
    """Return the free memory of the machine and of its GPUs together; None if it is unknown.

    On a Mac, the GPU uses the memory of the machine.
    """
    main = available_memory()
    kinds = xllamacpp.ggml_backend_dev_type
    gpus = 0
    for device in xllamacpp.get_device_info():
        if device["type"] == kinds.GGML_BACKEND_DEVICE_TYPE_CPU:
            main = device["memory_free"] if main is None else main
        elif device["type"] == kinds.GGML_BACKEND_DEVICE_TYPE_GPU and sys.platform != "darwin":
            gpus += device["memory_free"]
    return None if main is None else main + gpus
