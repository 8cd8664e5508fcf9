"""Draw the picture of the README: a turn as messages, as tokens, and as messages again.

There are two files, one of them for narrow screens; site_hooks.py puts both on a page.

    python scripts/docs/turn_picture.py [--check]

The tokens and the messages are the library's own. The picture begins with its end; it moves where
its reader allows motion. With ``--check`` nothing is written; the exit status says whether a
picture would change.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from gpt_oss_harmony import Conversation, Message, Role, StreamableParser, load_harmony_encoding

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURES = {IMAGES / "turn.svg": 880, IMAGES / "turn-narrow.svg": 360}
"""The width of each file."""

QUESTION = "Is it sunny in Tokyo?"
COMPLETION = (
    "<|channel|>analysis<|message|>Ask the weather tool.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.get_weather<|message|>"
    '{"city":"Tokyo"}<|call|>'
)

MARGIN, GAP = 20, 5
LINE_HEIGHT, CHARACTER = 30, 7.3
HOLD, STEP, CYCLE = 2.0, 0.14, 9.0
"""Seconds with the end, from one sampled token to the next, and until it all begins again."""

STYLE = """
  svg { --page: #fff; --edge: #d0d7de; --text: #1f2328; --soft: #59636e;
        --prompt: #eaeef2; --analysis: #fff1c9; --commentary: #d5e8ff; --special: #59636e; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #0d1117; --edge: #3d444d; --text: #f0f6fc; --soft: #9198a1;
          --prompt: #21262d; --analysis: #4b3a06; --commentary: #10335e; --special: #9198a1; } }
  .page { fill: var(--page); stroke: var(--edge); }
  text { fill: var(--text); font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
  .title { font: 600 13px system-ui, sans-serif; fill: var(--soft); }
  .name { font: 600 12px system-ui, sans-serif; fill: var(--soft); }
  .prompt { fill: var(--prompt); } .analysis { fill: var(--analysis); }
  .commentary { fill: var(--commentary); }
  .special { stroke: var(--special); stroke-dasharray: 3 2; }
"""


def draw(width: int) -> str:
    """Return the picture as SVG."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    question = Message.from_role_and_content(Role.USER, QUESTION)
    conversation = Conversation.from_messages([question])
    prompt = encoding.render_conversation_for_completion(conversation, Role.ASSISTANT)
    completion = encoding.encode(COMPLETION, allowed_special="all")

    drawing = _Drawing(width)
    drawing.title("You send messages")
    drawing.card("user", QUESTION, "prompt", 0)
    drawing.title("↓ render: the model reads these tokens,", "and samples the coloured ones")
    for token in prompt:
        drawing.token(encoding.decode([token]), "prompt", 0)

    parser = StreamableParser(encoding, Role.ASSISTANT)
    sampled: list[str] = []
    for token in completion:
        parser.process(token)
        sampled.append(encoding.decode([token]))
        if len(parser.messages) > len(drawing.messages):
            drawing.message(parser.messages[-1], sampled)
            sampled = []
    drawing.title("↓ parse: you get messages")
    for message, time in drawing.messages:
        name = f"{message.channel} → {message.recipient}" if message.recipient else message.channel
        drawing.card(str(name), _text(message), str(message.channel), time)
    return drawing.svg()


def _text(message: Message) -> str:
    return "".join(getattr(part, "text", "") for part in message.content)


class _Drawing:
    """The picture from top to bottom; tokens flow as text does."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.messages: list[tuple[Message, int]] = []
        self._shapes: list[str] = []
        self._x, self._y = float(MARGIN), 0.0
        self._bottom = 0.0
        self._time = 0

    def title(self, *parts: str) -> None:
        """Write the parts in one line, or below each other in the narrow picture."""
        self._y = self._bottom + 12
        self._x = MARGIN
        for line in [" ".join(parts)] if self._width > 600 else parts:
            self._y += 18
            self._shapes.append(f'<text class="title" x="{MARGIN}" y="{self._y:g}">{line}</text>')
        self._y += 12

    def card(self, name: str, text: str, kind: str, time: int) -> None:
        width = max(CHARACTER * len(text), 6.6 * len(name)) + 24
        height = LINE_HEIGHT + 16
        if self._x + width > self._width - MARGIN:
            self._x, self._y = MARGIN, self._y + height + GAP
        self._box(width, height, kind, time)
        x, y = self._x + 12, self._y
        self._write(x, y + 17, len(name) * 6.6, name, "name", time)
        self._write(x, y + 36, len(text) * CHARACTER, text, "", time)
        self._x += width + 12

    def message(self, message: Message, tokens: list[str]) -> None:
        """Draw the tokens of a message; it is complete with the last of them."""
        for text in tokens:
            self._time += 1
            self.token(text, str(message.channel), self._time)
        self.messages.append((message, self._time))

    def token(self, text: str, kind: str, time: int) -> None:
        special = text.startswith("<|")
        width = CHARACTER * len(text) + 10
        if self._x + width > self._width - MARGIN:
            self._x, self._y = MARGIN, self._y + LINE_HEIGHT
        self._box(width, LINE_HEIGHT - 6, f"{kind} special" if special else kind, time)
        self._write(self._x + 5, self._y + 16.5, len(text) * CHARACTER, text, "", time)
        self._x += width + GAP

    def svg(self) -> str:
        height = self._bottom + MARGIN
        times = "\n".join(_appearing(time) for time in range(1, self._time + 1))
        shapes = "\n".join(self._shapes)
        return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{self._width}" height="{height:g}" \
viewBox="0 0 {self._width} {height:g}" role="img" aria-labelledby="title">
<title id="title">A message becomes tokens; the tokens that the model samples become reasoning and \
a tool call</title>
<style>{STYLE}
  @media (prefers-reduced-motion: no-preference) {{
{times}
  }}
</style>
<rect class="page" x="0.5" y="0.5" width="{self._width - 1}" height="{height - 1:g}" rx="10"/>
{shapes}
</svg>
"""

    def _box(self, width: float, height: float, kind: str, time: int) -> None:
        self._bottom = self._y + height
        self._shapes.append(
            f'<rect class="{kind} {_time(time)}" x="{self._x:g}" y="{self._y:g}" '
            f'width="{width:.1f}" height="{height:g}" rx="4"/>'
        )

    def _write(self, x: float, y: float, width: float, text: str, kind: str, time: int) -> None:
        self._shapes.append(
            f'<text class="{kind} {_time(time)}" x="{x:.1f}" y="{y:g}" textLength="{width:.1f}" '
            f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(text)}</text>'
        )


def _time(time: int) -> str:
    return f"t{time}" if time else ""


def _appearing(time: int) -> str:
    """Return the rules that hide what belongs to a sampled token, from the hold to its time."""
    hidden = 100 * HOLD / CYCLE
    start = 100 * (HOLD + 1 + STEP * time) / CYCLE
    return (
        f"    .t{time} {{ animation: a{time} {CYCLE:g}s infinite; }}\n"
        f"    @keyframes a{time} {{ 0%, {hidden:.1f}% {{ opacity: 1; }} "
        f"{hidden + 3:.1f}%, {start:.1f}% {{ opacity: 0; }} "
        f"{start + 1:.1f}%, 100% {{ opacity: 1; }} }}"
    )


if __name__ == "__main__":
    drawn = {path: draw(width) for path, width in PICTURES.items()}
    if "--check" in sys.argv[1:]:
        sys.exit(any(path.read_text("utf-8") != picture for path, picture in drawn.items()))
    for path, picture in drawn.items():
        path.write_text(picture, "utf-8")
