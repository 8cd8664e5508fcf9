"""Run evaluation harnesses against the server: ``make harnesses``.

    python scripts/harnesses/run_harnesses.py FOLDER_OF_PROGRAMS PROMPTFOO [HARNESS ...]

lm-eval, inspect-ai, gpt-oss's own evaluations and promptfoo ask the demo model the questions in
``tasks``. Every log-likelihood, every answer and every score must be that of the engine without a
server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gpt_oss_harmony import RenderConversationConfig, load_harmony_encoding
from gpt_oss_harmony.apis import (
    ChatRequest,
    ResponsesRequest,
    turn_of_chat,
    turn_of_response,
)
from gpt_oss_harmony.engines import Engine, Sampling, TransformersEngine, complete
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.app import make_server

ROOT = Path(__file__).resolve().parents[2]
TASKS = Path(__file__).with_name("tasks")
QUESTIONS = TASKS / "questions.jsonl"
ROWS = [json.loads(line) for line in QUESTIONS.read_text().splitlines()]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Gets the current weather in the provided location.",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        },
    },
}
ENCODING = load_harmony_encoding("HarmonyGptOss")
GUIDE = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
DATE = "2026-11-23"
TOLERANCE = 0.01  # of a log-likelihood: the batches of the engine differ
OFFLINE = {"PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none"}


class Result(NamedTuple):
    """The score of a harness, the one that the engine has without a server, and differences."""

    name: str
    score: float
    own_score: float
    differences: list[str]


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """Serve in a thread; yield the address of the API."""
    settings = Settings(current_date=DATE)
    server = make_server(create_app(engine, settings), settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()


def run(command: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """Run a harness, show what it writes, and return it."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **OFFLINE, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    print(done.stdout)
    return done.stdout


def targets() -> list[str]:
    """Return the right answers, such as ``72.``."""
    return [row["choices"][row["answer"]] for row in ROWS]


def answers_of(engine: Engine, *, responses: bool = False) -> list[str]:
    """Answer the questions without a server, with the prompts that a server makes."""
    found = []
    for row in ROWS:
        asked = {"role": "user", "content": row["question"]}
        if responses:
            turn = turn_of_response(ResponsesRequest(input=[asked]), date=DATE)
        else:
            turn = turn_of_chat(ChatRequest(messages=[asked]), date=DATE)
        sampling = Sampling(temperature=0, max_tokens=400)
        completion = asyncio.run(complete(engine, turn.conversation, sampling, config=GUIDE))
        found.append(completion.messages[-1].text)
    return found


def compare(
    name: str,
    score: float,
    answers: Sequence[str],
    own_answers: Sequence[str],
    is_right: Callable[[str, str], bool],
) -> Result:
    """Compare the answers that a harness got with the engine's, and its score with theirs."""
    right = [is_right(own, target) for own, target in zip(own_answers, targets(), strict=True)]
    pairs = zip(answers, own_answers, strict=True)
    differences = [f"{name}: {found!r}, the engine {own!r}" for found, own in pairs if found != own]
    return Result(name, score, sum(right) / len(right), differences)


def lm_eval(programs: Path, model: str, task: str, *options: str) -> list[dict[str, Any]]:
    """Run a task of lm-eval, and return its samples in the order of the questions."""
    with tempfile.TemporaryDirectory() as folder:
        command: list[str | Path] = [programs / "lm_eval", "run", "--model", model, "--tasks", task]
        command += ["--include_path", TASKS, "--output_path", folder, "--log_samples", *options]
        run(command, {})
        (path,) = Path(folder).rglob("samples_*.jsonl")
        samples = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(samples, key=lambda sample: int(sample["doc_id"]))


async def likelihood(engine: Engine, context: str, answer: str) -> float:
    """Return the log-likelihood of an answer after a prompt."""
    before = ENCODING.encode(context, allowed_special="all")
    whole = ENCODING.encode(context + answer, allowed_special="all")
    return sum(scored.logprob or 0.0 for scored in (await engine.score(whole))[len(before) :])


