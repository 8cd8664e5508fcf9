"""Count the false alarms of the repetition detector in files of installed packages.

    python scripts/engines/repetition_alarms.py [FOLDER] [--files N]

FOLDER is by default that of the packages of this Python. Each text file counts as the completion of
a model, up to 30,000 characters. For each threshold the command prints the number of files in which
the detector would have ended it, and the processor time for a token.
"""

from __future__ import annotations

import argparse
import sysconfig
from itertools import islice
from pathlib import Path
from time import process_time

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines import RepetitionDetector

CHARACTERS = 30_000
THRESHOLDS = (64, 256, 512)
TEXTS = {".c", ".css", ".csv", ".h", ".hpp", ".html", ".js", ".json", ".md", ".py", ".svg", ".txt"}


def main() -> None:
    """Print the alarms."""
    parser = argparse.ArgumentParser(description="Count false alarms of the repetition detector.")
    parser.add_argument("folder", nargs="?", default=sysconfig.get_path("purelib"), type=Path)
    parser.add_argument("--files", type=int, default=2_000, metavar="N", help="default: 2000")
    arguments = parser.parse_args()
    encoding = load_harmony_encoding("HarmonyGptOss")
    # Sorted by the reversed path, so that a few files are of many packages.
    paths = sorted(
        (path for path in Path(arguments.folder).rglob("*") if path.suffix in TEXTS),
        key=lambda path: (path.name[::-1], str(path)),
    )
    step = max(1, len(paths) // arguments.files)
    texts = [
        path.read_text(encoding="utf-8", errors="replace")[:CHARACTERS]
        for path in islice(paths, 0, None, step)
    ]
    tokens = [encoding.encode(text, disallowed_special=()) for text in texts]
    total = sum(map(len, tokens))
    print(f"{len(texts):,} of {len(paths):,} files, {total:,} tokens")
    for threshold in THRESHOLDS:
        start = process_time()
        alarms = 0
        for text in tokens:
            take = RepetitionDetector(threshold).take
            alarms += any(take(token) for token in text)
        seconds = process_time() - start
        print(f"{threshold}: {alarms} alarms, {seconds / total * 1e6:.2f} µs for each token")


if __name__ == "__main__":
    main()
