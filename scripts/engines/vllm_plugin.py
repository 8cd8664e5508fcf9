"""What users of vLLM get for malformed turns, without the plugin and with it.

    vllm_plugin.py PYTHON SITE [--update-docs]

PYTHON is that of an environment with vLLM; SITE is a folder in which this library is installed for
it, with the plugin. The demo model samples the damaged turns of the conformance kit, token by
token, in vLLM's own server (`forced_tokens`). Both APIs are asked, whole and streamed, through the
OpenAI SDK and its helpers for streams. The tables go to standard output, and with ``--update-docs``
into docs/guides/vllm.md.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from jsonschema import ValidationError, validate
from openai import APIError, AsyncOpenAI, LengthFinishReasonError
from try_server import ENGINES, ROOT, described, free_port, started

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN
from support import vectors

DOCS = ROOT / "docs" / "guides" / "vllm.md"
SPECIAL = re.compile(r"<\|(start|end|message|channel|constrain|return|call)\|>")
AT_ONCE = 16
COST_RUNS = 2  # processes of each
ENCODING = load_harmony_encoding("HarmonyGptOss")
THOUGHT = "The user asks about the weather in several cities, so I call the tool for each. " * 12
ANSWER = "It is sunny in Paris, and it rains in Tōkyō; take an umbrella with you. 🙂 " * 12
COST_TURN = (
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>commentary "
    'to=functions.get_weather <|constrain|>json<|message|>{"city":"Paris","days":3}<|end|>'
    f"<|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>"
)

RIGHT = "as meant"
LEAK = "special tokens in the text"
LOST = "text lost"
WRONG_CALL = "a call lost or wrong"
OTHER = "other text"
ERROR = "an error"
OUTCOMES = (RIGHT, WRONG_CALL, LOST, LEAK, OTHER, ERROR)


class Turn(NamedTuple):
    """What a client reads: reasoning, content, and calls with their arguments."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, str], ...]


class Case(NamedTuple):
    """A malformed turn: its tokens, the functions of the request, and what it means."""

    name: str
    kind: str
    tokens: list[int]
    functions: list[str]
    meant: Turn


def cases() -> list[Case]:
    """Read the turns; those that go on after a stop token are left out, as vLLM stops there."""
    read = []
    for entry in vectors.cases("recovery", "parse"):
        if "note" in entry:  # of a known gap
            continue
        turn, expected = entry["input"], entry["expected"]
        tokens = ENCODING.encode(turn["text"], allowed_special="all")
        if tokens and {RETURN, CALL}.isdisjoint(tokens[:-1]):
            tools = [name for name in turn["tools"] if name.startswith("functions.")]
            functions = [name.removeprefix("functions.") for name in tools]
            kind = (expected["recoveries"] or ["well-formed"])[0]
            name = entry["id"].removeprefix("recovery/")
            read.append(Case(name, kind, tokens, functions, meant(expected["messages"])))
    return read


def meant(messages: list[dict[str, Any]]) -> Turn:
    """Say what the messages of a turn are to a client; those in another's name are nothing."""
    reasoning, content, calls = [], [], []
    for message in messages:
        recipient, text = message.get("recipient"), message["content"]
        if message["role"] != "assistant":
            continue
        if recipient not in (None, "assistant", "user", "all", "developer", "system", "tool"):
            calls.append((recipient.removeprefix("functions."), text if text.strip() else "{}"))
        elif message.get("channel") == "analysis":
            reasoning.append(text)
        else:
            content.append(text)
    return Turn("".join(reasoning), "".join(content), tuple(calls))


def judged(case: Case, turn: Turn | str, way: str) -> str:
    """Say what became of a case. White space between the texts of several messages is free."""
    if isinstance(turn, str):
        return ERROR
    turn = Turn(turn[0], turn[1], tuple((name, text) for name, text in turn[2]))  # from JSON
    if SPECIAL.search(turn.reasoning + turn.content) and not SPECIAL.search(
        case.meant.reasoning + case.meant.content
    ):
        return LEAK
    got, wanted = (texts_of(t, case, way) for t in (turn, case.meant))
    if case.functions or way.startswith("Responses"):
        calls, meant_calls = ([plain(*call) for call in t.calls] for t in (turn, case.meant))
        if calls != meant_calls:
            return WRONG_CALL
    if got == wanted:
        return RIGHT
    return LOST if sum(map(len, got)) < sum(map(len, wanted)) else OTHER


