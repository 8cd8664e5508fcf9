"""A model in this process, with Hugging Face Transformers.

Requests run at once in the continuous batching of Transformers, which is private. For a release
whose batching is not known, they run one after the other in the public `generate`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers import __version__ as transformers_version
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.utils import logging as transformers_logging
from transformers.utils.quantization_config import Mxfp4Config

from .batching_memory import MemoryPlan, ModelFigures, gigabytes, plan_memory
from .cpu_model import prepare_for_cpu
from .devices import find_machine
from .engine import EngineError, check_context, check_sizes
from .in_process_engine import InProcessEngine
from .model_names import adapter_base
from .parallel import Processes, thread_count
from .placement import DIVIDING, HOPPER_ATTENTION, Machine, Placement, place
from .sequential_generation import SequentialGeneration

if TYPE_CHECKING:
    from .continuous_batching import ContinuousBatching

_LOG = logging.getLogger(__name__)

TESTED_BATCHING = ("5.19", "5.24")
"""The first and the last release of Transformers whose batching was tested: `make transformers`."""


class TransformersEngine(InProcessEngine):
    """Runs a model of Transformers; `TransformersEngine.load` makes it from a folder or a name.

    - `model`: a loaded ``GptOssForCausalLM``, or another causal language model.
    - `name`: the model's name; the default is the one that it was loaded by.
    - `context_length`: the most tokens of prompt and completion together. The default is that of
      the model, on a CPU at most 4,096.
    - `max_requests`: the most requests at once. On a CPU, this and `context_length` determine the
      memory of the KV cache; on a GPU, Transformers uses the free memory.
    - `threads`: the threads of PyTorch on a CPU, in the whole program; the default depends on the
      size of the model and the available cores.
    - `self_check`: whether the batching is compared with the plain model before the first request;
      the default is True, except on a CPU.
    - `chooses_attention`: whether the engine may use its own attention on a CPU.

    ::

        engine = TransformersEngine.load("openai/gpt-oss-20b", max_requests=8)

    Under ``torchrun``, the model is divided among the processes by tensor and expert parallelism.
    The engine of rank 0 takes the requests; the other processes call `follow`.

    If the batching of the installed Transformers is not known, a warning is logged, and requests
    run one after the other.

    Raises `EngineError` if the model cannot run with these settings.
    """

    skips_forced = True
    _batching: ContinuousBatching | SequentialGeneration

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        context_length: int | None = None,
        max_requests: int = 16,
        threads: int | None = None,
        self_check: bool | None = None,
        chooses_attention: bool = True,
    ) -> None:
        check_sizes(context_length=context_length, max_requests=max_requests, threads=threads)
        config = model.config.get_text_config()
        super().__init__(name or model.name_or_path, int(config.vocab_size))
        self._model = model
        self._processes = Processes.of()
        longest = int(config.max_position_embeddings)
        check_context(self.model, context_length, longest)
        on_cpu = model.device.type == "cpu"
        self.context_length = context_length or (min(4096, longest) if on_cpu else longest)
        self.origin = _origin(model, self._processes.size)
        if on_cpu:
            threads = threads or thread_count(model.num_parameters(), self._processes.size)
            torch.set_num_threads(threads)
            self.origin += f" with {threads} {'thread' if threads == 1 else 'threads'}"
        is_whole = len(set((getattr(model, "hf_device_map", None) or {}).values())) < 2
        plan = None
        if config.model_type == "gpt_oss" and not on_cpu and is_whole:
            plan = self._plan(ModelFigures.of(config.to_dict()), context_length, max_requests)
            self.context_length = plan.context_length
        self._batching = self._open_batching(
            max_requests,
            plan,
            has_own_attention=on_cpu and chooses_attention,
            is_whole=is_whole,
            is_checked=not on_cpu if self_check is None else self_check,
        )
        # One after the other, `generate` takes a step for each token, forced or not.
        self.skips_forced = not isinstance(self._batching, SequentialGeneration)

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        name: str | None = None,
        context_length: int | None = None,
        max_requests: int = 16,
        threads: int | None = None,
        self_check: bool | None = None,
        **options: Any,
    ) -> TransformersEngine:
        """Load a model from a folder or the hub, where `place` says, and open its engine.

        `options` are those of ``AutoModelForCausalLM.from_pretrained``, such as
        ``device_map="auto"`` and ``attn_implementation``. Raises `EngineError` if the model cannot
        be loaded.
        """
        check_sizes(context_length=context_length, max_requests=max_requests, threads=threads)
        processes = Processes.of()
        placement = _placement(
            _figures(model, options),
            find_machine(),
            options,
            context_length,
            max_requests,
            processes.size,
        )
        return cls(
            _load(model, options, processes, placement),
            name=name or str(model),
            context_length=context_length,
            max_requests=max_requests,
            threads=threads,
            self_check=self_check,
            chooses_attention="attn_implementation" not in options,
        )

    def _plan(
        self, figures: ModelFigures, context_length: int | None, max_requests: int
    ) -> MemoryPlan:
        """Divide the memory that the weights have left on the GPU."""
        if torch.cuda.is_available():
            # What PyTorch keeps for later would not count as free.
            torch.cuda.empty_cache()
        device = find_machine().devices[self._model.device.index or 0]
        attention = str(self._model.config._attn_implementation)
        plan = plan_memory(
            figures,
            0,
            device.free,
            streams="flash" in attention,
            max_requests=max_requests,
            context_length=context_length,
        )
        _LOG.info(
            "attention %s on %s: %s of cache for %d tokens, at most %s for a step of %d tokens",
            *(attention, device.name, gigabytes(plan.cache), plan.cached_tokens),
            *(gigabytes(plan.step), plan.batch_tokens),
        )
        if context_length is None and plan.context_length < figures.context:
            _LOG.warning(
                "the context is %d tokens, as longer ones do not fit into the memory of %s",
                plan.context_length,
                device.name,
            )
        return plan

    def _open_batching(
        self,
        max_requests: int,
        plan: MemoryPlan | None,
        *,
        has_own_attention: bool,
        is_whole: bool,
        is_checked: bool,
    ) -> ContinuousBatching | SequentialGeneration:
        """Start the thread that runs the model: all requests at once, if that is possible."""
        if not is_whole:  # the cache of the batching is on one device
            return SequentialGeneration(self._model, self._requests, self._processes)
        attention = self._model.config._attn_implementation
        try:
            _check_release()
            from .continuous_batching import ContinuousBatching

            return ContinuousBatching(
                self._model,
                self._requests,
                self.context_length,
                max_requests,
                plan,
                is_checked=is_checked,
                has_drafts=has_own_attention and prepare_for_cpu(self._model, max_requests),
            )
        except ImportError as error:
            major, minor = _release(TESTED_BATCHING[1])
            _LOG.warning(
                "requests run one after the other, not at once: transformers %s is installed, and "
                "%s. For many requests at once, install a tested release: "
                "pip install 'transformers>=%s,<%s'",
                transformers_version,
                error,
                TESTED_BATCHING[0],
                f"{major}.{minor + 1}",
            )
        # `prepare_for_cpu` may have set its own before the batching turned out to be unknown.
        if self._model.config._attn_implementation != attention:
            self._model.set_attn_implementation(attention)
        if has_own_attention:
            prepare_for_cpu(self._model, max_requests, is_batched=False)
        return SequentialGeneration(self._model, self._requests, self._processes)

    @property
    def is_follower(self) -> bool:
        """Return whether the engine of another process takes the requests."""
        return self._processes.is_follower

    def follow(self) -> None:
        """Compute for the engine of rank 0 until it is closed."""
        self._batching.join()


def _check_release() -> None:
    """Raise `ImportError` if the batching of the installed Transformers was not tested."""
    first, last = map(_release, TESTED_BATCHING)
    if not first <= _release(transformers_version) <= last:
        raise ImportError(
            f"its batching was not tested (that of {' to '.join(TESTED_BATCHING)} was)"
        )


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _origin(model: Any, processes: int) -> str:
    """Name the source of the weights, their types and their devices."""
    source = model.name_or_path
    if not Path(source).is_dir():
        source += " on the Hugging Face hub"
    kind = str(model.dtype).removeprefix("torch.")
    quantizer = getattr(model, "hf_quantizer", None)
    settings = None if quantizer is None else quantizer.quantization_config
    if settings is not None and not getattr(settings, "dequantize", False):
        kind = f"{settings.quant_method.value} and {kind}"
    devices = sorted({str(parameter.device) for parameter in model.parameters()})
    of_processes = f" of {processes} processes" if processes > 1 else ""
    return f"{source}, {kind} on {', '.join(devices)}{of_processes}"


def _figures(model: str | Path, options: dict[str, Any]) -> ModelFigures | None:
    """Return the sizes of a model, or of the base of an adapter; None if they are unknown."""
    try:
        return ModelFigures.of(_text_config(model, options).to_dict())
    except Exception:  # noqa: BLE001 - loading the model raises the same error, or none
        return None


def _placement(
    figures: ModelFigures | None,
    machine: Machine,
    options: dict[str, Any],
    context_length: int | None,
    max_requests: int,
    processes: int,
) -> Placement:
    """Decide where the model runs, and log what the user should know about it."""
    if figures is None:
        is_given = options.keys() & DIVIDING or processes > 1 or not machine.devices
        device_map = None if is_given else machine.torch_name(machine.devices[0])
        return Placement(device_map, False, options.get("attn_implementation"))
    placement = place(
        figures,
        machine,
        options,
        context_length=context_length,
        max_requests=max_requests,
        processes=processes,
    )
    for remark in placement.remarks:
        _LOG.warning("%s", remark)
    return placement


def _load(
    model: str | Path, options: dict[str, Any], processes: Processes, placement: Placement
) -> Any:
    """Load the weights where `placement` says, or divided among the processes."""
    on_cpu = not torch.cuda.is_available() and "device_map" not in options
    defaults: dict[str, Any] = {"dtype": "auto"}
    if on_cpu and placement.device_map is None:
        defaults["experts_implementation"] = "eager"  # the default is slow on a CPU
    if placement.device_map is not None:
        defaults["device_map"] = placement.device_map
    if placement.attention is not None:
        defaults["attn_implementation"] = placement.attention
    if placement.dequantize:
        defaults["quantization_config"] = Mxfp4Config(dequantize=True)
    try:
        with _progress_on_terminals():
            if processes.size > 1 and not options.keys() & DIVIDING:
                config = _text_config(model, options)
                processes.check_divides(str(model), config)
                defaults["distributed_config"] = _division(processes.size, config)
                defaults["experts_implementation"] = "grouped_mm"  # "eager" cannot be divided
            loaded = _from_pretrained(model, {**defaults, **options}, options)
    except EngineError:
        raise
    except Exception as error:  # damaged files raise errors of any kind
        where = " (there is no such folder, so the hub was asked)"
        if Path(model).is_dir():
            base = adapter_base(Path(model))
            where = "" if base is None else f" (an adapter of {base})"
        raise EngineError(f"cannot load the model {str(model)!r}{where}: {error}") from error
    return loaded.eval()


def _from_pretrained(model: str | Path, settings: dict[str, Any], options: dict[str, Any]) -> Any:
    """Load the weights; without the attention that `place` chose if its kernel cannot be loaded.

    Kernels come from the hub when the model is made, before its weights are read.
    """
    try:
        return AutoModelForCausalLM.from_pretrained(model, **settings)
    except Exception as error:
        chosen = settings.get("attn_implementation")
        if chosen != HOPPER_ATTENTION or "attn_implementation" in options:
            raise
        try:
            loaded = AutoModelForCausalLM.from_pretrained(
                model, **{**settings, "attn_implementation": "eager"}
            )
        except Exception:  # noqa: BLE001 - the attention was not the cause
            raise error from None
        _LOG.warning(
            "the attention is eager, which is slow for long prompts, because the kernel %s cannot "
            "be loaded: %s",
            chosen,
            error,
        )
        return loaded


def _division(size: int, config: Any) -> DistributedConfig:
    """Divide the experts and the head among processes; raise `EngineError` if that is unknown."""
    # A head that is tied to the embedding stays whole where the embedding does (before 5.24).
    is_divided = "embed_tokens" in (getattr(config, "base_model_tp_plan", None) or {})
    plan = {"lm_head": "replicate"} if config.tie_word_embeddings and not is_divided else None
    try:
        return DistributedConfig(tp_size=size, ep_size=size, tp_plan=plan)
    except TypeError as error:  # before 5.19
        raise EngineError(
            f"transformers {transformers_version} is installed, which cannot divide a model among "
            f"{size} processes in this way; install 5.19 or newer"
        ) from error


_OF_CONFIG = {
    *("revision", "token", "cache_dir", "trust_remote_code", "local_files_only"),
    *("subfolder", "gguf_file"),
}


def _text_config(model: str | Path, options: dict[str, Any]) -> Any:
    given = {name: value for name, value in options.items() if name in _OF_CONFIG}
    if base := adapter_base(Path(model)):
        model = base
        given.pop("revision", None)  # the adapter's
    return AutoConfig.from_pretrained(model, **given).get_text_config()


@contextlib.contextmanager
def _progress_on_terminals() -> Iterator[None]:
    """Show progress bars only on terminals; download bars already do that."""

    def make(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return outer(factory, args, {"disable": None, **options})

    def make_plainly(
        factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        return factory(*args, **options)

    previous = transformers_logging.set_tqdm_hook(make)
    outer = previous or make_plainly
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(previous)
