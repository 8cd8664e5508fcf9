"""``harmony models``: the gpt-oss weights on this computer, and what opens each of them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..engines.batching_memory import gigabytes
from ..engines.engine import EngineError
from ..engines.gguf_conversion import convert_ollama_gguf
from ..engines.installed_models import InstalledModel, find_installed, installed_models
from ..engines.local_memory import machine_memory, plan_local_memory
from ..engines.model_names import split_program
from .command import Command
from .options import add_color
from .output import Output


class _Models(Command):
    name = "models"
    purpose = "run a model"
    summary = "list the gpt-oss weights on this computer"
    examples = """\
  harmony models
  harmony models --json
  harmony models --convert ollama:gpt-oss:20b
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--convert",
            metavar="NAME",
            help="copy a model of Ollama's once into the form that llama.cpp reads, as many bytes "
            "as the model has; a copy that was interrupted goes on",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        output = Output(arguments.color)
        if arguments.convert:
            program, own = split_program(arguments.convert)
            place = Path(arguments.convert)
            if program is not None:
                model = find_installed(program, own, convertible=True)
                place = model.place
            output.line(str(convert_ollama_gguf(place, _show if sys.stderr.isatty() else None)))
            return
        found = installed_models()
        if arguments.json:
            rows = [
                {**_fields(model), "fits": _fits(model), "problem": model.problem}
                for model in found
            ]
            output.line(json.dumps(rows, indent=2))
            return
        if not found:
            output.line(
                "there are no weights of gpt-oss in the folders of Hugging Face, Ollama, LM Studio "
                "and llama.cpp; 'harmony serve openai/gpt-oss-20b' downloads them"
            )
        for model in found:
            engine = model.engines[0] if model.engines else "-"
            size = gigabytes(model.size)
            # Whoever wrote a file chose its name.
            output.line(output.in_a_line(f"{model.name}  {size}  {model.quantization}  {engine}"))
            output.line(output.in_a_line(f"  {model.problem or _fits(model)}"))


MODELS = _Models()


def _fields(model: InstalledModel) -> dict[str, object]:
    return {
        "name": model.name,
        "program": model.program,
        "place": str(model.place),
        "size": model.size,
        "quantization": model.quantization,
        "engines": model.engines,
    }


def _fits(model: InstalledModel) -> str:
    """Say whether a model fits into the memory, with the context of one request."""
    if model.problem or model.figures is None:
        return ""
    if model.engines[0] == "transformers":
        return f"'harmony doctor {model.name}' says where it runs and whether it fits"
    try:
        plan = plan_local_memory(model.name, model.figures, model.size, machine_memory(), None, 1)
    except EngineError as error:
        return str(error).partition("; ")[0]
    return f"fits, with a context of {plan.context_length:,} tokens"


def _show(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\r{gigabytes(done)} of {gigabytes(total)}", end=end, file=sys.stderr, flush=True)
