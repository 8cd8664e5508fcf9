"""``harmony render``, ``schema`` and ``template``: the prompt that the model reads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import get_args

from ..apis.chat.input import tool_from_chat
from ..apis.notices import schema_notices
from ..config import HeaderStyle, ReasoningRule, RenderConversationConfig, SchemaDialect
from ..conversation.messages import Role
from ..encoding import load_harmony_encoding
from ..errors import did_you_mean
from ..rendering.renderer import SegmentKind
from ..rendering.system_prompt import tool_declaration
from ..typescript.json_text import JsonValue
from ..typescript.reference_dialect import reference_schema_to_typescript
from ..typescript.writer import schema_to_typescript
from .command import Command
from .input import InputError, add_file, add_request, named_in_errors, read_json, read_request, warn
from .options import add_color, add_format, add_schema_dialect, role_named, role_names
from .output import Output, json_lines, style_of


class _Render(Command):
    name = "render"
    purpose = "see the format"
    summary = "turn a conversation into the prompt that the model reads"
    examples = """\
  harmony render chat.json
  harmony render chat.json --date 2025-06-28 --format ids
  harmony render --training --header-style guide < conversation.json
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_request(parser)
        ending = parser.add_mutually_exclusive_group()
        ending.add_argument(
            "--role",
            choices=role_names(),
            default="assistant",
            help="the role of the next message; none ends the prompt after the last message "
            "(default: assistant)",
        )
        ending.add_argument(
            "--training",
            action="store_true",
            help="write a training example: its last answer ends in <|return|>",
        )
        parser.add_argument(
            "--keep-analysis",
            action="store_true",
            help="keep all reasoning (default: drop what --reasoning-rule drops)",
        )
        parser.add_argument(
            "--reasoning-rule",
            choices=get_args(ReasoningRule),
            default="reference",
            help="which past reasoning to drop: reference drops all before the first final "
            "message, as openai-harmony does; by-turn drops that of every finished turn, as "
            "servers do (default: reference)",
        )
        parser.add_argument(
            "--header-style",
            choices=get_args(HeaderStyle),
            default="reference",
            help="how to spell a header with a recipient (default: reference)",
        )
        add_schema_dialect(parser)
        add_format(
            parser,
            ("text", "ids", "json"),
            "how to print the prompt: marked-up text, token ids, or JSON with both and their "
            "segments (default: text)",
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
        with named_in_errors(arguments.file):
            if arguments.training:
                segments = encoding.segments_for_training(conversation, config)
            else:
                role = role_named(arguments.role)
                segments = encoding.segments_for_completion(conversation, role, config)
        if all(message.author.role is Role.SYSTEM for message in conversation.messages):
            warn("the conversation has no message but the system's")
        tokens = [token for segment in segments for token in segment.tokens]
        output = Output(arguments.color)
        if arguments.format == "ids":
            output.line(" ".join(map(str, tokens)))
        elif arguments.format == "json":
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
    purpose = "see the format"
    summary = "turn a tool or a JSON Schema into TypeScript, as models read it"
    examples = """\
  harmony schema tools.json
  harmony schema tool.json --schema-dialect reference
  echo '{"type": "array", "items": {"type": "string"}}' | harmony schema
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_file(
            parser,
            "a function tool, a list of them, a request with tools, or a JSON Schema, as JSON",
        )
        add_schema_dialect(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        raw, _ = read_json(arguments.file)
        with named_in_errors(arguments.file):
            if isinstance(raw, dict) and isinstance(raw.get("messages"), list):
                raw = raw.get("tools") or []
            text = "\n\n".join(_types(raw, arguments.schema_dialect))
        Output().line(text)
        if text == "any" and isinstance(raw, dict):
            _warn_of_keywords(raw)
        for notice in schema_notices(_schemas(raw)):
            warn(notice)


SCHEMA = _Schema()


class _Template(Command):
    name = "template"
    purpose = "train a model"
    summary = "print the template of prompts or of responses for Transformers"
    examples = """\
  harmony template response
  harmony template response --output gpt-oss-20b
  harmony template chat --output gpt-oss-20b
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "kind",
            metavar="KIND",
            choices=["chat", "response"],
            help="chat: the Jinja template that writes prompts; response: the JSON by which "
            "Transformers separates reasoning and calls from the answer (`response_template`)",
        )
        parser.add_argument(
            "--output",
            metavar="FOLDER",
            type=Path,
            help="write the template into the folder of a model, where Transformers finds it "
            "(default: print it)",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        from ..engines.tokenizer_files import RESPONSE_TEMPLATE

        folder, is_chat = arguments.output, arguments.kind == "chat"
        if is_chat:
            data = resources.files("gpt_oss_harmony") / "data" / "demo_model"
            text = data.joinpath("chat_template.jinja").read_text(encoding="utf-8")
        else:
            text = json.dumps(RESPONSE_TEMPLATE, indent=2)
        if folder is None:
            Output().line(text.removesuffix("\n"))
            return
        file = folder / ("chat_template.jinja" if is_chat else "tokenizer_config.json")
        try:
            if not is_chat:
                config = json.loads(file.read_text(encoding="utf-8"))
                config = {**config, "response_template": RESPONSE_TEMPLATE}
                text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{file}: {error.strerror}; name a model's folder") from None
        except (ValueError, TypeError):
            raise InputError(f"{file} is no configuration of a tokenizer") from None


TEMPLATE = _Template()


def _warn_of_keywords(schema: Mapping[str, JsonValue]) -> None:
    """Warn of an object that is no schema: without any keyword, it allows every value."""
    from ..grammar.json_schema.keywords import READ

    if READ.isdisjoint(schema) and schema:
        remedy = did_you_mean(next(iter(schema)), READ, "a schema has type, properties or others")
        warn(f"no keyword of JSON Schema in this object says what is allowed; {remedy}")


def _schemas(raw: JsonValue) -> Iterator[JsonValue]:
    """Return a schema, or those of the parameters of tools."""
    for tool in raw if isinstance(raw, list) else [raw]:
        if not isinstance(tool, dict):
            continue
        described = tool.get("function", tool) if tool.get("type") == "function" else tool
        is_tool = isinstance(described, dict) and isinstance(described.get("name"), str)
        yield described.get("parameters") if is_tool and isinstance(described, dict) else tool


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
