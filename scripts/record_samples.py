"""Record what the reference makes of the rendering samples in ``tests/data/samples``.

    python scripts/record_samples.py [--check] [CASE ...]

Each case is a folder. ``input.json`` is written by hand and says in ``from`` where the expected
rendering comes from:

``reference``, ``fork``
    ``text.txt`` and ``tokens.json`` are recorded from that library's own rendering.
``guide``, ``hand``
    ``text.txt`` is written by hand, after the guide; the reference only encodes it, so that
    ``tokens.json`` is still not ours.

With ``--check`` nothing is written; the exit status says whether anything would change. The
libraries run in virtual environments of their own, as in ``scripts/parity/run.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "parity"))

from run import PEERS, Worker, peer_python

SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "data" / "samples"


def render_case(sample: dict[str, Any]) -> dict[str, Any]:
    """The sample as a case for ``scripts/parity/worker.py``."""
    return {
        "kind": "render",
        "conversation": {"messages": sample["messages"]},
        "mode": sample["mode"],
        "role": sample.get("role"),
        "auto_drop_analysis": sample.get("auto_drop_analysis", True),
        "has_function_tools": sample.get("has_function_tools", False),
    }


class Recorder:
    """The peers, started when the first sample needs them."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}

    def expected(self, sample: dict[str, Any], text: str | None) -> tuple[str, list[int]]:
        """Text and tokens of a sample; `text` is the written one, if there is one."""
        source = sample["from"]
        if source in PEERS:
            tokens = self._ask(source, render_case(sample))
            if sample["mode"] == "message":
                (tokens,) = tokens
            return self._ask(source, {"kind": "decode", "tokens": tokens, "strict": True}), tokens
        if text is None:
            raise SystemExit("a sample of this kind needs its text.txt, written by hand")
        case = {"kind": "encode", "text": text, "allowed_special": "all"}
        return text, self._ask("reference", case)

    def close(self) -> None:
        """End the peers."""
        for worker in self._workers.values():
            worker.close()

    def _ask(self, peer: str, case: dict[str, Any]) -> Any:
        if peer not in self._workers:
            python = peer_python(peer)
            if python is None:
                raise SystemExit(f"{PEERS[peer]} cannot be installed here")
            self._workers[peer] = Worker(python)
        answer, _ = self._workers[peer].answer(case)
        if isinstance(answer, dict):
            raise SystemExit(f"the {peer} refuses {json.dumps(case)[:500]}: {answer}")
        return answer


def record(folder: Path, recorder: Recorder, *, check: bool) -> bool:
    """Record one case; tell whether its files changed, or would."""
    sample = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    text_file, tokens_file = folder / "text.txt", folder / "tokens.json"
    written = text_file.read_bytes().decode() if text_file.exists() else None
    text, tokens = recorder.expected(sample, written)
    changed = False
    for file, content in ((text_file, text), (tokens_file, json.dumps(tokens) + "\n")):
        data = content.encode()
        if not file.exists() or file.read_bytes() != data:
            changed = True
            if not check:
                file.write_bytes(data)
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description="Record the rendering samples.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    parser.add_argument("case", nargs="*", help="names of folders; all without one")
    arguments = parser.parse_args()
    names = arguments.case or sorted(path.parent.name for path in SAMPLES.glob("*/input.json"))
    recorder = Recorder()
    changed = [name for name in names if record(SAMPLES / name, recorder, check=arguments.check)]
    recorder.close()
    for name in changed:
        print("would change" if arguments.check else "recorded", name)
    print(f"{len(names)} samples, {len(changed)} changed")
    return int(arguments.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
