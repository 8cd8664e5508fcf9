"""Fuzz one target with atheris: ``python -m fuzz.run parser -max_total_time=60``.

What follows the target's name goes to libFuzzer. Inputs that reach new code are kept in
``build/fuzz/TARGET`` and the next run goes on with them. An input that breaks a promise is printed
as a case for ``tests/data/hostile``, and the run ends with an error.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import traceback
from pathlib import Path

import atheris  # type: ignore[import-untyped,unused-ignore]

CORPUS = Path(__file__).parent.parent / "build" / "fuzz"


def _instrumented() -> None:
    """Import every module of the library (many are imported lazily) with counters in it."""
    with atheris.instrument_imports(include=["gpt_oss_harmony"]):
        import gpt_oss_harmony

        for module in pkgutil.iter_modules(gpt_oss_harmony.__path__, "gpt_oss_harmony."):
            if not module.ispkg and not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def main(arguments: list[str]) -> None:
    """Run the target that the first argument names."""
    _instrumented()
    from .inputs import Choices
    from .promises import PROMISES, READERS

    name = arguments[0] if arguments else ""
    if name not in PROMISES:
        sys.exit(f"usage: python -m fuzz.run TARGET [libFuzzer options] ({', '.join(PROMISES)})")
    promise, read = PROMISES[name], READERS[name]

    def run_one(data: bytes) -> None:
        case = read(Choices(data))
        try:
            promise(case)
        except BaseException:  # RecursionError and panics of extensions included
            traceback.print_exc()
            print(json.dumps({"promise": name, "why": "", "input": case}), flush=True)
            raise

    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    options = [f"-artifact_prefix={CORPUS}/{name}-", *arguments[1:]]
    atheris.Setup([sys.argv[0], *options, str(corpus)], run_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