def lm_eval_choices(engine: Engine, url: str, programs: Path) -> list[Result]:
    """Compare each log-likelihood, and which answer is the likeliest."""
    settings = f"model=demo,base_url={url}/completions,tokenizer_backend=remote"
    options = ("--model_args", settings)
    samples = lm_eval(programs, "local-completions", "harmony_arithmetic_choice", *options)
    differences, right = [], 0
    for sample in samples:
        values = []
        for index, (value, _) in enumerate(sample["filtered_resps"]):
            context, choice = (sample["arguments"][f"gen_args_{index}"][f"arg_{n}"] for n in (0, 1))
            values.append(asyncio.run(likelihood(engine, context, choice)))
            if abs(float(value) - values[-1]) > TOLERANCE:
                differences.append(f"{context}{choice}: {value}, the engine {values[-1]}")
        right += values.index(max(values)) == sample["doc"]["answer"]
    score = sum(sample["acc"] for sample in samples) / len(samples)
    return [Result("lm-eval, choices", score, right / len(samples), differences)]


def lm_eval_answers(engine: Engine, url: str, programs: Path) -> list[Result]:
    """Compare each answer in words."""
    options = (
        "--apply_chat_template",
        "--model_args",
        f"model=demo,base_url={url}/chat/completions",
    )
    samples = lm_eval(programs, "local-chat-completions", "harmony_arithmetic_chat", *options)
    answers = [sample["resps"][0][0] for sample in samples]
    score = sum(sample["exact_match"] for sample in samples) / len(samples)
    own = answers_of(engine)
    return [compare("lm-eval, chat", score, answers, own, lambda said, right: said.endswith(right))]


def inspect_ai(engine: Engine, url: str, programs: Path) -> list[Result]:
    """Run inspect-ai by both of OpenAI's APIs."""
    found = []
    for kind in ("chat", "responses"):
        with tempfile.TemporaryDirectory() as folder:
            task = (TASKS / "arithmetic_inspect.py").relative_to(ROOT)
            command: list[str | Path] = [programs / "inspect", "eval", task]
            command += ["--model", "openai-api/harmony/demo", "--temperature", "0"]
            command += ["-M", f"responses_api={str(kind == 'responses').lower()}"]
            command += ["--log-dir", folder, "--log-format", "json", "--display", "plain"]
            run(command, {"HARMONY_BASE_URL": url, "HARMONY_API_KEY": "none"})
            (path,) = Path(folder).glob("*.json")
            log = json.loads(path.read_text())
        samples = sorted(log["samples"], key=lambda sample: int(sample["id"]))
        answers = [sample["scores"]["includes"]["answer"] for sample in samples]
        score = log["results"]["scores"][0]["metrics"]["accuracy"]["value"]
        own = answers_of(engine, responses=kind == "responses")
        found.append(
            compare(f"inspect-ai, {kind}", score, answers, own, lambda said, right: right in said)
        )
    return found


def gpt_oss_evals(engine: Engine, url: str, programs: Path) -> list[Result]:
    """Run gpt-oss's own evaluations by both of OpenAI's APIs."""

    def is_right(said: str, target: str) -> bool:
        numbers = re.findall(r"boxed{(\d+)", said) or re.findall(r"\d+", said)
        return bool(numbers) and numbers[-1] == target.rstrip(".")

    found = []
    for kind in ("chat_completions", "responses"):
        command: list[str | Path] = [
            programs / "python",
            Path(__file__).with_name("gpt_oss_evals.py"),
            QUESTIONS,
        ]
        command += ["--eval", "aime25", "--debug", "--examples", str(len(ROWS)), "--model", "demo"]
        command += ["--sampler", kind, "--base-url", url, "--temperature", "0"]
        said = run([*command, "--reasoning-effort", "medium", "--n-threads", "2"], {})
        reports = [Path(path) for path in re.findall(r"Writing .* to (/tmp/\S+)", said)]
        (path,) = (path for path in reports if path.name.endswith("_allresults.json"))
        results = json.loads(path.read_text())
        for path in reports:
            path.unlink()
        said_of = {convo[0]["content"]: convo[-1]["content"] for convo in results["convos"]}
        answers = [said_of[row["question"]] for row in ROWS]
        own = answers_of(engine, responses=kind == "responses")
        found.append(compare(f"gpt_oss.evals, {kind}", results["score"], answers, own, is_right))
    return found


