"""``POST /v1/tokens/render`` and ``/v1/tokens/parse``: requests to tokens, tokens to messages.

Nothing is sampled. The routes ``/tokenize``, ``/detokenize`` and ``/tokenizer_info`` are those of
vLLM, which evaluation harnesses use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from ..apis.chat.request import ChatRequest, turn_of_chat
from ..apis.request_body import read_body
from ..apis.responses.request import ResponsesRequest
from ..apis.tokens import (
    DetokenizedText,
    DetokenizeRequest,
    ParsedTokens,
    ParseRequest,
    RenderedTurn,
    TokenizedText,
    TokenizeRequest,
    TokenizerInfo,
)
from ..apis.turn import TurnRequest
from ..encoding import load_harmony_encoding
from ..errors import TokenError, VocabularyError
from ..parsing.parser import StreamableParser
from ..tokens.special_tokens import (
    END_OF_TEXT,
    RETURN,
    SPECIAL_TEXTS,
    START_OF_TEXT,
    VOCABULARY_SIZE,
)
from ..tokens.tokenizer import token_ids
from .auth.api_keys import AuthenticatedCaller
from .http.errors import ApiError
from .http.json import large_json_response
from .limited_route import LimitedRoute, in_pool
from .responses.plan import planned_turn
from .services import services_of

router = APIRouter(prefix="/v1/tokens", tags=["Tokens"], route_class=LimitedRoute)

_REQUEST = "A request of Chat Completions (with `messages`) or Responses (with `input`)."


@router.post("/render", response_model=None, responses={200: {"model": RenderedTurn}})
async def render(
    body: Annotated[dict[str, Any], Body(description=_REQUEST)],
    request: Request,
    caller: AuthenticatedCaller,
) -> Response:
    """Render a request to the prompt's text and tokens; nothing is sampled."""
    services, owner = services_of(request), caller.owner
    pool, files = services.pools.encoding, services.file_texts
    turn_of: Callable[[], TurnRequest]
    if "messages" in body:
        chat = await in_pool(request, pool, owner, read_body, ChatRequest, body)
        services.check_model(chat.model)
        chat = await files.of_chat(owner, chat)
        turn_of = partial(turn_of_chat, chat, date=services.current_date())
    else:
        read = await in_pool(request, pool, owner, read_body, ResponsesRequest, body)
        services.check_model(read.model)
        turn_of = partial(planned_turn, services, owner, await files.of_response(owner, read))

    def work() -> Response:
        segments = turn_of().segments()
        tokens = [token for segment in segments for token in segment.tokens]
        caller.usage.tokens += len(tokens)
        return large_json_response(
            {
                "text": "".join(segment.text for segment in segments),
                "tokens": tokens,
                "segments": [segment._asdict() for segment in segments],
                "count": len(tokens),
            }
        )

    return await in_pool(request, pool, owner, work)


@router.post("/parse", response_model=None, responses={200: {"model": ParsedTokens}})
async def parse(body: ParseRequest, request: Request, caller: AuthenticatedCaller) -> Response:
    """Parse tokens, or text with special tokens, to messages."""

    def work() -> Response:
        encoding = load_harmony_encoding("HarmonyGptOss")
        strict = bool(body.strict)
        parser = StreamableParser(encoding, body.role, strict=strict, tools=body.tools or ())
        tokens = body.tokens
        if tokens is None:
            tokens = encoding.encode(body.text or "", allowed_special="all")
        field = "tokens" if body.text is None else "text"
        try:
            parser.process_many(token_ids(tokens) if strict else tokens)
            parser.process_eos()
        except TokenError as error:
            problem = f"{error}; set strict to false to repair the tokens"
            raise ApiError(400, problem, param=field, code="invalid_markup") from error
        except VocabularyError as error:
            raise ApiError(400, str(error), param=field, code="invalid_value") from error
        caller.usage.tokens += len(tokens)
        return large_json_response(
            {
                "messages": [message.to_dict() for message in parser.messages],
                "incomplete": parser.incomplete,
                "recoveries": [recovery._asdict() for recovery in parser.recoveries],
                "count": len(tokens),
            }
        )

    return await in_pool(request, services_of(request).pools.encoding, caller.owner, work)


# As in vLLM


plain_router = APIRouter(tags=["Tokens"], route_class=LimitedRoute)


@plain_router.post("/tokenize", response_model=None, responses={200: {"model": TokenizedText}})
async def tokenize(
    body: TokenizeRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Encode a text."""
    services = services_of(request)
    services.check_model(body.model)

    def work() -> Response:
        encoding = load_harmony_encoding("HarmonyGptOss")
        tokens = encoding.encode(body.prompt, allowed_special="all")
        texts = [encoding.decode([token]) for token in tokens] if body.return_token_strs else None
        caller.usage.tokens += len(tokens)
        return large_json_response(
            {
                "count": len(tokens),
                "max_model_len": services.context_length,
                "tokens": tokens,
                "token_strs": texts,
            }
        )

    return await in_pool(request, services.pools.encoding, caller.owner, work)


@plain_router.post("/detokenize", response_model=None, responses={200: {"model": DetokenizedText}})
async def detokenize(
    body: DetokenizeRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Decode tokens."""
    services = services_of(request)
    services.check_model(body.model)

    def work() -> Response:
        encoding = load_harmony_encoding("HarmonyGptOss")
        try:
            text = encoding.decode(token_ids(body.tokens))
        except VocabularyError as error:
            raise ApiError(400, str(error), param="tokens", code="invalid_value") from error
        caller.usage.tokens += len(body.tokens)
        return large_json_response({"prompt": text})

    return await in_pool(request, services.pools.encoding, caller.owner, work)


@plain_router.get("/tokenizer_info")
async def tokenizer_info(request: Request, _: AuthenticatedCaller) -> TokenizerInfo:
    """Describe the encoding; every model of gpt-oss has the same."""
    return {
        "tokenizer_class": "HarmonyEncoding",
        "vocab_size": VOCABULARY_SIZE,
        "model_max_length": services_of(request).context_length,
        "bos_token": SPECIAL_TEXTS[START_OF_TEXT],
        "eos_token": SPECIAL_TEXTS[RETURN],
        "pad_token": SPECIAL_TEXTS[END_OF_TEXT],
    }
