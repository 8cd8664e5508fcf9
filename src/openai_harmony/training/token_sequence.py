"""A conversation as the tokens that were sampled, for several turns of reinforcement learning.

What the model sampled is never rendered again: its ids stay, whatever they mean, and the
conversation goes on after them. Two things of a prompt are not what was sampled, and both are the
format's: after an answer the prompt has ``<|end|>`` where ``<|return|>`` was sampled, and it leaves
out the reasoning of earlier turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..conversation.declared_tools import declared_tools
from ..conversation.messages import Conversation, Message, Role
from ..encoding import load_harmony_encoding
from ..errors import ConversationError
from ..parsing.parser import StreamableParser
from ..parsing.recovery import Recovery
from ..tokens.special_tokens import CALL, END, RETURN, START, STOP_TOKENS
from ..tokens.tokenizer import ASSISTANT
from .example import IGNORED
from .options import TrainingOptions
from .turn_plan import kept_in_prompt

__all__ = ["TokenSequence"]


class _Run(NamedTuple):
    """Where the tokens of a message stand; tokens that the parser made nothing of have none."""

    message: Message | None
    start: int
    end: int


@dataclass(frozen=True)
class TokenSequence:
    """Tokens of a prompt and of what was sampled after it; each step makes a new sequence.

    `labels` are the sampled tokens at their places, `logprobs` their logarithmic probabilities (0
    where nothing was sampled, NaN where none was given). `recoveries` say what the parser
    repaired in what was sampled last. `earlier` are the sequences of turns whose reasoning this one
    leaves out: they are to be learned, too.

    >>> question = Message.from_role_and_content(Role.USER, "2 + 2?")
    >>> prompt = TokenSequence.of_prompt(Conversation.from_messages([question]))
    >>> tokens = [200005, 17196, 200008, 19, 200002]
    >>> answered = prompt.add_sampled(tokens, logprobs=[-0.1] * 5)
    >>> answered.messages[-1].content[0].text, answered.labels[-5:] == tokens
    ('4', True)
    """

    input_ids: list[int]
    labels: list[int]
    logprobs: list[float]
    options: TrainingOptions = field(default_factory=TrainingOptions)
    recoveries: list[Recovery] = field(default_factory=list)
    earlier: tuple[TokenSequence, ...] = ()
    awaits_sampling: bool = True
    """Whether the sequence is a prompt; else it ends in what was sampled."""
    runs: tuple[_Run, ...] = ()

    @classmethod
    def of_prompt(
        cls, conversation: Conversation, options: TrainingOptions | None = None
    ) -> TokenSequence:
        """Render a conversation as the prompt for the assistant's next message."""
        options = options or TrainingOptions()
        kept = kept_in_prompt(conversation.messages, range(len(conversation.messages)), options)
        chosen = [conversation.messages[at] for at in kept]
        return cls([], [], [], options)._with_rendered(chosen)._with_opening()

    @property
    def messages(self) -> list[Message]:
        """The messages of the prompt, and what the lenient parser read in what was sampled."""
        return [run.message for run in self.runs if run.message is not None]

    def sampled_mask(self) -> list[bool]:
        """Whether the model sampled, token by token."""
        return [label != IGNORED for label in self.labels]

    def add_sampled(
        self, tokens: Sequence[int], logprobs: Sequence[float] | None = None
    ) -> TokenSequence:
        """Add what was sampled after the prompt, up to the stop token or to where it was cut.

        Raises `ConversationError` where the sequence is no prompt, or where `logprobs` are not as
        many as the tokens.
        """
        if not self.awaits_sampling:
            raise ConversationError("the model has spoken already; call extend() before it goes on")
        known = [math.nan] * len(tokens) if logprobs is None else list(logprobs)
        if len(known) != len(tokens):
            raise ConversationError(
                f"{len(tokens)} tokens have {len(known)} logprobs; give one for each"
            )
        encoding = load_harmony_encoding("HarmonyGptOss")
        tools = declared_tools(self.messages)
        parser = StreamableParser(encoding, Role.ASSISTANT, strict=False, tools=tools)
        ends = list(_ends(parser, tokens))
        start = self.runs[-1].end if self.runs else 0  # the opening belongs to the first message
        first = len(self.input_ids)
        runs: list[_Run] = []
        for message, end in zip(parser.messages, ends, strict=True):
            runs.append(_Run(message, start, first + end))
            start = first + end
        whole = first + len(tokens)
        if not runs:
            runs = [_Run(None, start, whole)]
        runs[-1] = runs[-1]._replace(end=whole)
        return replace(
            self,
            input_ids=[*self.input_ids, *tokens],
            labels=[*self.labels, *tokens],
            logprobs=[*self.logprobs, *known],
            recoveries=list(parser.recoveries),
            awaits_sampling=False,
            runs=(*self.runs, *runs),
        )

    def extend(self, messages: Sequence[Message]) -> TokenSequence:
        """Go on with tool results, or the next question: add them, and open the next message.

        The tokens are those of this sequence, and more; but where the next prompt leaves out
        reasoning, it is another sequence, put together of the same tokens, with this one as the
        last of `earlier`, and nothing in it is learned again.
        """
        closed = self._closed()
        known = closed.messages
        kept = kept_in_prompt(known, range(len(known)), self.options)
        if len(kept) < len(known):
            chosen = {id(known[at]) for at in kept}
            closed = closed._without(chosen, earlier=(*self.earlier, self))
        return closed._with_rendered(messages)._with_opening()

    def _closed(self) -> TokenSequence:
        """End the last message as a prompt has it."""
        if self.awaits_sampling:
            raise ConversationError("the model is to speak; call add_sampled() before extend()")
        last = self.input_ids[-1]
        if last == RETURN:
            return replace(self, input_ids=[*self.input_ids[:-1], END])
        if last in STOP_TOKENS:
            return self
        message = self.runs[-1].message
        is_call = message is not None and message.recipient is not None
        closed = self._with_tokens([CALL if is_call else END])
        run = closed.runs[-1]._replace(end=len(closed.input_ids))
        return replace(closed, runs=(*closed.runs[:-1], run))

    def _without(self, chosen: set[int], earlier: tuple[TokenSequence, ...]) -> TokenSequence:
        """Put the tokens of the chosen messages together, as a prompt."""
        empty = TokenSequence([], [], [], self.options, earlier=earlier)
        runs: list[_Run] = []
        tokens: list[int] = []
        for run in self.runs:
            if run.message is None or id(run.message) in chosen:
                start = len(tokens)
                tokens += self.input_ids[run.start : run.end]
                runs.append(_Run(run.message, start, len(tokens)))
        return replace(empty._with_tokens(tokens), runs=tuple(runs))

    def _with_rendered(self, messages: Sequence[Message]) -> TokenSequence:
        encoding = load_harmony_encoding("HarmonyGptOss")
        conversation = Conversation(messages=list(messages))
        rendering = self.options.rendering()
        lengths = [0] * len(messages)
        tokens: list[int] = []
        for segment in encoding.segments_for_completion(conversation, None, rendering):
            lengths[segment.message] += len(segment.tokens)
            tokens += segment.tokens
        runs = list(self.runs)
        end = len(self.input_ids)
        for message, length in zip(messages, lengths, strict=True):
            runs.append(_Run(message, end, end + length))
            end += length
        return replace(self._with_tokens(tokens), runs=tuple(runs))

    def _with_opening(self) -> TokenSequence:
        return replace(self._with_tokens([START, ASSISTANT]), awaits_sampling=True)

    def _with_tokens(self, tokens: Sequence[int]) -> TokenSequence:
        """Add tokens that were not sampled."""
        return replace(
            self,
            input_ids=[*self.input_ids, *tokens],
            labels=[*self.labels, *[IGNORED] * len(tokens)],
            logprobs=[*self.logprobs, *[0.0] * len(tokens)],
        )


def _ends(parser: StreamableParser, tokens: Sequence[int]) -> Iterator[int]:
    """Parse a completion; give, for each of its messages, the index after its last token."""
    known = 0
    for at, token in enumerate(tokens):
        parser.process(token)
        # A message that lacks its end is known to be over where the next one begins.
        end = at + 1 if token in STOP_TOKENS else at
        for _ in range(len(parser.messages) - known):
            yield end
        known = len(parser.messages)
    parser.process_eos()
    for _ in range(len(parser.messages) - known):
        yield len(tokens)
