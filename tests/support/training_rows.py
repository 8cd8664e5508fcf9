"""Rows of every form with every field that the form has, and some of other forms."""

from __future__ import annotations

import json
from typing import Any

TEXT = {"type": "text", "text": "ho"}
SCHEMA = {
    "type": "object",
    "title": "Place",
    "properties": {
        "city": {"type": "string", "description": "The city", "pattern": "^[A-Z]"},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 1}},
    },
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "f", "description": "A function", "parameters": SCHEMA, "strict": True}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Rome"}'}}
ASKED = {"role": "user", "content": "hi", "name": "Ann"}
RESULT = {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "{}"}
SETTINGS = {
    "reasoning_effort": "high",
    "model_identity": "You are Tom.",
    "builtin_tools": ["python"],
    "weight": 0.5,
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "list", "schema": {"type": "array"}, "strict": True},
    },
    "metadata": {"source": "web"},
    "label": True,
}
# Every field that a form has, and some of other forms.
ROWS: dict[str, dict[str, Any]] = {
    "chat-changing-tools": {
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            ASKED,
            {"role": "assistant", "content": "ho"},
            {**ASKED, "tools": [{"type": "function", "function": {"name": "g", "x": 1}, "y": 2}]},
            {"role": "assistant", "content": "ha", "cache": 1},
        ],
    },
    "chat": {
        **SETTINGS,
        "tools": [{"type": "function", "function": FUNCTION, "cache_control": {"ttl": 5}}],
        "messages": [
            {"role": "system", "content": "Be brief.", "name": "boss", "cache": 1},
            {"role": "user", "content": [{**TEXT, "cache_control": 1}, {"type": "image", "x": 1}]},
            {
                "role": "assistant",
                "content": "Let me look.",
                "reasoning": "hm",
                "reasoning_content": "hmm",
                "reasoning_details": [{"type": "reasoning.text", "text": "x", "index": 0}],
                "tool_calls": [{**CALL, "index": 0}],
                "weight": 0.5,
                "annotations": [1],
                "audio": {"id": "a"},
                "name": "bot",
            },
            {**RESULT, "status": "ok"},
            {"role": "developer", "content": "In French."},
            ASKED,
            {"role": "assistant", "content": [TEXT], "thinking": "hm", "train": True},
            ASKED,
            {"role": "assistant", "content": None, "refusal": "no", "channel": "final"},
        ],
    },
    "template arguments": {
        "chat_template_kwargs": {
            "reasoning_effort": "high",
            "model_identity": "You are Tom.",
            "builtin_tools": ["browser"],
            "enable_thinking": True,
        },
        "reasoning_language": "French",
        "messages": [ASKED, {"role": "assistant", "content": "ho", "thinking": "hm"}],
    },
    "reasoning details": {
        "messages": [
            ASKED,
            {
                "role": "assistant",
                "content": "ho",
                "reasoning_details": [{"type": "reasoning.text", "text": "x", "index": 1}],
            },
        ]
    },
    "reasoning parts": {
        "messages": [
            ASKED,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "s": 1}, TEXT]},
        ],
        "response_format": {"type": "json_object"},
    },
    "functions": {
        "functions": [FUNCTION],
        "messages": [
            ASKED,
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": '{"city": "Rome"}', "x": 1},
            },
            {"role": "function", "name": "f", "content": "{}"},
            {"role": "assistant", "content": "ho"},
        ],
    },
    "custom tools": {
        "tools": [{"type": "custom", "custom": {"name": "f", "description": "A tool", "x": 1}}],
        "messages": [
            ASKED,
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x", "y": 1}}
                ],
            },
        ],
    },
    "other tools": {
        "tools": [
            {"type": "web_search", "filters": 1},
            {
                "type": "namespace",
                "name": "n",
                "description": "N",
                "tools": [{"type": "function", "name": "g", "description": "G"}],
            },
        ],
        "messages": [ASKED, {"role": "assistant", "content": "ho"}],
    },
    "sharegpt": {
        "id": 7,
        "system": "Be brief.",
        "tools": json.dumps([{"type": "function", "function": FUNCTION}]),
        "conversations": [
            {"from": "human", "value": "hi", "lang": "en"},
            {"from": "function_call", "value": '{"name": "f", "arguments": {"city": "Rome"}}'},
            {"from": "observation", "value": "{}", "took": 1},
            {"from": "gpt", "value": "<think>hm</think>ho", "weight": 0.5, "score": 1},
        ],
    },
    "responses": {
        "model": "x",
        "instructions": "Be brief.",
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "l", "schema": {"type": "array"}}},
        "tools": [{"type": "function", **FUNCTION}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi", "x": 1}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "summary": [{"type": "summary_text", "text": "h"}],
                "encrypted_content": "abc",
            },
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "f",
                "arguments": '{"city": "Rome"}',
                "status": "completed",
            },
            {"type": "function_call_output", "call_id": "c1", "output": "{}"},
        ],
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "phase": "final_answer",
                "content": [{"type": "output_text", "text": "ho", "annotations": [1]}],
            }
        ],
    },
    "completion": {
        "prompt": [ASKED, {"role": "assistant", "content": "so"}, ASKED],
        "completion": [{"role": "assistant", "content": "ho", "extra": 1}],
        "score": 1,
    },
    "completion as text": {"prompt": "hi", "completion": "ho", "score": 1},
    "alpaca": {
        "instruction": "Add.",
        "input": "1 and 2",
        "output": "3",
        "system": "Be brief.",
        "history": [["hi", "ho"]],
        "text": "Below is an instruction",
    },
    "harmony": {
        "weight": 0.5,
        "id": 1,
        "messages": [
            {
                "role": "system",
                "content": [
                    {
                        "type": "system_content",
                        "model_identity": "You are Tom.",
                        "reasoning_effort": "High",
                        "conversation_start_date": "2025-06-28",
                        "knowledge_cutoff": "2024-06",
                        "other": 1,
                    }
                ],
            },
            {"role": "user", "content": "hi", "extra": 1},
            {"role": "assistant", "channel": "analysis", "content": "hm", "train": True},
            {
                "role": "assistant",
                "channel": "commentary",
                "recipient": "functions.f",
                "content_type": "<|constrain|>json",
                "content": "{}",
                "thinking_time": 1,
            },
            {
                "role": "tool",
                "name": "functions.f",
                "recipient": "assistant",
                "channel": "commentary",
                "content": "{}",
            },
            {"role": "assistant", "channel": "final", "content": [{**TEXT, "x": 1}]},
        ],
    },
}
