"""Threads share an encoding and its cache."""

from __future__ import annotations

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    HarmonyEncoding,
    HarmonyEncodingName,
    Message,
    Role,
    ToolDescription,
    load_harmony_encoding,
)

ENCODING = load_harmony_encoding("HarmonyGptOss")


def test_threads_share_an_encoding() -> None:
    encoding = HarmonyEncoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    conversations = [_conversation(number) for number in range(40)]
    expected = [ENCODING.render_conversation(one) for one in conversations]
    parsed = [ENCODING.parse_messages_from_completion_tokens(tokens) for tokens in expected]
    barrier = threading.Barrier(8)

    def work(seed: int) -> int:
        choose = random.Random(seed)
        barrier.wait()
        for turn in range(60):
            at = choose.randrange(len(conversations))
            assert encoding.render_conversation(conversations[at]) == expected[at]
            strict = choose.random() < 0.5
            read = encoding.parse_messages_from_completion_tokens(expected[at], strict=strict)
            assert read == parsed[at]
            assert encoding.encode(encoding.decode(expected[at]), allowed_special="all")
            if turn % 10 == seed:
                encoding.limit_cache(choose.choice((0, 2_000, 20_000, 200_000)))
        return seed

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(work, range(8))) == list(range(8))
    finally:
        sys.setswitchinterval(interval)


def _conversation(number: int) -> Conversation:
    parameters = {"type": "object", "properties": {f"p{number % 7}": {"type": "string"}}}
    tools = [ToolDescription.new(f"f{number % 5}", "Does.", parameters)]
    developer = DeveloperContent.new().with_function_tools(tools)
    texts = [f"{number} {'word ' * (number * 7 % 50)}{turn % 4} é🏰" for turn in range(number % 9)]
    users = [Message.from_role_and_content(Role.USER, text) for text in texts]
    return Conversation.from_messages(
        [Message.from_role_and_content(Role.DEVELOPER, developer), *users]
    )
