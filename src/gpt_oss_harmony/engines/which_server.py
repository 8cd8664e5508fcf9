"""Which server answers at a URL: one that an engine speaks to, or one that cannot be an engine.

An engine needs token ids both ways, the special tokens among them, and a grammar for the whole
turn. Most servers of the OpenAI APIs take and give only text; the error names the server, what it
lacks, and what opens the same weights here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .engine import Engine, EngineError, unknown_options
from .http_client import HttpClient
from .llama_cpp_engine import LlamaCppEngine
from .sglang_engine import SglangEngine
from .vllm_engine import VllmEngine

_HUB_MODEL = "openai/gpt-oss-20b"
_TEXT = "takes only text (no token ids in prompts, no special tokens in answers, no grammar)"


class _Server(NamedTuple):
    """A kind of server: its name, what it lacks, and our name for one of its models."""

    name: str
    lacks: str
    model: str
    """With ``{id}`` for the id that the server gives the model."""


_OLLAMA = _Server("Ollama", f"{_TEXT}, also in its raw mode", "ollama:{id}")
_LM_STUDIO = _Server("LM Studio", _TEXT, "lmstudio:{id}")
_MLX = _Server("mlx_lm.server", _TEXT, "{id} --engine mlx")
_OPENVINO = _Server("OpenVINO Model Server", _TEXT, _HUB_MODEL)
_FOUNDRY = _Server("Foundry Local", _TEXT, _HUB_MODEL)

_BY_OWNER = {
    "tensorrt_llm": _Server(
        "TensorRT-LLM",
        "takes only text from this library, as no engine was written for its token ids",
        "{id}",
    ),
    "lmdeploy": _Server("LMDeploy", _TEXT, "{id}"),
    "organization_owner": _LM_STUDIO,
    "ovms": _OPENVINO,
    "microsoft": _FOUNDRY,
}
"""Servers by the `owned_by` of their models, in lower case."""

_BY_ANSWER = (
    ("/lmstudio-greeting", "lmstudio", _LM_STUDIO),
    ("/api/version", "version", _OLLAMA),
    ("/openai/status", "modelDirPath", _FOUNDRY),
)
"""Servers by a path that only they have, and a field of its answer."""


async def open_server(url: str, options: Mapping[str, Any]) -> Engine:
    """Find out which server answers, and connect to it; raises `EngineError`."""
    engine: type[LlamaCppEngine | SglangEngine | VllmEngine] = VllmEngine
    for candidate in (LlamaCppEngine, SglangEngine):
        if await candidate.answers(url, api_key=options.get("api_key")):
            engine = candidate
    try:
        return await engine.connect(url, **options)
    except TypeError as error:
        raise unknown_options(engine.__name__, options, error, engine.connect) from error
    except EngineError as error:
        named = None if error.retryable else await name_other_server(url, options.get("api_key"))
        if named is None:
            raise
        raise EngineError(named) from error


async def name_other_server(url: str, api_key: str | None = None) -> str | None:
    """Return a sentence about the server at `url` if it is a known one; this raises no error."""
    client = HttpClient(url, api_key=api_key, timeout=10, pauses=())
    try:
        models = await _models(client)
        server = await _identify(client, models)
    finally:
        await client.close()
    if server is None:
        return None
    ids = [str(model.get("id", "")) for model in models]
    chosen = next((id for id in ids if "gpt-oss" in id.lower()), ids[0] if ids else "gpt-oss-20b")
    return (
        f"{client.url} is {server.name}, which {server.lacks}; so it cannot be an engine. Open the "
        f"same model here: 'harmony serve {server.model.format(id=chosen)}', or run it in "
        "llama-server and name its URL"
    )


async def _identify(client: HttpClient, models: list[dict[str, Any]]) -> _Server | None:
    for model in models:
        owner = str(model.get("owned_by", "")).lower()
        if owner in _BY_OWNER:
            return _BY_OWNER[owner]
    for path, name, server in _BY_ANSWER:
        answer = await _get(client, path)
        if isinstance(answer, dict) and name in answer:
            return server
    about = await _get(client, "/v2")  # of servers that follow KServe
    if isinstance(about, dict) and "OpenVINO" in str(about.get("name")):
        return _OPENVINO
    health = await _get(client, "/health")
    if models and health == {"status": "ok"} and not any("owned_by" in model for model in models):
        return _MLX
    return None


async def _models(client: HttpClient) -> list[dict[str, Any]]:
    answer = await _get(client, "/v1/models")
    listed = answer.get("data") if isinstance(answer, dict) else None
    return (
        [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []
    )


async def _get(client: HttpClient, path: str) -> Any:
    try:
        return await client.get(path)
    except EngineError:
        return None