def texts_of(turn: Turn, case: Case, way: str) -> list[str]:
    """Return reasoning and content; without tools the arguments of a call may come as content."""
    content = turn.content
    if not case.functions and way.startswith("Chat"):
        content += "".join(text for _, text in turn.calls)
        content = content.replace("{}", "")
    return ["".join(text.split()) for text in (turn.reasoning, content)]


def plain(name: str, arguments: str) -> tuple[str, Any]:
    try:
        return name, json.loads(arguments)
    except ValueError:
        return name, arguments.strip()


# The four ways to ask


async def chat(client: AsyncOpenAI, case: Case) -> Turn:
    answer = await client.chat.completions.create(
        model="demo", messages=QUESTION, extra_body=body(case, chat_tools(case), "max_tokens")
    )
    return chat_turn(answer.choices[0].message)


async def chat_streamed(client: AsyncOpenAI, case: Case) -> Turn:
    reasoning = ""
    async with client.chat.completions.stream(
        model="demo", messages=QUESTION, extra_body=body(case, chat_tools(case), "max_tokens")
    ) as stream:
        async for event in stream:
            if event.type == "chunk" and event.chunk.choices:
                reasoning += getattr(event.chunk.choices[0].delta, "reasoning", None) or ""
        try:
            final = await stream.get_final_completion()
        except LengthFinishReasonError as error:  # a turn without a stop token
            final = cast(Any, error.completion)
    return chat_turn(final.choices[0].message)._replace(reasoning=reasoning)


async def responses(client: AsyncOpenAI, case: Case) -> Turn:
    answer = await client.responses.create(
        model="demo", input="x", extra_body=body(case, response_tools(case), "max_output_tokens")
    )
    return response_turn(answer.output)


async def responses_streamed(client: AsyncOpenAI, case: Case) -> Turn:
    items = []
    async with client.responses.stream(
        model="demo", input="x", extra_body=body(case, response_tools(case), "max_output_tokens")
    ) as stream:
        async for event in stream:
            if event.type == "response.output_item.done":
                items.append(event.item)
        await stream.get_final_response()
    return response_turn(items)


WAYS = {
    "Chat Completions": chat,
    "Chat Completions, streamed": chat_streamed,
    "Responses": responses,
    "Responses, streamed": responses_streamed,
}
QUESTION: Any = [{"role": "user", "content": "x"}]


def body(case: Case, tools: list[dict[str, Any]], limit: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        limit: len(case.tokens),
        "temperature": 0,
        "vllm_xargs": {"forced_tokens": case.tokens},
    }
    return {**fields, "tools": tools} if tools else fields


def chat_tools(case: Case) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in case.functions
    ]


def response_tools(case: Case) -> list[dict[str, Any]]:
    return [
        {"type": "function", "name": name, "parameters": {"type": "object"}}
        for name in case.functions
    ]


def chat_turn(message: Any) -> Turn:
    calls = tuple(
        (call.function.name, call.function.arguments) for call in message.tool_calls or ()
    )
    return Turn(getattr(message, "reasoning", None) or "", message.content or "", calls)


def response_turn(items: list[Any]) -> Turn:
    reasoning, content, calls = "", "", []
    for item in items:
        if item.type == "reasoning":
            reasoning += "".join(part.text for part in item.content or ())
        elif item.type == "message":
            content += "".join(part.text for part in item.content)
        elif item.type == "code_interpreter_call":
            calls.append(("python", item.code or ""))
        elif item.type == "mcp_call":
            calls.append((".".join(dict.fromkeys((item.server_label, item.name))), item.arguments))
        elif hasattr(item, "arguments"):
            calls.append((item.name, item.arguments))
    return Turn(reasoning, content, tuple(calls))


