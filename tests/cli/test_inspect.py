"""``harmony inspect`` as a process: where it listens, what it opens, what it keeps."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.cli.input import InputError
from gpt_oss_harmony.cli.inspect import page_fragment
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, serving

CHAT = {"messages": [{"role": "user", "content": "<script>alert(1)</script> \u202e 🏰 \ud83d"}]}
ANSWER = "<|channel|>final<|message|>Four.<|return|>"

_ADDRESS = re.compile(r"inspect at (http://127\.0\.0\.1:\d+/)(\S*)\n")


class Inspector:
    """The process, once it has said where its page is."""

    def __init__(self, state: Path, *arguments: str, browser: str | None = None) -> None:
        opens = ["--no-open"] if browser is None else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpt_oss_harmony", "inspect", *opens, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "XDG_STATE_HOME": str(state),
                "XDG_CACHE_HOME": str(state),
                "BROWSER": browser or "",
            },
        )
        assert self.process.stderr is not None
        # What hangs is killed, and the test fails for want of the line.
        self._watch = threading.Timer(PATIENCE, self.process.kill)
        self._watch.start()
        self.log = ""
        self.url = self.fragment = ""
        for line in self.process.stderr:
            self.log += line
            match = _ADDRESS.fullmatch(line)
            if match is not None:
                self.url, self.fragment = match.groups()
                return
        raise AssertionError(self.log)

    def end(self, number: int) -> int:
        """Send a signal; return the exit status when it has ended."""
        assert self.process.stderr is not None
        self.process.send_signal(number)
        self.log += self.process.stderr.read()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self._watch.cancel()
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def inspecting(
    state: Path, *arguments: str, browser: str | None = None
) -> Iterator[tuple[Inspector, httpx2.Client]]:
    inspector = Inspector(state, *arguments, browser=browser)
    try:
        with httpx2.Client(base_url=inspector.url, timeout=PATIENCE) as client:
            yield inspector, client
    finally:
        inspector.close()


def unpacked(fragment: str) -> Any:
    """Read what the page reads from its address."""
    packed = fragment.removeprefix("#c=")
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    return json.loads(zlib.decompress(data, wbits=-15))


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)], ids=["Ctrl-C", "the end"]
)
def test_it_serves_the_page_until_it_is_ended(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with inspecting(tmp_path) as (inspector, client):
        assert inspector.fragment == ""
        assert "<title>" in client.get("/").text
        assert client.get("/inspector/api/settings").json()["live"] is False
        assert client.post("/inspector/api/parse", json={"input": "1 2"}).status_code == 200
        assert client.get("/", headers={"Host": "attacker.example"}).status_code == 400
        assert client.get("/", headers={"Origin": "http://a.example"}).status_code == 403
        assert client.get("/v1/models").status_code == 404
        assert inspector.end(number) == status
    assert "Traceback" not in inspector.log
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_opened_in_the_browser(tmp_path: Path) -> None:
    file, opened = tmp_path / "chat.json", tmp_path / "opened"
    file.write_text(json.dumps(CHAT))
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o700)
    with inspecting(tmp_path, str(file), browser=f"{browser} %s") as (inspector, _):
        assert opened.read_text() == inspector.url + inspector.fragment
    assert unpacked(inspector.fragment) == {"source": CHAT}


@pytest.mark.slow
def test_a_model_can_be_talked_with_and_nothing_is_kept(tmp_path: Path) -> None:
    """The engine is another server, as it may be vLLM."""
    with (
        serving(ScriptedEngine(ANSWER)) as engine,
        inspecting(tmp_path, engine.removesuffix("/v1")) as (inspector, client),
    ):
        settings = client.get("/inspector/api/settings").json()
        values = [settings[name] for name in ("live", "needs_key", "model")]
        assert values == [True, False, "script"]
        source = {"messages": [{"role": "user", "content": "2 + 2?"}]}
        prompt = client.post("/inspector/api/render", json={"source": source}).json()
        asked = {"prompt": prompt["tokens"]["ids"], "return_token_ids": True, "max_tokens": 50}
        answer = client.post("/v1/completions", json=asked).json()["choices"][0]
        ids = " ".join(map(str, answer["token_ids"]))
        read = client.post("/inspector/api/parse", json={"input": ids}).json()["strict"]
        assert read["messages"][0]["content"][0]["text"] == "Four."
        assert client.get("/", headers={"Host": "attacker.example"}).status_code == 400
        refused = client.post("/v1/completions", json=asked, headers={"Host": "attacker.example"})
        assert refused.status_code == 400
        refused = client.post("/v1/completions", json=asked, headers={"Origin": "http://a.example"})
        assert refused.status_code == 403
        assert inspector.end(signal.SIGTERM) == 0
    assert "Traceback" not in inspector.log
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_messages_is_a_conversation() -> None:
    fragment = page_fragment(CHAT["messages"])
    assert unpacked(fragment) == {"source": CHAT}
    assert re.fullmatch(r"#c=[\w-]+", fragment, re.ASCII)


@pytest.mark.parametrize("source", [{"choices": []}, {"foo": 1}, "text"])
def test_what_is_no_conversation_is_refused(source: Any) -> None:
    with pytest.raises(InputError, match="expected a conversation or a request"):
        page_fragment(source)


def test_what_is_too_long_for_an_address_is_refused() -> None:
    noise = "".join(chr(0x4E00 + index * 7919 % 20000) for index in range(60_000))
    with pytest.raises(InputError, match="too long for an address"):
        page_fragment({"input": noise})


@pytest.mark.parametrize(
    ("arguments", "content", "problem"),
    [
        (("chat.json",), "{", "chat.json: not valid JSON"),
        (("demo", "chat.json"), "1", "chat.json: expected a conversation or a request"),
        (("none.json",), "{}", "none.json: cannot be read"),
        (("--no-open", "a/b/c/d"), "{}", "a/b/c/d"),
    ],
)
def test_wrong_arguments_are_one_clear_line(
    arguments: tuple[str, ...],
    content: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "chat.json").write_text(content)
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["inspect", *arguments]) == (2 if "cannot be read" in problem else 1)
    finally:
        signal.signal(signal.SIGTERM, before)
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("harmony: error: ")
    assert problem in error
