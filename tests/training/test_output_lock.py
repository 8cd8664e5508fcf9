"""Two preparations never write into one folder; a killed one leaves no lock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from gpt_oss_harmony.training.files import prepare
from gpt_oss_harmony.training.files.addresses import OutputFolderError, SourceError
from gpt_oss_harmony.training.files.output_lock import LOCK_FILE, output_lock

ROW = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}
HOLD = """
import sys, time
from pathlib import Path
from gpt_oss_harmony.training.files.output_lock import output_lock
with output_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n" * 20)
    return path


def held_by_another(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_is_refused_with_the_first_named_and_a_kill_frees(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = held_by_another(out)
    try:
        with pytest.raises(OutputFolderError, match=rf"\(process {process.pid} on .+\); wait"):
            prepare(source, out, workers=1)
        assert os.listdir(out) == [LOCK_FILE]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert (out / LOCK_FILE).exists()
    assert prepare(source, out, workers=1).report.examples == 20
    assert not (out / LOCK_FILE).exists()


def test_threads_of_one_process_are_refused_too(source: Path, tmp_path: Path) -> None:
    refused = pytest.raises(OutputFolderError, match=rf"this process \({os.getpid()}\)")
    with output_lock(tmp_path / "out"), refused:
        prepare(source, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()
    with output_lock(tmp_path / "other"):
        assert prepare(source, tmp_path / "out", workers=1).report.examples == 20


def test_a_failure_leaves_no_lock_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere"):
        prepare(tmp_path / "nowhere.jsonl", tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()
