"""The law: nothing that stands between a call's header and its stop is shown to a user."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from gpt_oss_harmony import Message, Role, StreamableParser, load_harmony_encoding
from gpt_oss_harmony.tokens.special_tokens import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    START,
)
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")
TOOLS = ("functions.write", "functions.run", "python")
SPECIAL = (START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL, 199998, 200018)

WORDS = (
    "print('a')",
    "x",
    "{",
    "}",
    '"',
    "\\",
    "\n",
    "[1, 2]",
    "final",
    "assistant",
    "é🙂",
    "to=f",
)
HEADERS = (
    "<|channel|>commentary to=functions.write <|constrain|>json<|message|>",
    "<|channel|>commentary to=functions.run code<|message|>",
    "<|channel|>analysis to=python code<|message|>",
)


def calls(seed: int, count: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield headers and bodies of calls: JSON of any depth, or code."""
    chance = random.Random(seed)

    def value(depth: int) -> object:
        text = "".join(chance.choices(WORDS, k=chance.randrange(5)))
        kind = chance.randrange(5 if depth else 2)
        if kind == 2:
            return {f"k{i}": value(depth - 1) for i in range(chance.randrange(1, 4))}
        if kind == 3:
            return [value(depth - 1) for _ in range(chance.randrange(3))]
        return {"content": text} if kind == 4 else text if kind else chance.randrange(-9, 99)

    for number in range(count):
        header = HEADERS[number % len(HEADERS)]
        if header is HEADERS[0]:
            body = json.dumps({"content": value(2), "n": value(1)}, ensure_ascii=False)
        else:
            body = f"n = {number}\nprint({chance.choice(WORDS)!r}, n)\n"
        yield ENCODING.encode(header, allowed_special="all"), ENCODING.encode(body)


def read_at_once(tokens: list[int]) -> list[Message]:
    return ENCODING.parse_messages_from_completion_tokens(
        tokens, Role.ASSISTANT, strict=False, tools=TOOLS
    )


def read(tokens: list[int]) -> list[Message]:
    """Parse token by token, and check that the messages at once are the same."""
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False, tools=TOOLS)
    streamed: dict[int, str] = {}
    for token in tokens:
        for delta in parser.process_many([token]):
            streamed[delta.message] = streamed.get(delta.message, "") + delta.text
    messages = parser.process_eos().messages
    for index, text in streamed.items():
        assert messages[index].text.startswith(text)
    assert read_at_once(tokens) == messages
    return messages


def shown(messages: list[Message]) -> str:
    return "".join(message.text for message in messages if message.recipient not in TOOLS)


@pytest.mark.parametrize("token", SPECIAL)
def test_nothing_of_a_call_is_shown(token: int) -> None:
    for header, body in calls(token, examples(200)):
        for place in range(len(body) + 1):
            tokens = [*header, *body[:place], token, *body[place:], CALL]
            messages = read(tokens)
            assert messages[0].recipient in TOOLS
            assert shown(messages) == "", ENCODING.decode(tokens)


def test_no_two_tokens_make_a_call_shown() -> None:
    chance = random.Random(46)
    others = [token for token in SPECIAL if token != CALL]
    for header, body in calls(46, 3 * examples(200)):
        tokens = [*body]
        for _ in range(chance.choice((2, 2, 3))):
            place = chance.randrange(len(tokens) + 1)
            tokens.insert(place, chance.choice(others))
        assert shown(read([*header, *tokens, CALL])) == "", ENCODING.decode(tokens)


@pytest.mark.parametrize("ending", [[CALL], [END], [RETURN], []])
def test_nothing_behind_a_stop_inside_a_call_is_an_answer(ending: list[int]) -> None:
    """Two stray tokens where `<|call|>` ends the call; else a stop where the code is not whole."""
    chance = random.Random(ending[0] if ending else 0)
    for header, body in calls(len(ending), 2 * examples(200)):
        tokens = [*body]
        if ending == [CALL]:
            for token in (CALL, chance.choice(SPECIAL)):
                tokens.insert(chance.randrange(len(tokens) + 1), token)
        else:
            places = [at for at in range(1, len(body)) if not is_whole(ENCODING.decode(body[:at]))]
            tokens.insert(chance.choice(places), chance.choice((END, RETURN)))
        messages = read([*header, *tokens, *ending])
        answers = [message for message in messages if message.channel != "analysis"]
        assert shown(answers).strip() == "", ENCODING.decode([*header, *tokens, *ending])


def is_whole(code: str) -> bool:
    """Ask Python itself; JSON that is cut is never whole Python."""
    try:
        compile(code, "call", "exec")
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("code", ["print('{}')", 'print("{}")', "a = {}1", "{}a = 1", "a = 1{}"])
@pytest.mark.parametrize("token", [START, END, RETURN, CHANNEL])
def test_code_goes_on_until_its_call_ends(token: int, code: str) -> None:
    """In a string, a special token is its text; elsewhere it is left out."""
    spelled = ENCODING.decode([token])
    header = "<|channel|>analysis to=python code<|message|>"
    tokens = ENCODING.encode(header + code.format(spelled) + "<|call|>", allowed_special="all")
    (call,) = read(tokens)
    is_in_string = "print" in code
    assert (call.recipient, call.text) == ("python", code.format(spelled if is_in_string else ""))


ANSWER = "<|channel|>final<|message|>Hi<|return|>"


