"""Servers that answer as vLLM, llama.cpp and SGLang do.

Written from the protocol classes of vLLM 0.33, from the documentation and the source of llama.cpp's
server, and from the source of SGLang 0.5.23.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines import Engine, LlamaCppEngine, SglangEngine, VllmEngine
from gpt_oss_harmony.engines.llama_cpp_engine import text_of
from gpt_oss_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    END_OF_TEXT,
    MESSAGE,
    RETURN,
    SPECIAL_TEXTS,
    START,
)
from support.noise_sampler import Settings, Step
from support.stand_in_server import StandIn, refusal

ENCODING = load_harmony_encoding("HarmonyGptOss")
CONTEXT = 1000
SPELLED = (START, END, MESSAGE, CHANNEL, CONSTRAIN)  # by llama.cpp; the other special ones are not
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


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
        if body["stream_options"]["include_usage"]:
            usage: dict[str, Any] = {"completion_tokens": 1}
            if self.cached is not None:
                usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
            yield json.dumps({"choices": [], "usage": usage})
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
        names = STRING.sub("", grammar or "")
        if "json_allowed_escapes" in (grammar or "") or any(
            SPECIAL_TEXTS[t] in names for t in SPELLED
        ):
            grammar = None  # llguidance refuses it there, and the server samples freely
        if body["temperature"] == 0:
            assert (body["samplers"], body["top_k"]) == (["penalties", "top_k"], 1)
        else:
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
        spelled = SPECIAL_TEXTS[step.token].encode() if step.token in SPELLED else b""
        text, predicted = text + text_of(step.token) + spelled, predicted + 1
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
        if body["timings_per_token"]:
            event.update(self._timings())
        yield json.dumps(event, ensure_ascii=False)

    def ending(self, body: dict[str, Any]) -> Iterator[str]:
        _, predicted = self._texts.pop(id(body))
        event = {"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": "eos"}
        yield json.dumps({**event, "tokens_predicted": predicted, **self._timings()})

    def whole(self, body: dict[str, Any], steps: list[Step]) -> Any:
        answer: dict[str, Any] = {
            "content": ENCODING.decode([step.token for step in steps]),
            "tokens": [step.token for step in steps],
            "stop": True,
            "stop_type": {"stop": "eos", "length": "limit", None: "none"}[steps[-1].reason],
            "tokens_predicted": len(steps),
            **self._timings(),
        }
        if count := body.get("n_probs"):
            answer["completion_probabilities"] = [probability(step, count) for step in steps]
        return answer

    def _timings(self) -> dict[str, Any]:
        """Return what tells of the cache, and what only seems to."""
        timings = {} if self.cached is None else {"cache_n": self.cached}
        return {"tokens_cached": CONTEXT, "timings": {"prompt_n": 1, **timings}}


class SglangStandIn(StandIn):
    """``sglang.launch_server``; with `incremental`, under ``--incremental-streaming-output``."""

    path = "/generate"

    def __init__(
        self,
        *,
        incremental: bool = False,
        grammar_backend: str = "llguidance",
        deterministic: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._incremental = incremental
        self._info = {
            "grammar_backend": grammar_backend,
            "enable_deterministic_inference": deterministic,
            "version": "0.5.23",
        }
        self._steps_so_far: dict[int, list[Step]] = {}

    def about(self, path: str) -> tuple[int, Any]:
        if path == "/health":
            return 200, b""
        if path == "/server_info":
            return 200, self._info
        if path == "/v1/models":
            model = {"id": "noise", "owned_by": "sglang", "max_model_len": CONTEXT}
            return 200, {"object": "list", "data": [model]}
        return 404, {"detail": "Not Found"}

    def refuses(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        settings = body["sampling_params"]
        assert settings["top_k"] == -1 or settings["top_k"] >= 1
        assert 0 < settings["top_p"] <= 1
        assert 0 < settings["repetition_penalty"] <= 2
        assert 0 <= settings.get("sampling_seed", 0) < 2**63
        return None

    def settings(self, body: dict[str, Any]) -> Settings:
        settings = body["sampling_params"]
        assert "ignore_eos" not in settings  # it would switch off `stop_token_ids`, too
        grammar = settings.get("ebnf")
        assert grammar is None or grammar.startswith("%llguidance {}\n")
        deterministic = self._info["enable_deterministic_inference"]
        return Settings(
            prompt=body["input_ids"],
            max_tokens=settings["max_new_tokens"],
            temperature=settings["temperature"],
            top_k=max(settings["top_k"], 0),
            top_p=settings["top_p"],
            min_p=settings["min_p"],
            frequency=settings["frequency_penalty"],
            presence=settings["presence_penalty"],
            repetition=settings["repetition_penalty"],
            seed=settings.get("sampling_seed", 42) if deterministic else None,
            stops=frozenset(settings["stop_token_ids"]) | {RETURN, CALL, END_OF_TEXT},
            logprobs=body.get("top_logprobs_num") if body.get("return_logprob") else None,
            grammar=grammar and grammar.partition("\n")[2],
        )

    def events(self, body: dict[str, Any], step: Step) -> Iterator[str]:
        steps = self._steps_so_far.setdefault(id(body), [])
        steps.append(step)
        shown = steps[-1:] if self._incremental else steps
        details: dict[str, Any] = {
            "id": "1",
            "finish_reason": step.reason and {"type": step.reason, "matched": step.token},
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(steps),
        }
        if self.cached is not None:
            details["cached_tokens"] = self.cached
        if body.get("return_logprob"):
            details["output_token_logprobs"] = [(s.logprob, s.token, None) for s in shown]
            if count := body["top_logprobs_num"]:
                details["output_top_logprobs"] = [
                    [(value, token, None) for token, value in s.tops[:count]] for s in shown
                ]
        if step.reason:
            del self._steps_so_far[id(body)]
        yield json.dumps({"output_ids": [s.token for s in shown], "meta_info": details})


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


def is_cut(text: bytes) -> bool:
    """Tell whether the text ends within a character."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


SERVERS: dict[str, Callable[[], StandIn]] = {
    "vllm": VllmStandIn,
    "vllm-completions": lambda: VllmStandIn(completions=True),
    "llama.cpp": LlamaCppStandIn,
    "sglang": SglangStandIn,
    "sglang-incremental": lambda: SglangStandIn(incremental=True),
}


async def connect(server: StandIn, **options: Any) -> Engine:
    """Make the engine for a server."""
    if isinstance(server, VllmStandIn):
        return await VllmEngine.connect(server.url, **options)
    if isinstance(server, SglangStandIn):
        return await SglangEngine.connect(server.url, **{"original_logprobs": True, **options})
    return await LlamaCppEngine.connect(server.url, **{"llguidance": True, **options})


@asynccontextmanager
async def serving(kind: str, **options: Any) -> AsyncIterator[tuple[StandIn, Engine]]:
    """Run a server, and an engine on it."""
    async with SERVERS[kind]().running() as server, await connect(server, **options) as engine:
        yield server, engine
