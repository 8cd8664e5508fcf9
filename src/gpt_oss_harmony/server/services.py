"""The objects that the routes of one server share."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastapi import Request

from .. import __version__
from ..apis.current_date import current_date
from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..engines.engine import Engine
from ..grammar.errors import GrammarError
from ..tools.tool import ServerTool, Tool
from .admission import Admission
from .auth.api_keys import ApiKeys
from .auth.limits import KeyLimiter, Quota, SharedKeyLimiter
from .encryption import ItemCipher
from .fair_turns import FairSemaphore, Pools
from .file_texts import FileTexts
from .http.errors import ApiError, shutting_down
from .live_responses import LiveResponses
from .metrics import Metrics, keyword_of
from .peers import Peers
from .settings import Settings
from .stored import AsyncStore
from .unknown_fields import UnknownFields

if TYPE_CHECKING:
    from .telemetry import Telemetry


@dataclass
class Services:
    """An engine and everything else that requests need; `create_app` makes the parts.

    `tools` are by name.
    """

    engine: Engine
    settings: Settings
    store: AsyncStore
    cipher: ItemCipher
    tools: Mapping[str, Tool[Any]]
    keys: ApiKeys
    pools: Pools
    limiter: KeyLimiter | SharedKeyLimiter
    admission: Admission
    live_responses: LiveResponses
    file_texts: FileTexts
    peers: Peers
    metrics: Metrics
    unknown_fields: UnknownFields
    request_bytes: Quota
    decoded_bytes: Quota
    answer_bytes: Quota
    sockets: Quota
    large_messages: FairSemaphore
    telemetry: Telemetry | None = None
    new_batches: asyncio.Event = field(default_factory=asyncio.Event)
    started: float = field(default_factory=time.time)

    @cached_property
    def context_length(self) -> int:
        """The most tokens of prompt and output together."""
        limit = self.settings.context_length or self.engine.context_length
        return min(limit, self.engine.context_length)

    @property
    def built_in(self) -> dict[str, ToolNamespaceConfig]:
        """The declarations of the tools that models were trained with."""
        return {
            name: tool.namespace
            for name, tool in self.tools.items()
            if not isinstance(tool, ServerTool)
        }

    @cached_property
    def model_names(self) -> tuple[str, ...]:
        """The names that requests may use; a response repeats the name in its request."""
        return self.settings.model_names or (self.engine.model,)

    @cached_property
    def system_fingerprint(self) -> str:
        """The id of the model and this library; with another one, answers may differ."""
        identity = f"{self.engine.model}\n{self.engine.origin}\n{__version__}"
        return f"fp_{hashlib.sha256(identity.encode()).hexdigest()[:10]}"

    def note_refusal(self, error: GrammarError) -> None:
        """Record that a request is refused because its schema cannot be enforced."""
        self.metrics.refusals.labels(keyword_of(error)).inc()
        if self.telemetry is not None:
            self.telemetry.refused(error)

    def check_model(self, name: str | None) -> str:
        """Return the name for the response; raise `ApiError` for the name of another model."""
        if name is None:
            return self.model_names[0]
        if name not in self.model_names:
            raise ApiError(
                404,
                f"the model {name!r} is not served here; use {' or '.join(self.model_names)}",
                param="model",
                code="model_not_found",
            )
        return name

    def current_date(self) -> str | None:
        """Return the current date for prompts."""
        return current_date(self.settings.current_date)

    async def shut_down(self) -> None:
        """Wait for running requests; after the deadline, the others end with an error."""
        in_time = await self.admission.close(self.settings.shutdown_seconds)
        await self.live_responses.end_all(shutting_down())
        if isinstance(self.limiter, SharedKeyLimiter):
            await self.limiter.close()
        if not in_time:
            await self.engine.close()


def services_of(request: Request) -> Services:
    """Return the services of the application that got the request."""
    services: Services = request.app.state.services
    return services