def promptfoo(engine: Engine, url: str, program: Path) -> list[Result]:
    """Run promptfoo; it shows a call only without reasoning beside it."""
    settings: dict[str, Any] = {
        "apiBaseUrl": url,
        "apiKey": "none",
        "temperature": 0,
        "max_tokens": 400,
    }
    settings["passthrough"] = {"include_reasoning": False}
    calling = {**settings, "tools": [WEATHER], "tool_choice": "required"}
    asked: list[dict[str, Any]] = [
        {
            "vars": {"question": row["question"]},
            "assert": [{"type": "contains", "value": target}],
            "providers": ["answers"],
        }
        for row, target in zip(ROWS, targets(), strict=True)
    ]
    weather: dict[str, Any] = {"vars": {"question": "What is the weather like in Tokyo?"}}
    weather |= {"providers": ["calls"], "assert": [{"type": "is-valid-openai-tools-call"}]}
    suite = {
        "prompts": ["{{question}}"],
        "providers": [
            {"id": "openai:chat:demo", "label": "answers", "config": settings},
            {"id": "openai:chat:demo", "label": "calls", "config": calling},
        ],
        "tests": [*asked, weather],
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "promptfooconfig.json").write_text(json.dumps(suite))
        output = Path(folder) / "results.json"
        command: list[str | Path] = [
            program,
            "eval",
            "-c",
            Path(folder) / "promptfooconfig.json",
            "-o",
            output,
        ]
        command += ["--no-cache", "--no-progress-bar", "--no-table", "--max-concurrency", "2"]
        environment = {
            "PROMPTFOO_CONFIG_DIR": folder,
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
            "PROMPTFOO_FAILED_TEST_EXIT_CODE": "0",
        }
        run(command, environment)
        results = json.loads(output.read_text())["results"]["results"]
    by_question = {result["vars"]["question"]: result for result in results}
    chosen = [by_question[row["question"]] for row in ROWS]
    answers = [result["response"]["output"] for result in chosen]
    score = sum(result["success"] for result in chosen) / len(chosen)
    own = answers_of(engine)
    called = by_question[weather["vars"]["question"]]
    compared = compare("promptfoo", score, answers, own, lambda said, right: right in said)
    if not called["success"]:
        compared.differences.append(f"promptfoo: no call, but {called['response'].get('output')!r}")
    return [compared]


HARNESSES: dict[str, Callable[[Engine, str, Path], list[Result]]] = {
    "lm-eval-choices": lm_eval_choices,
    "lm-eval-answers": lm_eval_answers,
    "inspect-ai": inspect_ai,
    "gpt-oss-evals": gpt_oss_evals,
    "promptfoo": promptfoo,
}


def main() -> int:
    """Run the harnesses; list the scores and the differences."""
    programs, promptfoo_program, *chosen = sys.argv[1:]
    engine = TransformersEngine.load(demo_model_folder(), name="demo")
    results = []
    try:
        for name in chosen or HARNESSES:
            program = Path(promptfoo_program if name == "promptfoo" else programs).absolute()
            with serving(engine) as url:
                results += HARNESSES[name](engine, url, program)
    finally:
        asyncio.run(engine.close())
    problems = [difference for result in results for difference in result.differences]
    print(*problems, sep="\n", end="\n" if problems else "")
    for result in results:
        print(f"{result.name}: {result.score:.4f}, the engine {result.own_score:.4f}")
    scores_differ = any(abs(result.score - result.own_score) > 1e-6 for result in results)
    print(f"{len(problems)} differences from the engine without a server")
    return 1 if problems or scores_differ else 0


if __name__ == "__main__":
    sys.exit(main())