# What is asked for is guaranteed

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Tokyo"]}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"name": "get_weather", "parameters": SCHEMA}
REQUIRED: dict[str, Any] = {
    "tools": [{"type": "function", "function": WEATHER}],
    "tool_choice": "required",
}
JSON_ANSWER: dict[str, Any] = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA}}
}
TRIES = 10


async def guaranteed(client: AsyncOpenAI) -> dict[str, str]:
    """Ask the demo model, at temperature 1, for what it was not trained on."""

    async def text_of(fields: Mapping[str, Any], seed: int) -> str:
        extra = {**fields, "temperature": 1.0, "seed": seed, "max_tokens": 1000}
        try:
            answer = await client.chat.completions.create(
                model="demo", messages=QUESTION, extra_body=extra
            )
        except APIError as error:
            return str(error)
        message = chat_turn(answer.choices[0].message)
        return message.calls[0][1] if message.calls else message.content

    results = {}
    for label, fields in (("`tool_choice: required`", REQUIRED), ("a JSON answer", JSON_ANSWER)):
        texts = await asyncio.gather(*(text_of(fields, seed) for seed in range(TRIES)))
        valid = sum(follows(text) for text in texts)
        results[label] = f"{valid} of {TRIES}"
        print(label, results[label], texts[:2], file=sys.stderr, flush=True)
    return results


def follows(text: str) -> bool:
    try:
        validate(json.loads(text), SCHEMA)
    except (ValueError, ValidationError):
        return False
    return True


# A server


async def ask_all(url: str, asked: list[Case]) -> dict[str, Any]:
    """Ask in every way; the result has an error's text in the place of a turn."""
    room = asyncio.Semaphore(AT_ONCE)
    results: dict[str, dict[str, Turn | str]] = {}
    async with AsyncOpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=600
    ) as client:

        async def ask(way: str, case: Case) -> None:
            async with room:
                try:
                    results[way][case.name] = await WAYS[way](client, case)
                except (APIError, RuntimeError) as error:
                    results[way][case.name] = f"{type(error).__name__}: {error}"[:300]

        for way in WAYS:
            results[way] = {}
            await asyncio.gather(*(ask(way, case) for case in asked))
            print(way, file=sys.stderr, flush=True)
        return {"turns": results, "guaranteed": await guaranteed(client)}


@contextmanager
def vllm_server(
    python: str,
    site: str | None,
    *options: str,
    model: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run vLLM's own server, by default with the demo model; `site` has the plugin."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    folder = model or demo_model_folder()
    command = [
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)),
        *("--served-model-name", "demo", "--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "float32", "--max-model-len", "2048", "--max-num-seqs", str(AT_ONCE)),
        "--enforce-eager",  # compiling takes longer than all requests
        *("--enable-auto-tool-choice", "--tool-call-parser", "openai"),
        *options,
    ]
    path = os.pathsep.join([str(Path(__file__).parent), *([site] if site else [])])
    settings = {**ENGINES["vllm"].environment, "PYTHONPATH": path, **(environment or {})}
    with started(command, settings, url):
        yield url


def serve_and_ask(python: str, site: str | None, asked: list[Case]) -> dict[str, Any]:
    forced = ("--logits-processors", "forced_tokens:ForcedTokens")
    with vllm_server(python, site, *forced) as url:
        results = asyncio.run(ask_all(url, asked))
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
            has_plugin = b"harmony_recoveries_total" in answer.read()
        assert has_plugin == (site is not None), "the plugin counts its repairs in vLLM's metrics"
        return results


