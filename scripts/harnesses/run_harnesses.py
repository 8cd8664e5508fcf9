"""Run lm-eval against the server, and compare its scores with the engine's: ``make harnesses``.

    python scripts/harnesses/run_harnesses.py LM_EVAL

Both kinds of tasks run on the demo model, with the questions in ``tasks``: the likeliest of several
answers (log-likelihoods of prompts, ``/v1/completions``), and an answer in words (chat). Every
log-likelihood and every answer must be that of the engine without a server.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpt_oss_harmony import RenderConversationConfig, load_harmony_encoding
from gpt_oss_harmony.apis import ChatRequest, message_text, turn_of_chat
from gpt_oss_harmony.apis.current_date import current_date
from gpt_oss_harmony.engines import Engine, Sampling, TransformersEngine, complete
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.app import make_server

ROOT = Path(__file__).resolve().parents[2]
TASKS = Path(__file__).with_name("tasks")
QUESTIONS = [json.loads(line) for line in (TASKS / "questions.jsonl").read_text().splitlines()]
ENCODING = load_harmony_encoding("HarmonyGptOss")
GUIDE = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
TOLERANCE = 0.01  # of a log-likelihood: the batches of the engine differ


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """Serve in a thread; yield the address of the API."""
    settings = Settings()
    server = make_server(create_app(engine, settings), settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()


def samples_of(lm_eval: str, model: str, task: str, *options: str) -> list[dict[str, Any]]:
    """Run a task, and return its samples in the order of the questions."""
    with tempfile.TemporaryDirectory() as folder:
        command = [lm_eval, "run", "--model", model, "--tasks", task]
        command += ["--include_path", str(TASKS), "--output_path", folder, "--log_samples"]
        environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1"}
        subprocess.run([*command, *options], cwd=ROOT, env=environment, check=True)
        (path,) = Path(folder).rglob("samples_*.jsonl")
        samples = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(samples, key=lambda sample: int(sample["doc_id"]))


async def likelihood(engine: Engine, context: str, answer: str) -> float:
    """Return the log-likelihood of an answer after a prompt."""
    before = ENCODING.encode(context, allowed_special="all")
    whole = ENCODING.encode(context + answer, allowed_special="all")
    return sum(scored.logprob or 0.0 for scored in (await engine.score(whole))[len(before) :])


async def answer(engine: Engine, question: str) -> str:
    """Return the answer to a question, with the prompt that the server makes."""
    request = ChatRequest(messages=[{"role": "user", "content": question}])
    conversation = turn_of_chat(request, date=current_date()).conversation
    sampling = Sampling(temperature=0, max_tokens=200)
    completion = await complete(engine, conversation, sampling, config=GUIDE)
    return message_text(completion.messages[-1])


def compare_choices(engine: Engine, samples: Sequence[dict[str, Any]]) -> list[str]:
    """Compare each log-likelihood."""
    problems = []
    for sample in samples:
        arguments = sample["arguments"]
        for index, (value, _) in enumerate(sample["filtered_resps"]):
            context, choice = (arguments[f"gen_args_{index}"][f"arg_{n}"] for n in (0, 1))
            own = asyncio.run(likelihood(engine, context, choice))
            if abs(float(value) - own) > TOLERANCE:
                problems.append(f"{context}{choice}: lm-eval {value}, the engine {own}")
    return problems


def compare_answers(engine: Engine, samples: Sequence[dict[str, Any]]) -> list[str]:
    """Compare each answer."""
    problems = []
    for sample in samples:
        own = asyncio.run(answer(engine, sample["doc"]["question"]))
        ((found,),) = sample["resps"]
        if found != own:
            problems.append(f"{sample['doc']['question']}: lm-eval {found!r}, the engine {own!r}")
    return problems


def main() -> int:
    """Run both tasks; list the differences."""
    lm_eval = sys.argv[1]
    engine = TransformersEngine(demo_model_folder(), name="demo")
    try:
        with serving(engine) as url:
            settings = f"model=demo,base_url={url}/completions,tokenizer_backend=remote"
            chosen = samples_of(
                lm_eval, "local-completions", "harmony_arithmetic_choice", "--model_args", settings
            )
            settings = f"model=demo,base_url={url}/chat/completions"
            written = samples_of(
                lm_eval,
                *("local-chat-completions", "harmony_arithmetic_chat", "--apply_chat_template"),
                *("--model_args", settings),
            )
        problems = compare_choices(engine, chosen) + compare_answers(engine, written)
    finally:
        asyncio.run(engine.close())
    right = sum(sample["exact_match"] for sample in written)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(chosen)} questions with choices, {len(written)} in words ({right:.0f} right)")
    print(f"{len(problems)} differences from the engine without a server")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
