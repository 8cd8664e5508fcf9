"""Engines behind servers: how they stop, what they say where one fails, and the protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, load_harmony_encoding
from gpt_oss_harmony.engines import (
    ContextLengthError,
    Engine,
    EngineError,
    LlamaCppEngine,
    Sampling,
    SamplingError,
    SglangEngine,
    VllmEngine,
    open_engine,
)
from gpt_oss_harmony.engines.http_client import EventReader, HttpClient
from gpt_oss_harmony.engines.llama_cpp_engine import find_lost_tokens, text_of
from gpt_oss_harmony.engines.server_engine import GrammarCheck
from gpt_oss_harmony.grammar import TurnOptions, find_mismatch, turn_grammar
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN
from support.engine_contract import PROMPT, SHORT_TURN, sample, tokens_of
from support.engine_servers import (
    CONTEXT,
    SERVERS,
    LlamaCppStandIn,
    SglangStandIn,
    VllmStandIn,
    serving,
)
from support.stand_in_server import StandIn

ENCODING = load_harmony_encoding("HarmonyGptOss")
FAST: dict[str, Any] = {"pauses": (0.01, 0.01)}  # between the attempts


# Cancelling


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_stops_within_a_step(kind: str) -> None:
    async def run() -> None:
        async with serving(kind) as (server, engine):
            await closed_early(engine)
            await until(lambda: server.counts.running == 0)
            assert server.counts.aborted == 1
            steps = server.counts.steps
            await asyncio.sleep(0.05)
            assert server.counts.steps == steps

    async def closed_early(engine: Engine) -> None:
        completion = engine.generate(PROMPT)
        await anext(completion)
        await completion.aclose()

    asyncio.run(run())


@pytest.mark.slow
def test_a_server_that_does_not_stream_stops_as_well() -> None:
    async def run() -> None:
        async with serving("llama.cpp", stream=False) as (server, engine):
            task = asyncio.ensure_future(sample(engine, Sampling()))
            await until(lambda: server.counts.steps > 0)
            task.cancel()
            await until(lambda: server.counts.running == 0)
            assert server.counts.aborted == 1

    asyncio.run(run())


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(4000):
        if happened():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


# Failures


def failure(
    kind: str, faults: dict[str, Any], sampling: Sampling | None = None, **options: Any
) -> tuple[EngineError, int, StandIn]:
    """Return the error of a completion, the tokens before it, and the server."""

    async def run() -> tuple[EngineError, int, StandIn]:
        async with serving(kind, **{**FAST, **options}) as (server, engine):
            for name, value in faults.items():
                setattr(server.faults, name, value)
            count = 0
            try:
                async for _ in engine.generate(PROMPT, sampling or Sampling(seed=1)):
                    count += 1
            except EngineError as error:
                return error, count, server
            raise AssertionError("nothing failed")

    return asyncio.run(run())


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("after", [0, 3])
def test_a_server_that_vanishes(kind: str, after: int) -> None:
    error, count, server = failure(kind, {"vanish_after": after})
    assert "closed the connection" in str(error)
    assert server.url in str(error)
    assert error.retryable
    assert count == after
    assert server.counts.requests == (1 if after else 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("after", [0, 3])
def test_a_server_that_hangs(kind: str, after: int) -> None:
    error, count, server = failure(kind, {"hang_after": after}, timeout=1.5)
    assert "sent nothing for 1.5 seconds" in str(error)
    assert error.retryable
    assert count == after
    assert server.counts.requests == 1


@pytest.mark.parametrize("kind", SERVERS)
def test_a_stream_that_ends_too_early(kind: str) -> None:
    error, count, _ = failure(kind, {"stop_after": 2})
    assert "ended its answer before the completion" in str(error)
    assert count == 2


@pytest.mark.parametrize("kind", SERVERS)
def test_garbage(kind: str) -> None:
    error, count, _ = failure(kind, {"garbage_after": 1})
    assert "not JSON: '{not json'" in str(error)
    assert count == 1
    error, _, server = failure(kind, {"page": b"<h1>It works!</h1>"})
    assert "<h1>It works!</h1>" in str(error)
    assert server.counts.requests == 1
    error, _, _ = failure(kind, {"page": b"[1]"})
    assert "another form" in str(error)


@pytest.mark.parametrize("kind", SERVERS)
def test_errors_of_the_server(kind: str) -> None:
    error, count, _ = failure(kind, {"error_after": 2})
    assert "the model broke" in str(error)
    assert error.retryable
    assert count == 2
    error, _, server = failure(kind, {"refuse": (500, "a traceback")})
    assert "(500)" in str(error)
    assert "a traceback" in str(error)
    assert server.counts.requests == 1
    error, _, _ = failure(kind, {"refuse": (400, {"error": {"message": "no such setting"}})})
    assert isinstance(error, SamplingError)
    assert "no such setting" in str(error)
    assert not error.retryable


@pytest.mark.parametrize("kind", SERVERS)
def test_a_busy_server_is_asked_again(kind: str) -> None:
    error, _, server = failure(kind, {"busy": 99})
    assert "busy" in str(error)
    assert error.retryable
    assert server.counts.requests == 3

    async def run() -> None:
        async with serving(kind, **FAST) as (server, engine):
            server.faults.busy = 2
            assert len(await tokens_of(engine)) > 0

    asyncio.run(run())


@pytest.mark.parametrize("connect_to", [VllmEngine.connect, LlamaCppEngine.connect])
def test_nobody_answers(connect_to: Callable[..., Any]) -> None:
    for url in ("http://127.0.0.1:1", "http://127.0.0.1:1/v1/", "ftp://here", "http://[", ""):
        with pytest.raises(EngineError, match=r"cannot (connect|talk) to"):
            asyncio.run(connect_to(url, **FAST))


def test_the_server_goes_while_the_engine_stays() -> None:
    async def run() -> None:
        async with VllmStandIn().running() as server:
            engine = await VllmEngine.connect(server.url, **FAST)
        assert not (await engine.health()).ready
        assert "cannot connect" in (await engine.health()).detail
        with pytest.raises(EngineError, match="start the server there") as caught:
            await tokens_of(engine)
        assert caught.type is EngineError  # the name that people see is a public one
        await engine.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", SERVERS)
def test_closing_the_engine_ends_requests_under_way(kind: str) -> None:
    async def run() -> None:
        async with serving(kind) as (server, engine):
            tasks = [asyncio.ensure_future(sample(engine, Sampling())) for _ in range(3)]
            await until(lambda: server.counts.running == 3)
            await engine.close()
            for task in tasks:
                with pytest.raises(EngineError, match="the engine was closed"):
                    await asyncio.wait_for(task, 20)
            with pytest.raises(EngineError, match="the engine was closed"):
                await tokens_of(engine)
            assert not (await engine.health()).ready

    asyncio.run(run())


def test_a_server_that_accepts_and_says_nothing() -> None:
    async def run() -> None:
        silent = asyncio.Event()

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await silent.wait()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for connect_to in (VllmEngine.connect, LlamaCppEngine.connect):
            with pytest.raises(EngineError, match=r"sent nothing for 0\.1 seconds"):
                await connect_to(url, timeout=0.1)
        silent.set()
        server.close()
        await asyncio.sleep(0)

    asyncio.run(run())


def test_api_keys() -> None:
    async def run() -> None:
        async with VllmStandIn(api_key="secret").running() as server:
            with pytest.raises(EngineError, match=r"\(401\): Unauthorized"):
                await VllmEngine.connect(server.url)
            async with await VllmEngine.connect(server.url, api_key="secret") as engine:
                assert len(await tokens_of(engine)) > 0

    asyncio.run(run())


# What was in the cache


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("cached", [None, 0, 5])
def test_the_last_token_tells_how_much_of_the_prompt_was_cached(
    kind: str, cached: int | None
) -> None:
    async def run() -> None:
        async with serving(kind) as (server, engine):
            server.cached = cached
            *rest, last = await sample(engine, Sampling(seed=1, max_tokens=4))
            assert last.cached_tokens == cached
            assert {sampled.cached_tokens for sampled in rest} == {None}

    asyncio.run(run())


def test_llama_cpp_tells_it_without_streaming_as_well() -> None:
    async def run() -> None:
        async with serving("llama.cpp", stream=False) as (server, engine):
            server.cached = 5
            result = await sample(engine, Sampling(seed=1, max_tokens=4))
            assert [sampled.cached_tokens for sampled in result] == [None, None, None, 5]

    asyncio.run(run())


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_vanishes_after_the_last_token_has_done_its_work(kind: str) -> None:
    async def run() -> None:
        async with serving(kind, **FAST) as (server, engine):
            server.faults.vanish_at_the_end = True
            result = await sample(engine, Sampling(seed=1, max_tokens=4))
            assert [sampled.finish_reason for sampled in result] == [None, None, None, "length"]

    asyncio.run(run())


# vLLM


def test_vllm_chooses_the_endpoint_and_the_model() -> None:
    async def run() -> None:
        async with VllmStandIn().running() as server:
            engine: Engine = await VllmEngine.connect(server.url + "/v1", "adapter")
            assert (engine.model, engine.context_length) == ("adapter", CONTEXT)
            assert await tokens_of(engine)
            assert server.counts.bodies[0]["model"] == "adapter"
            assert "token_ids" in server.counts.bodies[0]
            await engine.close()
            with pytest.raises(EngineError, match="serves noise, adapter, not 'other'"):
                await VllmEngine.connect(server.url, "other")
        async with serving("vllm-completions") as (other, engine):
            assert await tokens_of(engine)
            assert "prompt" in other.counts.bodies[0]
        async with LlamaCppStandIn().running() as server:
            with pytest.raises(EngineError, match="is not vLLM"):
                await VllmEngine.connect(server.url)

    asyncio.run(run())


def test_vllm_says_what_it_does_not_have() -> None:
    for settings in ({"temperature": 0.001}, {"temperature": 3}, {"top_p": 0}, {"logprobs": 21}):
        error, _, _ = failure("vllm", {}, Sampling(**settings))
        assert isinstance(error, SamplingError)


ANY_OBJECT = turn_grammar(
    Conversation.from_messages([]), TurnOptions(response_format={"type": "json_object"})
)


@pytest.mark.parametrize(
    ("answer", "is_accepted"),
    [
        ('{"a": [1, 2]}', True),
        ('{ "a":  [ 1 ]\n}', True),
        ('{"a": 1,\n\n"b": 2}', True),
        ('{"a": }', False),
        ('{ "a": }', False),
        ("[1]", False),
    ],
)
def test_another_spelling_does_not_end_a_turn(answer: str, is_accepted: bool) -> None:
    check = GrammarCheck(ANY_OBJECT)
    turn = f"<|channel|>final<|message|>{answer}<|return|>"
    assert all(map(check.accept, ENCODING.encode(turn, allowed_special="all"))) is is_accepted


@pytest.mark.parametrize("kind", SERVERS)
def test_a_grammar_that_is_not_enforced_is_noticed(kind: str) -> None:
    sampling = Sampling(grammar=SHORT_TURN, seed=1)
    error, count, server = failure(kind, {"ignore_grammar": True}, sampling)
    assert "against the grammar; " in str(error)
    assert count == 0
    assert server.counts.running == 0


# llama.cpp


def test_llama_cpp_compiles_grammars_with_json() -> None:
    schema = {"type": "array", "prefixItems": [{"type": "boolean"}] * 2, "items": False}
    wanted = {"type": "json_schema", "schema": {**schema, "minItems": 2}}
    options = TurnOptions(response_format=wanted, reasoning=False, preambles=False)
    grammar = turn_grammar(Conversation.from_messages([]), options)

    async def run() -> list[int]:
        async with serving("llama.cpp", **FAST) as (_, engine):
            sampled = engine.generate(PROMPT, Sampling(grammar=grammar, seed=1))
            return [item.token async for item in sampled]

    assert find_mismatch(grammar, asyncio.run(run())) is None


def test_servers_are_told_apart() -> None:
    async def run() -> None:
        for kind in SERVERS:
            async with (
                SERVERS[kind]().running() as server,
                await open_engine(server.url) as engine,
            ):
                assert type(engine).__name__.lower().startswith(kind[:4])
        assert not await LlamaCppEngine.answers("http://127.0.0.1:1")
        async with VllmStandIn().running() as server:
            with pytest.raises(EngineError, match="404"):
                await LlamaCppEngine.connect(server.url)

    asyncio.run(run())


class _TextServer(VllmStandIn):
    """A server without token ids: it lists models in the form of OpenAI, and knows its own paths.

    `mlx_lm.server` 0.32 by its source, Ollama by its documentation.
    """

    def __init__(self, paths: dict[str, Any]) -> None:
        super().__init__(completions=True)
        self._paths = paths

    def about(self, path: str) -> tuple[int, Any]:
        return (200, self._paths[path]) if path in self._paths else (404, {"error": "not found"})


TEXT_SERVERS: dict[str, dict[str, Any]] = {
    "mlx": {"/v1/models": {"object": "list", "data": [{"id": "gpt-oss", "object": "model"}]},
            "/health": {"status": "ok"}},
    "ollama": {"/v1/models": {"object": "list", "data": [{"id": "gpt-oss:20b", "created": 1}]},
               "/api/version": {"version": "0.13.0"}},
}  # fmt: skip


MODEL_LIST = {"object": "list", "data": [{"id": "openai/gpt-oss-20b", "object": "model"}]}


def owned(owner: str, id: str = "openai/gpt-oss-20b") -> dict[str, Any]:
    return {"/v1/models": {"object": "list", "data": [{"id": id, "owned_by": owner}]}}


NAMED_SERVERS: dict[str, tuple[dict[str, Any], str]] = {
    "Ollama": (
        {**owned("library", "gpt-oss:20b"), "/api/version": {"version": "0.30.1"}},
        "ollama:gpt-oss:20b",
    ),
    "LM Studio": (
        {
            **owned("organization_owner", "openai/gpt-oss-20b"),
            "/lmstudio-greeting": {"lmstudio": True},
        },
        "lmstudio:openai/gpt-oss-20b",
    ),
    "mlx_lm.server": (
        {"/v1/models": MODEL_LIST, "/health": {"status": "ok"}},
        "openai/gpt-oss-20b --engine mlx",
    ),
    "TensorRT-LLM": (owned("tensorrt_llm"), "openai/gpt-oss-20b"),
    "LMDeploy": (owned("lmdeploy"), "openai/gpt-oss-20b"),
    "OpenVINO Model Server": ({"/v2": {"name": "OpenVINO Model Server"}}, "openai/gpt-oss-20b"),
    "Foundry Local": (
        {**owned("x", "gpt-oss-20b-cpu"), "/openai/status": {"modelDirPath": "/m"}},
        "openai/gpt-oss-20b",
    ),
}
"""What each server answers at paths that only it has, and our command for the same weights."""


@pytest.mark.parametrize("name", NAMED_SERVERS)
def test_servers_that_cannot_be_an_engine_are_named(name: str) -> None:
    paths, command = NAMED_SERVERS[name]

    async def run() -> str:
        async with _TextServer(paths).running() as server:
            with pytest.raises(EngineError) as caught:
                await open_engine(server.url)
            assert not server.counts.bodies  # nothing was sampled
            return str(caught.value)

    text = asyncio.run(run())
    assert f" is {name}, which takes only text" in text
    assert f"'harmony serve {command}'" in text
    assert "\n" not in text


def test_a_server_that_nobody_knows_is_refused_as_before() -> None:
    async def run() -> None:
        async with _TextServer({"/v1/models": MODEL_LIST}).running() as server:
            with pytest.raises(EngineError, match=r"is not vLLM, SGLang or llama-server"):
                await open_engine(server.url)

    asyncio.run(run())


@pytest.mark.parametrize("name", TEXT_SERVERS)
def test_servers_without_token_ids_are_refused(name: str) -> None:
    async def run() -> None:
        async with _TextServer(TEXT_SERVERS[name]).running() as server:
            with pytest.raises(EngineError, match=r"takes only text .* llama-server"):
                await open_engine(server.url)
            assert not server.counts.bodies  # nothing was sampled

    asyncio.run(run())


def test_llama_cpp_does_not_get_grammars_without_llguidance() -> None:
    error, _, server = failure("llama.cpp", {}, Sampling(grammar=SHORT_TURN), llguidance=False)
    assert isinstance(error, SamplingError)
    assert "-DLLAMA_LLGUIDANCE=ON" in str(error)
    assert server.counts.requests == 0
    error, _, _ = failure("llama.cpp", {}, Sampling(stop_tokens=frozenset((RETURN,))))
    assert isinstance(error, SamplingError)


# SGLang


@pytest.mark.parametrize(
    ("switches", "sampling", "remedy"),
    [
        ({"grammar_backend": "xgrammar"}, Sampling(grammar=SHORT_TURN), "--grammar-backend"),
        ({"deterministic": False}, Sampling(seed=1), "--enable-deterministic-inference"),
        ({}, Sampling(logprobs=1, temperature=0.5), "SGLANG_RETURN_ORIGINAL_LOGPROB=1"),
        ({}, Sampling(stop_tokens=frozenset((RETURN,))), "keep them"),
        ({}, Sampling(repetition_penalty=3), "at most 2"),
        ({}, Sampling(top_p=0), "above 0"),
    ],
)
def test_sglang_is_not_asked_for_what_it_would_leave_out(
    switches: dict[str, Any], sampling: Sampling, remedy: str
) -> None:
    async def run() -> None:
        async with SglangStandIn(**switches).running() as server:
            async with await SglangEngine.connect(server.url) as engine:
                with pytest.raises(SamplingError, match=remedy):
                    await sample(engine, sampling)
            assert server.counts.requests == 0

    asyncio.run(run())


def test_sglang_without_seeds_still_samples() -> None:
    async def run() -> None:
        async with (
            SglangStandIn(deterministic=False).running() as server,
            await SglangEngine.connect(server.url) as engine,
        ):
            assert await tokens_of(engine) != await tokens_of(engine)

    asyncio.run(run())


@pytest.mark.parametrize(("status", "kind"), [(400, SamplingError), (503, EngineError)])
def test_sglang_ends_a_completion_with_an_error(status: int, kind: type[EngineError]) -> None:
    reason = {"type": "abort", "message": "Invalid grammar", "status_code": status}
    event = {"output_ids": [], "meta_info": {"finish_reason": reason, "completion_tokens": 0}}
    reader = SglangEngine.answer_reader(None, Sampling(), 1)  # type: ignore[arg-type]
    with pytest.raises(kind, match="Invalid grammar") as caught:
        list(reader.read(event))
    assert type(caught.value) is kind


def test_sglang_loses_no_token() -> None:
    event = {"output_ids": [1], "meta_info": {"finish_reason": None, "completion_tokens": 2}}
    reader = SglangEngine.answer_reader(None, Sampling(), 1)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="left out 1 of 2"):
        list(reader.read(event))


def test_a_server_that_is_not_sglang() -> None:
    async def run() -> None:
        async with VllmStandIn().running() as server:
            with pytest.raises(EngineError, match="404"):
                await SglangEngine.connect(server.url)

    asyncio.run(run())


# Contexts and characters of llama.cpp


def test_llama_cpp_tells_the_numbers_of_a_context_that_is_smaller_than_it_said() -> None:
    details = {"code": 400, "message": "too long", "type": "exceed_context_size_error"}
    details.update(n_prompt_tokens=90, n_ctx=80)
    error, _, _ = failure("llama.cpp", {"refuse": (400, {"error": details})})
    assert isinstance(error, ContextLengthError)
    assert (error.prompt_length, error.context_length) == (90, 80)


SPLIT = "a 🌦 歪 👩‍🚀\u2028𓀀🧬<|return|>"


@pytest.mark.parametrize("stream", [True, False])
def test_llama_cpp_loses_no_token_of_a_character(stream: bool) -> None:
    script = ENCODING.encode(SPLIT, allowed_special="all")

    async def run() -> list[int]:
        async with serving("llama.cpp", stream=stream) as (server, engine):
            server.faults.script = script
            return await tokens_of(engine, max_tokens=None)

    assert asyncio.run(run()) == script


@pytest.mark.parametrize(
    "script",
    [
        [*ENCODING.encode("𓀀")[:2], CALL],  # cut off
        [24912, 4103, 200_007, 24912, RETURN],  # with a special token inside
    ],
)
def test_llama_cpp_says_so_where_tokens_are_lost(script: list[int]) -> None:
    error, _, _ = failure("llama.cpp", {"script": script})
    assert "stream=False" in str(error)


@pytest.mark.parametrize("text", ["🧬", " 🌦", "ꙮ", "𓀀"])
def test_lost_tokens(text: str) -> None:
    *lost, last = ENCODING.encode(text)
    assert find_lost_tokens(text, last, len(lost)) == lost
    assert find_lost_tokens(text, last, len(lost) + 5) is None
    assert find_lost_tokens(text, 24912, len(lost)) is None
    assert b"".join(map(text_of, lost)) + text_of(last) == text.encode()


# HTTP


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_event_streams(size: int) -> None:
    stream = (
        b': hello\r\n\r\ndata: {"a":\r\ndata:1}\r\n\r\nevent: x\nid: 3\n\n'
        + 'data: "\u2028\x85"\n\n'.encode()
        + b'error: {"code":1}\n\ndata: [DONE]\n\ndata: not ended'
    )
    reader = EventReader()
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    result = [data for piece in pieces for data in reader.feed(piece)]
    assert result == [
        b'{"a":\n1}',
        '"\u2028\x85"'.encode(),
        b'{"error":{"code":1}}',
        b"[DONE]",
    ]


@pytest.mark.slow
def test_comments_are_signs_of_life() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for _ in range(7):  # longer than the time without data
            writer.write(b": ping\n\n")
            await asyncio.sleep(0.3)
        writer.write(b"data: 1\n\n")
        writer.close()
        await writer.wait_closed()

    async def run() -> list[Any]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpClient(url, timeout=2, **FAST)
        try:
            return [event async for event in client.ask("POST", "/", {})]
        finally:
            await client.close()
            server.close()

    assert asyncio.run(run()) == [1]


def test_a_password_in_a_url_is_sent_and_not_shown() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno")
        writer.close()
        await writer.wait_closed()

    async def run() -> str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpClient(f"http://me:se%40cret@{host}/api/v1/", **FAST)
        try:
            with pytest.raises(EngineError, match=f"^http://{host}/api/v1/models refused"):
                await client.get("/v1/models")
        finally:
            await client.close()
            server.close()
        return client.url

    assert "cret" not in asyncio.run(run())
    assert b"Authorization: Basic bWU6c2VAY3JldA==\r\n" in heads[0]