@pytest.mark.parametrize(
    "behind",
    [
        f"<|end|><|start|>assistant{ANSWER}",
        f"<|end|>\n<|start|>assistant{ANSWER}",
        f"<|end|>assistant{ANSWER}",
        f"<|end|>{ANSWER}",
        f"<|start|>assistant{ANSWER}",
        f"<|start|><|start|>assistant{ANSWER}",
        f"<|end|><|end|><|start|>assistant{ANSWER}",
        ANSWER,
        "<|end|>Hi<|return|>",
        "<|end|><|start|>python to=assistant<|channel|>analysis<|message|>1<|end|>"
        f"<|start|>assistant{ANSWER}",
        "<|end|>assistantcommentary to=functions.run{}<|call|>",
        "<|end|><|start|>assistantcommentary to=functions.run<|message|>{}<|call|>",
        "<|channel|>commentary to=functions.run<|message|>{}<|call|>",
        "<|start|>assistant<|channel|>commentary to=functions.run<|message|>{}<|call|>",
    ],
)
def test_what_follows_code_is_read(behind: str) -> None:
    header = "<|channel|>analysis to=python code<|message|>"
    code, *_, last = read(ENCODING.encode(f"{header}a = 1{behind}", allowed_special="all"))
    assert (code.recipient, code.text) == ("python", "a = 1")
    meant = ("functions.run", "{}") if behind.endswith("<|call|>") else (None, "Hi")
    assert (last.recipient, last.text) == meant


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is 4.",
        "42",
        "72 (27 + 45)",
        "- one\n- two",
        "Yes: it's x == 4.",
        "x = 4",
        "gcd(4, 6) = 2, so the answer is 2.",
        "The results:\n\nmean(x) = 4",
        "f(4) is the answer.",
        "if you want, here is a list:\n- 4",
        ".. and the answer",
        "/4/ is it",
        "Import it first, then call `print(1)`.",
        "```python\nprint(1)\n```",
    ],
)
@pytest.mark.parametrize("ending", ["<|return|>", "<|end|>", ""])
@pytest.mark.parametrize(
    "code",
    [
        'print("it\'s")\n',
        "# Don't worry\nprint(1)",
        "# a :( smiley\nx = 1",
        'x = 5  # 5" tall',
        "print(1)\n# c:",
        'x = """it\'s\n("""\nprint(x)',
    ],
)
def test_an_answer_behind_whole_code_is_shown(answer: str, ending: str, code: str) -> None:
    assert is_whole(code)
    text = f"<|channel|>analysis to=python code<|message|>{code}<|end|>{answer}{ending}"
    call, last = read(ENCODING.encode(text, allowed_special="all"))
    assert (call.recipient, call.text) == ("python", code)
    assert (last.channel, last.text) == ("final", answer)


@pytest.mark.slow
def test_code_of_any_length_is_read_once() -> None:
    """Quotes that nothing closes, brackets, and tokens that wait: hours, if it were quadratic."""
    tokens = ENCODING.encode("<|channel|>analysis to=python code<|message|>", allowed_special="all")
    for part in ('\\""" \n', "'(\n", '"""'):
        code = ENCODING.encode(part * 20_000)
        tokens += [*code, END, *code]
    read_at_once(tokens)
    arguments = ENCODING.encode('{"a": [' + "1, " * 40_000)
    rests = ENCODING.encode("<|start|>assistantx<|call|>", allowed_special="all") * 10_000
    call = ENCODING.encode(
        "<|channel|>commentary to=functions.run<|message|>", allowed_special="all"
    )
    read_at_once([*call, *arguments, CALL, *rests])
    read_at_once([*call, *ENCODING.encode("{<|end|>}", allowed_special="all") * 20_000])


@pytest.mark.parametrize("rest", ["", "<|channel|>final<|message|>", "<|message|>", "<|start|>"])
@pytest.mark.parametrize("ending", ["<|call|>", "<|return|>", "<|end|>", ""])
def test_nothing_is_shown_behind_a_call_that_ended_in_its_json(rest: str, ending: str) -> None:
    text = f'{HEADERS[0]}{{"content": "print(\'<|call|>{rest}\')"}}{ending}'
    first, *others = read(ENCODING.encode(text, allowed_special="all"))
    assert first.recipient == "functions.write"
    assert {message.channel for message in others} <= {"analysis"}


@pytest.mark.parametrize("ending", ["<|call|>", "<|return|>", "<|end|>"])
@pytest.mark.parametrize("begun", ["<|start|>", "<|message|>", "<|start|>, 2)<|message|>"])
def test_the_rest_of_code_is_no_answer(begun: str, ending: str) -> None:
    """Code is not JSON: what a damaged header begins behind it is read as reasoning."""
    text = f"<|channel|>analysis to=python code<|message|>print(1{begun}n)\n{ending}"
    messages = read(ENCODING.encode(text, allowed_special="all"))
    assert messages[0].recipient == "python"
    assert {message.channel for message in messages} == {"analysis"}


def test_a_marker_in_a_string_stays_in_the_string() -> None:
    for token in (START, END, CHANNEL, RETURN):
        spelled = ENCODING.decode([token])
        for text in (spelled, f"{spelled}final<|message|>x", f"<|end|>{spelled}assistant"):
            arguments = json.dumps({"content": f"print('{text}')"})
            tokens = ENCODING.encode(HEADERS[0] + arguments + "<|call|>", allowed_special="all")
            (call,) = read(tokens)
            assert json.loads(call.text) == {"content": f"print('{text}')"}
