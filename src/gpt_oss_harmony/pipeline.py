"""A model as a function: conversations in, messages out, without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from .apis.chat.input import conversation_from_chat
from .conversation.messages import Conversation, Message
from .engines import open_engine
from .engines.completion import Completion, complete
from .engines.engine import Sampling

__all__ = ["Pipeline", "pipeline"]

_Result = TypeVar("_Result")


def pipeline(model: str = "demo", **options: Any) -> Pipeline:
    """Open a model: ``demo``, a folder, a name on the Hugging Face hub, or the URL of a server.

    `options` are the options of the engine (`gpt_oss_harmony.engines.open_engine`). Raises
    `EngineError` if the model cannot be opened.
    """
    return Pipeline(model, options)


class Pipeline:
    """A model as a function; use it as a context manager, or call `close`.

    The engine runs in a thread of its own. So a pipeline also works where an event loop is running
    already, as in a notebook of Jupyter.
    """

    def __init__(self, model: str, options: Mapping[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon, so that a pipeline that nobody closes does not keep the program from ending.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.engine = self._run(open_engine(model, **options))
        except BaseException:
            self._stop()
            raise

    def __call__(
        self,
        conversation: str | list[dict[str, Any]] | Mapping[str, Any] | Conversation,
        sampling: Sampling | None = None,
    ) -> list[Message]:
        """Return the assistant's next messages.

        `conversation` is a question, a list of Chat Completions messages, a Chat Completions
        request, or a harmony `Conversation`.
        """
        return self.complete(conversation, sampling).messages

    def complete(
        self,
        conversation: str | list[dict[str, Any]] | Mapping[str, Any] | Conversation,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Return the next turn with its tokens, log-probabilities and finish reason."""
        if isinstance(conversation, str):
            conversation = [{"role": "user", "content": conversation}]
        if not isinstance(conversation, Conversation):
            conversation = conversation_from_chat(conversation)
        return self._run(complete(self.engine, conversation, sampling))

    def close(self) -> None:
        """Close the engine and end its thread; the pipeline cannot be used any more."""
        if self._thread.is_alive():
            self._run(self.engine.close())
            self._stop()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
