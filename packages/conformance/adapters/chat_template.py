"""The chat template of gpt-oss, through Transformers; with a second argument that for training.

TRL brings both templates along. Special tokens in the text become special tokens, wherever they
stand, as the tokenizers of Transformers do it; openai-harmony encodes them.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import distribution, version
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

from openai_harmony import load_harmony_encoding

ENCODING = load_harmony_encoding("HarmonyGptOss")
FOLDER = "trl/chat_templates"
TEMPLATES = {
    name: distribution("trl").locate_file(f"{FOLDER}/{name}.jinja").read_text(encoding="utf-8")
    for name in ("gptoss", "gptoss_training")
}
NO_LABEL = -100


def chat(given: dict[str, Any]) -> dict[str, Any]:
    request = given["request"]
    options = {key: request[key] for key in ("reasoning_effort",) if key in request}
    messages = json.loads(json.dumps(request["messages"]))
    for call in (call for message in messages for call in message.get("tool_calls", ())):
        # As an object, which is what programs with chat templates pass on.
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    (text,), _ = render_jinja_template(
        [messages],
        tools=request.get("tools") or None,
        chat_template=TEMPLATES["gptoss"],
        add_generation_prompt=True,
        **options,
    )
    text = re.sub(r"(?<=Current date: )[-0-9]+", given["date"], text, count=1)
    return {"text": text, "tokens": ENCODING.encode(text, allowed_special="all")}


def train(given: dict[str, Any]) -> dict[str, Any]:
    """One example for a conversation; its labels are the tokens that the template marks."""
    messages = [m for m in given["messages"] if m["role"] not in ("system", "developer")]
    if messages != given["messages"]:
        return {"unsupported": "the template writes a system message of its own"}
    if any(m.get("recipient") == "python" for m in messages):
        return {"unsupported": "the template has calls of functions alone"}
    (text,), (places,) = render_jinja_template(
        [chat_messages(messages)],
        chat_template=TEMPLATES["gptoss_training"],
        return_assistant_tokens_mask=True,
    )
    text, start = text[text.index("<|end|>") + 7 :], text.index("<|end|>") + 7
    tokens, labels, at = [], [], start
    for token in ENCODING.encode(text, allowed_special="all"):
        is_sampled = any(begin <= at < end for begin, end in places)
        tokens.append(token)
        labels.append(token if is_sampled else NO_LABEL)
        at += len(ENCODING.decode([token]))
    return {"examples": [{"tokens": tokens, "labels": labels}]}


def chat_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages in the form that the template reads."""
    made: list[dict[str, Any]] = []
    thinking: dict[str, Any] = {}
    for message in messages:
        text = message["content"][0]["text"]
        if message.get("channel") == "analysis" and "recipient" not in message:
            thinking = {"thinking": text}
            continue
        if message["role"] == "assistant" and "recipient" in message:
            name = message["recipient"].removeprefix("functions.")
            call = {"function": {"name": name, "arguments": json.loads(text)}}
            made.append({"role": "assistant", "tool_calls": [call], **thinking})
        elif message["role"] == "assistant":
            made.append({"role": "assistant", "content": text, **thinking})
        else:
            made.append({"role": message["role"], "content": text})
        thinking = {}
    return made


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["operation"] == "describe":
        return {"version": f"TRL {version('trl')}, Transformers {version('transformers')}"}
    answers = {"chat": chat, "train": train}
    if request["operation"] not in answers:
        return {"unsupported": "a template for chats"}
    try:
        return answers[request["operation"]](request["input"])
    except Exception as error:  # noqa: BLE001 - whatever is raised, the request is refused
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
