"""The playground's Python: what is downloaded, and the same answers as here, in Node.

`make playground` builds it, and `make test-playground` fails without it.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, Message, Role
from gpt_oss_harmony.engines import SampledToken, Sampling, open_engine
from gpt_oss_harmony.inspector.calls import answer
from gpt_oss_harmony_conformance.runner import CommandAdapter, ModuleAdapter, judge, read_suite
from support.engine_contract import ENCODING, sample
from support.playground import built_playground, node_command

ROOT = Path(__file__).parents[1]
BUILD = runpy.run_path(str(ROOT / "scripts" / "playground" / "build.py"))
ADAPTER = ROOT / "packages" / "conformance" / "adapters" / "ours.py"
LEVELS = ("format", "reference", "recovery", "chat", "training")
HOSTS = ("https://files.pythonhosted.org/", "https://registry.npmjs.org/")


def test_every_download_is_pinned() -> None:
    packages = BUILD["read_lock"]()
    assert packages[0]["name"] == "pyodide"
    for package in packages:
        assert package["url"].startswith(HOSTS)
        assert package["version"] in package["url"]
        assert len(bytes.fromhex(package["sha256"])) == 32
        compiled = not package["url"].endswith("-py3-none-any.whl")
        assert compiled == (package["name"] in ("pyodide", "pydantic_core"))


def test_a_download_with_another_hash_is_refused(tmp_path: Path) -> None:
    content = b"what the lock names"
    package = {
        "url": "https://files.pythonhosted.org/packages/a-1-py3-none-any.whl",
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    path = tmp_path / "a-1-py3-none-any.whl"
    path.write_bytes(content)
    assert BUILD["downloaded"](package, tmp_path) == path
    path.write_bytes(b"something else")
    with pytest.raises(BUILD["BuildError"], match="has the SHA-256"):
        BUILD["downloaded"](package, tmp_path)
    assert not path.exists()


def test_the_policy_allows_no_text_as_code() -> None:
    directives = dict(part.strip().partition(" ")[::2] for part in BUILD["POLICY"].split(";"))
    assert directives["script-src"].split() == ["'self'", "'wasm-unsafe-eval'"]
    assert directives["default-src"] == "'self'"


@pytest.mark.slow
def test_what_is_built_is_what_its_list_says() -> None:
    playground = built_playground() / "playground"
    (python,) = playground.glob("python-*")
    files = json.loads((python / "files.json").read_text("utf-8"))["files"]
    assert {file["name"] for file in files} == {path.name for path in python.iterdir()} - {
        "files.json"
    }
    for file in files:
        content = (python / file["name"]).read_bytes()
        assert len(content) == file["size"]
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    everything = sum(path.stat().st_size for path in playground.rglob("*") if path.is_file())
    assert everything <= 25_000_000
    assert f'data-python="{python.name}"' in (playground / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def in_node() -> Iterator[CommandAdapter]:
    """The kit's adapter for this library, in the playground's Python."""
    adapter = CommandAdapter(node_command(ADAPTER), timeout=600)
    yield adapter
    adapter.close()


@pytest.fixture(scope="module")
def here() -> Iterator[ModuleAdapter]:
    adapter = ModuleAdapter(str(ADAPTER))
    yield adapter
    adapter.close()


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_kit_has_the_same_results(
    in_node: CommandAdapter, here: ModuleAdapter, level: str
) -> None:
    cases = read_suite().chosen([level], [])
    assert cases
    for case in cases:
        verdict, expected = judge(case, in_node), judge(case, here)
        assert (verdict.outcome, verdict.answer) == (expected.outcome, expected.answer), case.id


COMPLETE = """
import fs from "node:fs";
const [script, file] = process.argv.slice(2);
const { DemoModel } = await import(script);
const bytes = fs.readFileSync(file);
const model = new DemoModel(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const settings = { maxTokens: 40, temperature: 0, seed: null };
for (const prompt of JSON.parse(fs.readFileSync(0, "utf8"))) {
  const pieces = [...model.complete(prompt, settings, 3)].filter((piece) => piece !== null);
  console.log(JSON.stringify(pieces));
}
"""


@pytest.mark.slow
def test_the_demo_model_is_that_of_the_engine(tmp_path: Path) -> None:
    """The model in JavaScript samples the same tokens, with the same log-probabilities."""
    texts = [
        "What is 27 + 45?",
        "Hello! I am Ada.",
        "What is the capital of Peru?",
        "Zyx \ud83c\udff0 q",
    ]
    prompts = [turn_prompt(text) for text in texts]
    prompts.append(turn_prompt("What is 12 + 13? " * 20))  # longer than the window
    (file,) = (built_playground() / "playground").glob("python-*/demo-model.safetensors")
    script = tmp_path / "demo-model.mjs"
    script.write_text((ROOT / "scripts" / "playground" / "demo-model.js").read_text("utf-8"))
    program = tmp_path / "complete.mjs"
    program.write_text(COMPLETE)
    command = [*node_command(program)[:1], str(program), str(script), str(file)]
    done = subprocess.run(
        command, input=json.dumps(prompts), capture_output=True, text=True, check=True
    )

    async def sampled() -> list[list[SampledToken]]:
        greedy = Sampling(temperature=0, max_tokens=40, logprobs=3)
        async with await open_engine("demo") as engine:
            return [await sample(engine, greedy, prompt) for prompt in prompts]

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for pieces, expected in zip(answers, asyncio.run(sampled()), strict=True):
        assert [piece["id"] for piece in pieces] == [one.token for one in expected]
        found = [piece["logprob"] for piece in pieces]
        assert found == pytest.approx([one.logprob for one in expected], abs=1e-4)
        assert pieces[-1]["finish"] == getattr(expected[-1].finish_reason, "value", None)


def turn_prompt(text: str) -> list[int]:
    """The prompt of a conversation with one message."""
    conversation = Conversation.from_messages([Message.from_role_and_content(Role.USER, text)])
    return ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT)


PROGRAM = """
import json, sys
sys.path.insert(0, "/packages")
from gpt_oss_harmony.inspector.calls import answer, settings
assert not settings()["grammar"] and not settings()["live"]
for line in sys.stdin:
    name, text = json.loads(line)
    print(json.dumps(answer(name, text.encode())))
"""


def call_bodies() -> dict[str, list[dict[str, Any]]]:
    """The bodies that the tests of the calls have."""
    path = ROOT / "tests" / "inspector" / "test_calls.py"
    spec = importlib.util.spec_from_file_location("test_calls", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bodies: dict[str, list[dict[str, Any]]] = module.BODIES
    return bodies


@pytest.mark.slow
def test_the_calls_of_the_page_have_the_same_answers() -> None:
    calls = [
        (name, json.dumps(body))
        for name, bodies in call_bodies().items()
        for body in bodies
        if name != "allowed"
    ]
    program = ROOT / "site" / "playground-test.py"
    built_playground()
    program.write_text(PROGRAM)
    try:
        given = "".join(json.dumps(call) + "\n" for call in calls)
        done = subprocess.run(
            node_command(program), input=given, capture_output=True, text=True, check=True
        )
    finally:
        program.unlink()
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [list(answer(name, text.encode())) for name, text in calls]


@pytest.mark.slow
def test_the_tokens_are_those_of_tiktoken() -> None:
    """The encoder that is used where there is no tiktoken, in the Python where there is none."""
    compared = runpy.run_path(str(ROOT / "scripts" / "compare_encoders.py"))
    random = Random(11)
    texts = [compared["text"](random) for _ in range(500)]
    adapter = ROOT / "site" / "playground-encode.py"
    built_playground()
    adapter.write_text(
        "import json, sys\n"
        "from gpt_oss_harmony.tokens.tokenizer import load_tokenizer\n"
        "from gpt_oss_harmony.tokens.python_encoder import PythonEncoder\n"
        "tokenizer = load_tokenizer()\n"
        "assert isinstance(tokenizer.encoder, PythonEncoder)\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps(tokenizer.encode_ordinary(json.loads(line))))\n"
    )
    try:
        given = "".join(json.dumps(text) + "\n" for text in texts)
        done = subprocess.run(
            node_command(adapter), input=given, capture_output=True, text=True, check=True
        )
    finally:
        adapter.unlink()
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [compared["TIKTOKEN"].encode(text) for text in texts]
