"""A small model in this process with NumPy alone, such as the demo model.

`GptOss` computes in float32, on one core. All requests are the rows of one step.
"""

from __future__ import annotations

import ctypes
import json
import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .demo_model import demo_weights
from .engine import EngineError, check_context, check_sizes
from .in_process_engine import InProcessEngine, ModelThread
from .numpy_model import GptOss, KeyValueCache
from .numpy_sampling import choose_token
from .parallel import available_memory
from .safetensors_file import Array, read_safetensors
from .token_sampler import RunningRequest, deliver

_STEP_TOKENS = 256  # of a long prompt; the other requests get their next token in between

_TOY = "a toy of 2 MB for sums, shopping lists and one weather function"


class NumpyEngine(InProcessEngine):
    """Runs a model of the architecture gpt-oss; `NumpyEngine.load` makes it.

    - `model`: the model in NumPy.
    - `context_length`: the most tokens of prompt and completion together.
    - `max_requests`: the most requests at once; further ones wait.

    ::

        engine = NumpyEngine.load("demo")
    """

    skips_forced = True

    def __init__(
        self,
        model: GptOss,
        *,
        name: str,
        context_length: int | None = None,
        max_requests: int = 16,
        origin: str = "",
    ) -> None:
        check_sizes(context_length=context_length, max_requests=max_requests)
        super().__init__(name, model.vocabulary_size)
        check_context(name, context_length, model.context_length)
        self.context_length = context_length or model.context_length
        self.origin = origin
        _use_one_thread()
        self._batching: NumpyBatching = NumpyBatching(model, self._requests, max_requests)

    @classmethod
    def load(
        cls,
        model: str | Path = "demo",
        *,
        name: str | None = None,
        context_length: int | None = None,
        max_requests: int = 16,
    ) -> NumpyEngine:
        """Load ``demo``, or a folder in Transformers' format whose weights are not quantised.

        Raises `EngineError` for another model, and for one that does not fit into the memory.
        """
        check_sizes(context_length=context_length, max_requests=max_requests)
        folder = Path(model)
        loaded = GptOss(*demo_weights()) if model == "demo" else _of_folder(folder)
        return cls(
            loaded,
            name=name or str(model),
            context_length=context_length,
            max_requests=max_requests,
            origin=f"{_TOY if model == 'demo' else model}, float32 in NumPy on one core",
        )


def _of_folder(folder: Path) -> GptOss:
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        if config.get("quantization_config") or config.get("quantization"):
            raise EngineError(f"the weights of {folder} are quantised; use another engine")
        files = sorted(folder.glob("model*.safetensors"))
        # Stored as bfloat16, the weights are twice as large in float32.
        needed = 2 * sum(file.stat().st_size for file in files)
        free = available_memory()
        if free is not None and needed > free:
            raise EngineError(
                f"{folder} needs {needed / 1e9:,.1f} GB of memory in float32, but "
                f"{free / 1e9:,.1f} GB are free; NumPy is for small models, use another engine"
            )
        weights: dict[str, Array] = {}
        for file in files:
            with file.open("rb") as content:
                mapped = mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
            weights |= read_safetensors(memoryview(mapped))
        return GptOss(config, weights)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise EngineError(f"{folder} cannot be loaded: {error}") from error


@dataclass
class _Place:
    """A request in the batch, and the tokens that the model has yet to read."""

    request: RunningRequest
    unread: list[int]
    cache: KeyValueCache


class NumpyBatching(ModelThread):
    """The thread that runs a model."""

    cached_tokens = 0

    def __init__(
        self, model: GptOss, requests: dict[str, RunningRequest], max_requests: int
    ) -> None:
        super().__init__(requests, "harmony-numpy")
        self._model = model
        self._max_requests = max_requests
        self._places: dict[str, _Place] = {}
        self._thread.start()

    @property
    def _is_idle(self) -> bool:
        return not self._places

    def _open(self) -> None:
        self._places.clear()

    def _close(self, problem: str) -> None:
        for place in self._places.values():
            place.request.fail(problem)

    def _insert(
        self, name: str, request: RunningRequest, prompt: list[int], max_tokens: int
    ) -> None:
        self._places[name] = _Place(request, prompt, self._model.new_cache())

    def _withdraw(self, name: str) -> None:
        self._places.pop(name, None)

    def _step(self) -> None:
        names = list(self._places)[: self._max_requests]
        places = [self._places[name] for name in names]
        parts: list[tuple[list[int], KeyValueCache]] = []
        room = _STEP_TOKENS
        for place in places:
            # At least one: a running request gets its next token, however long other prompts are.
            count = min(len(place.unread), max(room, 1))
            parts.append((place.unread[:count], place.cache))
            place.unread = place.unread[count:]
            room -= count
        vectors = self._model.read(parts)
        ready = [at for at, place in enumerate(places) if not place.unread]
        if not ready:
            return
        requests = [places[at].request for at in ready]
        logits = self._model.logits(vectors[ready])
        chosen = [
            choose_token(row, request.sampler)
            for row, request in zip(logits, requests, strict=True)
        ]
        for at, tokens in zip(ready, deliver(requests, chosen), strict=True):
            places[at].unread = tokens
            if places[at].request.is_finished:
                del self._places[names[at]]


def _use_one_thread() -> None:
    """Let OpenBLAS compute in the thread that calls it.

    The matrices are so small that its threads would mostly wait for each other. NumPy has no
    setting for that, so the library that came with it is called. Other BLAS libraries are left.
    """
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for file in folder.glob("*openblas*"):
            library = ctypes.CDLL(str(file))
            for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
                setter = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
                if setter is not None:
                    setter(1)
                    break
