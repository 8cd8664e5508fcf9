"""SGLang's parser of harmony text. Its prompts for gpt-oss are made by the chat template.

The parser returns events. The detector that reads the calls in them imports the engine, so `CALL`
reads them here; it takes headers without ``<|constrain|>json``, too, which the detector does not.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from importlib.metadata import distribution
from typing import Any

SGLANG = distribution("sglang")

# The package imports all of the engine; the parser is a module that needs nothing.
FILE = SGLANG.locate_file("sglang/srt/parser/harmony_parser.py")
SPEC = importlib.util.spec_from_file_location("harmony_parser", str(FILE))
MODULE = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = MODULE
SPEC.loader.exec_module(MODULE)

CALL = re.compile(r"to=(?:functions\.)?([\w.-]+).*?<\|message\|>(.*?)(?:<\|call\|>|$)", re.DOTALL)


def parse(given: dict[str, Any]) -> dict[str, Any]:
    if "text" not in given or given["role"] != "assistant":
        return {"unsupported": "the parser reads the text of completions"}
    parser = MODULE.HarmonyParser()
    events = [*parser.parse(given["text"]), *parser.parse("")]
    texts = {"reasoning": "", "normal": ""}
    calls = []
    for event in events:
        if event.event_type == "tool_call":
            if call := CALL.search(event.raw_text or event.content):
                calls.append({"name": call[1], "arguments": call[2]})
        else:
            texts[event.event_type] += event.content
    return {
        "chat": {"reasoning": texts["reasoning"], "content": texts["normal"], "tool_calls": calls}
    }


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["operation"] == "describe":
        return {"name": "SGLang", "version": SGLANG.version}
    if request["operation"] != "parse":
        return {"unsupported": "a parser"}
    return parse(request["input"])


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