def parser_costs(python: str, site: str) -> str:
    """Time both parsers in turns; return a table of the best times."""
    script = Path(__file__).with_name("parser_cost.py")
    best: dict[str, dict[str, float]] = {}
    for label, path in (("vLLM", ""), ("with the plugin", site)) * COST_RUNS:
        done = subprocess.run(
            [python, script, "3"],
            env={
                **os.environ,
                **ENGINES["vllm"].environment,
                "PYTHONPATH": path,
                "VLLM_LOGGING_LEVEL": "ERROR",
            },
            input=json.dumps(ENCODING.encode(COST_TURN, allowed_special="all")),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, cost in json.loads(done.stdout.splitlines()[-1]).items():
            row = best.setdefault(name, {})
            row[label] = min(cost, row.get(label, cost))
    lines = ["", "| Microseconds a token, 64 streams | vLLM | With the plugin |", "|---|--:|--:|"]
    for name, row in best.items():
        lines.append(f"| {name} | {row['vLLM']:.1f} | {row['with the plugin']:.1f} |")
    return "\n".join(lines) + "\n"


def tables(asked: list[Case], without: dict[str, Any], with_it: dict[str, Any]) -> str:
    """Write the counts by API and outcome, and by what is damaged."""
    lines = [f"| {len(asked)} malformed turns | {' | '.join(OUTCOMES)} |"]
    lines.append("|---|" + "--:|" * len(OUTCOMES))
    outcomes: dict[str, dict[str, dict[str, str]]] = {}
    for label, results in (("vLLM", without), ("with the plugin", with_it)):
        for way in WAYS:
            outcomes.setdefault(label, {})[way] = {
                case.name: judged(case, results["turns"][way][case.name], way) for case in asked
            }
    for way in WAYS:
        for label, by_way in outcomes.items():
            counts = collections.Counter(by_way[way].values())
            cells = " | ".join(str(counts[outcome] or "") for outcome in OUTCOMES)
            lines.append(f"| {way}, {label} | {cells} |")
    lines += ["", "| Follows the schema | vLLM | With the plugin |", "|---|--:|--:|"]
    for label, count in without["guaranteed"].items():
        lines.append(f"| {label} | {count} | {with_it['guaranteed'][label]} |")
    lines += ["", "| Damage | Turns | vLLM | With the plugin |", "|---|--:|--:|--:|"]
    for kind, number in collections.Counter(case.kind for case in asked).most_common():
        names = [case.name for case in asked if case.kind == kind]
        right = [
            sum(by_way[way][name] == RIGHT for way in WAYS for name in names)
            for by_way in outcomes.values()
        ]
        of_all = [f"{round(100 * count / number / len(WAYS))} %" for count in right]
        lines.append(f"| `{kind}` | {number} | {of_all[0]} | {of_all[1]} |")
    for way in WAYS:
        for name, outcome in outcomes["with the plugin"][way].items():
            if outcome != RIGHT:
                print(
                    "not as meant:",
                    way,
                    name,
                    outcome,
                    with_it["turns"][way][name],
                    file=sys.stderr,
                )
    return "\n".join(lines) + "\n"


def update_docs(name: str, text: str) -> None:
    """Write a table between its marks in the guide."""
    start, end = f"<!-- run: {name} -->\n", "<!-- end -->\n"
    before, _, rest = DOCS.read_text("utf-8").partition(start)
    after = rest.partition(end)[2]
    DOCS.write_text(f"{before}{start}{text}{end}{after}", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", help="the Python of the environment with vLLM")
    parser.add_argument("site", help="the folder with this library")
    parser.add_argument("--update-docs", action="store_true", help="write docs/guides/vllm.md, too")
    parser.add_argument("--keep", help="a folder of all that was read, in a server's place")
    arguments = parser.parse_args()
    asked = cases()
    results = {}
    for label, site in (("without", None), ("with", arguments.site)):
        kept = Path(arguments.keep, f"{label}.json") if arguments.keep else None
        if kept is not None and kept.exists():
            results[label] = json.loads(kept.read_text("utf-8"))
            continue
        results[label] = serve_and_ask(arguments.python, site, asked)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(results[label], indent=1), "utf-8")
    without, with_it = results["without"], results["with"]
    text = described(ENGINES["vllm"], arguments.python) + "\n" + tables(asked, without, with_it)
    text += parser_costs(arguments.python, arguments.site)
    print(text)
    if arguments.update_docs:
        update_docs("vllm-plugin", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
