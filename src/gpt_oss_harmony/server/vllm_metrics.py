"""The server's metrics under vLLM's names as well, for dashboards that know only those.

Each family of vLLM is one of the server's, with the label ``model_name``. Metrics of vLLM that only
an engine can measure, such as the use of its cache, are missing; vLLM itself has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

NAMES: dict[str, tuple[str, ...]] = {
    "harmony_running": ("num_requests_running",),
    "harmony_waiting": ("num_requests_waiting",),
    "harmony_prompt_tokens": ("prompt_tokens", "prefix_cache_queries"),
    "harmony_cached_tokens": ("prefix_cache_hits",),
    "harmony_completion_tokens": ("generation_tokens",),
    "harmony_completions": ("request_success",),
    "harmony_time_to_first_token_seconds": ("time_to_first_token_seconds",),
    "harmony_time_per_output_token_seconds": (
        "inter_token_latency_seconds",
        "request_time_per_output_token_seconds",
        "time_per_output_token_seconds",
    ),
    "harmony_queue_seconds": ("request_queue_time_seconds",),
    "harmony_prefill_seconds": ("request_prefill_time_seconds",),
    "harmony_decode_seconds": ("request_decode_time_seconds",),
    "harmony_completion_seconds": ("e2e_request_latency_seconds",),
    "harmony_completion_prompt_tokens": ("request_prompt_tokens",),
    "harmony_completion_output_tokens": (
        "request_generation_tokens",
        "request_max_num_generation_tokens",  # of the completions of one request: here the same
    ),
}
"""The names that vLLM has for the server's metrics, without ``vllm:``."""

_LABELS = {"reason": "finished_reason"}
_ENDED = {"cancelled": "abort", "repetition": "length"}  # vLLM's words for ends


class VllmNames(Collector):
    """Collects the metrics of a registry a second time, under vLLM's names."""

    def __init__(self, registry: CollectorRegistry, model: str) -> None:
        self._registry = registry
        self._model = model
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry must not collect while it registers this."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the families with vLLM's names."""
        known = self._registry.restricted_registry(_series())
        for family in known.collect():
            for name in NAMES.get(family.name, ()):
                renamed = Metric(f"vllm:{name}", family.documentation, family.type)
                for sample in family.samples:
                    labels = {
                        _LABELS.get(label, label): _ENDED.get(value, value)
                        for label, value in sample.labels.items()
                    }
                    suffix = sample.name.removeprefix(family.name)
                    renamed.add_sample(
                        f"vllm:{name}{suffix}", {"model_name": self._model, **labels}, sample.value
                    )
                yield renamed


def _series() -> list[str]:
    suffixes = ("", "_total", "_created", "_bucket", "_sum", "_count")
    return [f"{name}{suffix}" for name in NAMES for suffix in suffixes]
