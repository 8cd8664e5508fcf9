"""``harmony render``, ``schema`` and ``template``: the prompt that the model reads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import get_args

from ..apis.chat_input import tool_from_chat
from ..config import HeaderStyle, ReasoningRule, RenderConversationConfig, SchemaDialect
from ..encoding import load_harmony_encoding
from ..rendering.segments import SegmentKind
from ..rendering.system_prompt import tool_declaration
from ..typescript.json_text import JsonValue
from ..typescript.reference_dialect import reference_schema_to_typescript
from ..typescript.writer import schema_to_typescript
from .input import InputError, add_file, add_request, read_json, read_request
from .options import Command, add_color, add_schema_dialect, role_named, role_names
from .output import Output, json_lines, style_of

__all__ = ["RENDER", "SCHEMA", "TEMPLATE"]


class _Render(Command):
    name = "render"
    summary = "turn a conversation into the prompt that the model reads"
    examples = """\
  harmony render chat.json
  harmony render chat.json --date 2025-06-28 --output ids
  harmony render --training --header-style guide < conversation.json
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_request(parser)
        ending = parser.add_mutually_exclusive_group()
        ending.add_argument(
            "--role",
            choices=role_names(),
            default="assistant",
            help="the role of the next message; none ends the prompt after the last message",
        )
        ending.add_argument(
            "--training",
            action="store_true",
            help="render a training example; its last answer ends in <|return|>",
        )
        parser.add_argument(
            "--keep-analysis",
            action="store_true",
            help="keep all reasoning",
        )
        parser.add_argument(
            "--reasoning-rule",
            choices=get_args(ReasoningRule),
            default="reference",
            help="which reasoning is dropped after an answer: what stands before the first final "
            "message, as the reference does it, or that of every finished turn, as servers do it",
        )
        parser.add_argument(
            "--header-style",
            choices=get_args(HeaderStyle),
            default="reference",
            help="how a header with a recipient is spelled",
        )
        add_schema_dialect(parser, "--schema-dialect")
        parser.add_argument(
            "--output",
            choices=("text", "ids", "json"),
            default="text",
            help="the marked-up text (the default), the token ids, or both with their segments",
        )
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        conversation, _ = read_request(arguments)
        encoding = load_harmony_encoding("HarmonyGptOss")
        config = RenderConversationConfig(
            auto_drop_analysis=not arguments.keep_analysis,
            reasoning_rule=arguments.reasoning_rule,
            schema_dialect=arguments.schema_dialect,
            header_style=arguments.header_style,
        )
        if arguments.training:
            segments = encoding.segments_for_training(conversation, config)
        else:
            role = role_named(arguments.role)
            segments = encoding.segments_for_completion(conversation, role, config)
        tokens = [token for segment in segments for token in segment.tokens]
        output = Output(arguments.color)
        if arguments.output == "ids":
            output.line(" ".join(map(str, tokens)))
        elif arguments.output == "json":
            fields = {
                "text": "".join(segment.text for segment in segments),
                "tokens": tokens,
                "segments": [segment._asdict() for segment in segments],
            }
            output.line(json_lines(fields))
        else:
            for segment in segments:
                is_body = segment.kind is SegmentKind.BODY
                style = style_of(conversation.messages[segment.message]) if is_body else "marker"
                output.write(segment.text, style)
            output.line()


RENDER = _Render()


class _Schema(Command):
    name = "schema"
    summary = "show a tool or a JSON Schema as the TypeScript that the model reads"
    examples = """\
  harmony schema tools.json
  harmony schema tool.json --dialect reference
  echo '{"type": "array", "items": {"type": "string"}}' | harmony schema
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_file(parser, "a function tool, a list of them, or a JSON Schema, as JSON")
        add_schema_dialect(parser, "--dialect")

    def run(self, arguments: argparse.Namespace) -> None:
        raw, _ = read_json(arguments.file)
        Output().line("\n\n".join(_types(raw, arguments.schema_dialect)))


SCHEMA = _Schema()


class _Template(Command):
    name = "template"
    summary = "print a template that Transformers reads: of prompts, or of responses"
    examples = """\
  harmony template response
  harmony template response --into gpt-oss-20b
  harmony template chat >gpt-oss-20b/chat_template.jinja
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "kind",
            choices=["chat", "response"],
            help="chat: a Jinja template that writes our prompts; response: the JSON with which "
            "Transformers returns reasoning and calls (`response_template`)",
        )
        parser.add_argument(
            "--into",
            metavar="FOLDER",
            type=Path,
            help="write it into the folder of a model, where `transformers serve` finds it",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        folder: Path | None = arguments.into
        if arguments.kind == "response":
            from ..engines.tokenizer_files import RESPONSE_TEMPLATE

            if folder is None:
                Output().line(json.dumps(RESPONSE_TEMPLATE, indent=2))
                return
            file = folder / "tokenizer_config.json"
            try:
                config = {**json.loads(file.read_text(encoding="utf-8"))}
            except OSError as error:
                raise InputError(f"{file}: {error.strerror}; name a model's folder") from None
            except (ValueError, TypeError):
                raise InputError(f"{file} is no configuration of a tokenizer") from None
            config["response_template"] = RESPONSE_TEMPLATE
            text = json.dumps(config, indent=2, ensure_ascii=False)
            file.write_text(f"{text}\n", encoding="utf-8")
            return
        data = resources.files("openai_harmony") / "data" / "demo_model"
        template = data.joinpath("chat_template.jinja").read_text(encoding="utf-8")
        if folder is None:
            Output().line(template.removesuffix("\n"))
        else:
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


TEMPLATE = _Template()


def _types(raw: JsonValue, dialect: SchemaDialect) -> Iterator[str]:
    if isinstance(raw, list):
        if not raw:
            raise InputError("the list of tools is empty")
        for index, tool in enumerate(raw):
            yield tool_declaration(tool_from_chat(tool, field=f"[{index}]"), dialect)
    elif isinstance(raw, dict) and (
        # No JSON Schema has such a type or name.
        raw.get("type") == "function" or isinstance(raw.get("name"), str)
    ):
        yield tool_declaration(tool_from_chat(raw), dialect)
    elif not isinstance(raw, (dict, bool)):
        raise InputError(f"expected a tool or a JSON Schema, found {raw!r:.80}")
    elif dialect == "reference":
        yield reference_schema_to_typescript(raw)
    else:
        yield schema_to_typescript(raw)
