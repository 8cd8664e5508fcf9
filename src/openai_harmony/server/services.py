"""What the routes of one server share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from fastapi import Request

from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..engines.engine import Engine
from ..tools.server_tool import ServerTool
from ..tools.tool import Tool
from .admission import Admission, shutting_down
from .api_error import ApiError
from .keys.api_keys import ApiKeys
from .keys.limits import KeyLimiter
from .metrics import Metrics
from .responses.runs import ResponseRuns
from .sealed_reasoning import ReasoningSeal
from .settings import Settings
from .store import Store

__all__ = ["Services", "services_of"]


@dataclass
class Services:
    """An engine, and what is kept about the requests to it; `tools` by their names."""

    engine: Engine
    settings: Settings
    store: Store
    seal: ReasoningSeal
    tools: Mapping[str, Tool[Any]] = field(default_factory=dict)
    keys: ApiKeys = field(init=False)
    limiter: KeyLimiter = field(default_factory=KeyLimiter, init=False)
    runs: ResponseRuns = field(default_factory=ResponseRuns)
    admission: Admission = field(init=False)
    metrics: Metrics = field(init=False)
    started: float = field(default_factory=time.time, init=False)

    def __post_init__(self) -> None:
        self.keys = ApiKeys(self.store.keys, self.settings.api_keys)
        self.admission = Admission(self.settings.max_running, self.settings.max_waiting)
        self.metrics = Metrics(self.admission)

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together, at most."""
        most = self.settings.context_length or self.engine.context_length
        return min(most, self.engine.context_length)

    @property
    def built_in(self) -> dict[str, ToolNamespaceConfig]:
        """The declarations of the tools that models were trained with."""
        return {
            name: tool.namespace
            for name, tool in self.tools.items()
            if not isinstance(tool, ServerTool)
        }

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names that requests may use; answers bear the one that was used."""
        return self.settings.model_names or (self.engine.model,)

    def check_model(self, name: str | None) -> str:
        """Return the name for the answer; raise `ApiError` where it is another model's."""
        if name is None:
            return self.model_names[0]
        if name not in self.model_names:
            known = ", ".join(self.model_names)
            raise ApiError(
                404,
                f"the model {name!r} is not served here; there is: {known}",
                param="model",
                code="model_not_found",
            )
        return name

    def current_date(self) -> str | None:
        """The date that the model reads."""
        date = self.settings.current_date
        return datetime.now(timezone.utc).date().isoformat() if date == "today" else date

    async def shut_down(self) -> None:
        """Let requests under way end; after the deadline, those that are left end with an error."""
        in_time = await self.admission.close(self.settings.shutdown_seconds)
        await self.runs.end_all(shutting_down())
        if not in_time:
            await self.engine.close()


def services_of(request: Request) -> Services:
    """Find them from a route."""
    services: Services = request.app.state.services
    return services
