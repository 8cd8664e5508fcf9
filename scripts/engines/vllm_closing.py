"""How many calls and JSON answers a limit of tokens cuts in vLLM, without the plugin and with it.

    vllm_closing.py PYTHON SITE [--turns 24] [--update-docs]

PYTHON and SITE are those of `vllm_plugin`. The demo model samples required calls and JSON answers
at temperature 1, with schemas that it was not trained on. A turn is complete and valid if the
client reads JSON that follows the schema. The table goes to standard output, and with
``--update-docs`` into docs/guides/vllm.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from typing import Any

from jsonschema import ValidationError, validate
from openai import APIError, AsyncOpenAI
from try_server import ENGINES, described

from vllm_plugin import chat_turn, update_docs, vllm_server

LIMITS = (60, 150, 400)
AT_ONCE = 4
WAYS: dict[str, tuple[bool, dict[str, str]]] = {
    "vLLM": (False, {}),
    "With the plugin, `HARMONY_VLLM_CLOSING=off`": (True, {"HARMONY_VLLM_CLOSING": "off"}),
    "With the plugin": (True, {}),
}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "trip": closed(city={"enum": ["Paris", "Tokyo"]}, days={"type": "integer"}),
    "report": closed(title=TEXT, findings={"type": "array", "items": TEXT, "minItems": 2}),
    "order": closed(
        id={"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
        lines={"type": "array", "items": closed(name=TEXT, price={"type": "number"})},
    ),
    "note": closed(when={"type": "string", "format": "date"}, text=TEXT, more={"type": "object"}),
}
QUESTIONS = ("What is the weather in Tokyo?", "Write a long report about Paris.", "Order it.")


def requests(turns: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the fields of requests, in turn calls and answers, and their schemas."""
    asked = []
    for number in range(turns):
        name = [*SCHEMAS][number // 2 % len(SCHEMAS)]
        schema = SCHEMAS[name]
        question = QUESTIONS[number % len(QUESTIONS)]
        fields: dict[str, Any] = {"messages": [{"role": "user", "content": question}]}
        if number % 2:
            wanted = {"name": name, "schema": schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": wanted}
        else:
            function = {"name": name, "parameters": schema}
            fields |= {"tools": [{"type": "function", "function": function}]}
            fields["tool_choice"] = "required"
        asked.append((fields, schema))
    return asked


async def outcomes(url: str, turns: int) -> dict[int, Counter[str]]:
    """Return, for each limit, how many turns came to what."""
    room = asyncio.Semaphore(AT_ONCE)
    counts: dict[int, Counter[str]] = {}
    async with AsyncOpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=600
    ) as client:

        async def ask(fields: dict[str, Any], schema: dict[str, Any], limit: int) -> str:
            async with room:
                extra = {**fields, "max_tokens": limit, "temperature": 1.0}
                try:
                    answer = await client.chat.completions.create(
                        model="demo", messages=[], extra_body=extra
                    )
                except APIError as error:
                    return f"error: {error}"[:200]
            turn = chat_turn(answer.choices[0].message)
            is_call = "tools" in fields
            text = turn.calls[0][1] if is_call and turn.calls else "" if is_call else turn.content
            try:
                validate(json.loads(text), schema)
            except (ValueError, ValidationError):
                return "cut" if answer.choices[0].finish_reason == "length" else "invalid"
            return "valid"

        for limit in LIMITS:
            found = await asyncio.gather(
                *(ask(fields, schema, limit) for fields, schema in requests(turns))
            )
            counts[limit] = Counter(found)
            print(limit, counts[limit], file=sys.stderr, flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", help="the Python of the environment with vLLM")
    parser.add_argument("site", help="the folder with this library")
    parser.add_argument("--turns", type=int, default=24, help="how many turns at each limit")
    parser.add_argument("--update-docs", action="store_true", help="write docs/guides/vllm.md, too")
    arguments = parser.parse_args()
    heads = " | ".join(f"{limit} tokens" for limit in LIMITS)
    lines = [f"| Complete and valid, of {arguments.turns} turns | {heads} |", "|---|--:|--:|--:|"]
    for label, (has_plugin, environment) in WAYS.items():
        site = arguments.site if has_plugin else None
        with vllm_server(arguments.python, site, environment=environment) as url:
            counts = asyncio.run(outcomes(url, arguments.turns))
        cells = " | ".join(str(counts[limit]["valid"]) for limit in LIMITS)
        lines.append(f"| {label} | {cells} |")
    text = described(ENGINES["vllm"], arguments.python) + "\n" + "\n".join(lines) + "\n"
    print(text)
    if arguments.update_docs:
        update_docs("vllm-closing", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
