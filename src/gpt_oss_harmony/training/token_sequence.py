"""A conversation as sampled tokens, for several turns of reinforcement learning.

Sampled tokens are never rendered again: their ids stay, even if the same text has other tokens, and
the conversation continues after them. By the format, the next prompt differs in two things: it has
``<|end|>`` in place of a sampled ``<|return|>``, and it leaves out the reasoning of earlier turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..conversation.messages import (
    Conversation,
    Message,
    Role,
    checked_conversation,
    declared_tools,
)
from ..encoding import load_harmony_encoding
from ..errors import ConversationError
from ..parsing.parser import StreamableParser
from ..parsing.recovery import Recovery
from ..sampled_messages import OPENING, stop_in_prompt
from ..tokens.special_tokens import CALL, END, STOP_TOKENS
from .examples import IGNORED
from .options import TrainingOptions
from .sequence_plan import kept_in_prompt

_OPENINGS = (Role.SYSTEM, Role.DEVELOPER)


class _Run(NamedTuple):
    """The tokens from `start` up to `end`, and their message; None if the parser read none."""

    message: Message | None
    start: int
    end: int
    is_sampled: bool = False


@dataclass(frozen=True)
class TokenSequence:
    """The tokens of a prompt and its completions; each method returns a new sequence.

    - `labels`: the sampled tokens, and `IGNORED` for all others.
    - `logprobs`: the log-probabilities of the tokens; 0 for tokens that were not sampled, NaN if
      none was given.
    - `recoveries`: the parser's repairs of the last completion.
    - `earlier`: sequences with reasoning that this one leaves out, or with another system message.
      Train on them, too.

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
    """True for a prompt, False for a sequence that ends in sampled tokens."""
    runs: tuple[_Run, ...] = ()

    @classmethod
    def of_prompt(
        cls,
        conversation: Conversation,
        options: TrainingOptions | None = None,
        *,
        continue_last: bool = False,
    ) -> TokenSequence:
        """Render a conversation as the prompt for the assistant's next message.

        With `continue_last`, the model goes on writing the last message, which must be the
        assistant's. Only the tokens that it adds are sampled ones, and `messages` has the whole
        message after `add_sampled`.
        """
        options = TrainingOptions.checked(options)
        messages = checked_conversation(conversation).messages
        begun = messages[-1:] if continue_last else []
        if continue_last and [message.author.role for message in begun] != [Role.ASSISTANT]:
            raise ConversationError("only a last message by the assistant can be continued")
        ended = messages[: len(messages) - len(begun)]
        chosen = [ended[index] for index in kept_in_prompt(ended, range(len(ended)), options)]
        empty = cls([], [], [], options)
        rendered = empty._rendered([*chosen, *begun])
        prompt = empty._with_messages(chosen, rendered[: len(chosen)])
        return prompt._with_tokens(rendered[-1][:-1]) if begun else prompt._with_opening()

    @property
    def messages(self) -> list[Message]:
        """The messages of the prompt, and those that the lenient parser read from completions."""
        return [run.message for run in self.runs if run.message is not None]

    def sampled_mask(self) -> list[bool]:
        """Return for each token whether the model sampled it."""
        return [label != IGNORED for label in self.labels]

    def add_sampled(
        self, tokens: Sequence[int], logprobs: Sequence[float] | None = None
    ) -> TokenSequence:
        """Add a completion of the prompt, up to its stop token or the place where it was cut off.

        Raises `ConversationError` if the sequence is not a prompt, or if the numbers of `logprobs`
        and tokens differ.
        """
        if not self.awaits_sampling:
            raise ConversationError("the sequence already has a completion; call extend() first")
        if logprobs is None:
            logprobs = [math.nan] * len(tokens)
        elif len(logprobs) != len(tokens):
            raise ConversationError(
                f"{len(tokens)} tokens have {len(logprobs)} logprobs; give one for each"
            )
        encoding = load_harmony_encoding("HarmonyGptOss")
        tools = declared_tools(self.messages)
        parser = StreamableParser(encoding, Role.ASSISTANT, strict=False, tools=tools)
        start = self.runs[-1].end if self.runs else 0  # the opening belongs to the first message
        parser.process_many(self.input_ids[start + len(OPENING) :])  # of a message to continue
        ends = list(_ends(parser, tokens))
        first = len(self.input_ids)
        runs: list[_Run] = []
        for message, end in zip(parser.messages, ends, strict=True):
            runs.append(_Run(message, start, first + end, is_sampled=True))
            start = first + end
        if not runs:
            runs = [_Run(None, start, first, is_sampled=True)]
        runs[-1] = runs[-1]._replace(end=first + len(tokens))
        return replace(
            self,
            input_ids=[*self.input_ids, *tokens],
            labels=[*self.labels, *tokens],
            logprobs=[*self.logprobs, *logprobs],
            recoveries=list(parser.recoveries),
            awaits_sampling=False,
            runs=(*self.runs, *runs),
        )

    def extend(self, messages: Sequence[Message]) -> TokenSequence:
        """Add tool results or the next question, and open the next message.

        The result begins with the tokens of this sequence, unless the next prompt leaves out
        reasoning, or has another system message because functions are declared only now. In these
        cases, the prompt is assembled again from the same tokens, without labels, and this sequence
        becomes the last of `earlier`.
        """
        closed = self._closed()
        numbers = [number for number, run in enumerate(closed.runs) if run.message is not None]
        history = closed.messages
        kept = {numbers[i] for i in kept_in_prompt(history, range(len(history)), self.options)}
        # A function that is declared now changes the tokens of the system message.
        openings = {
            number: run.message
            for number, run in enumerate(closed.runs)
            if run.message is not None
            and not run.is_sampled
            and run.message.author.role in _OPENINGS
        }
        rendered = self._rendered([*openings.values(), *messages])
        changed = dict(zip(openings, rendered, strict=False))
        tokens: list[int] = []
        runs: list[_Run] = []
        for number, run in enumerate(closed.runs):
            if run.message is None or number in kept:
                start = len(tokens)
                tokens += changed.get(number, closed.input_ids[run.start : run.end])
                runs.append(run._replace(start=start, end=len(tokens)))
        if tokens != closed.input_ids:
            fresh = TokenSequence([], [], [], self.options, earlier=(*self.earlier, self))
            closed = replace(fresh._with_tokens(tokens), runs=tuple(runs))
        return closed._with_messages(messages, rendered[len(openings) :])._with_opening()

    def _closed(self) -> TokenSequence:
        """End the last message as a prompt has it."""
        if self.awaits_sampling:
            raise ConversationError("the prompt has no completion; call add_sampled() first")
        last = self.input_ids[-1]
        message = self.runs[-1].message
        is_call = message is not None and message.recipient is not None
        if last in STOP_TOKENS:
            stop = stop_in_prompt(last, is_call=is_call)
            return replace(self, input_ids=[*self.input_ids[:-1], stop])
        closed = self._with_tokens([CALL if is_call else END])
        run = closed.runs[-1]._replace(end=len(closed.input_ids))
        return replace(closed, runs=(*closed.runs[:-1], run))

    def _rendered(self, messages: Sequence[Message]) -> list[list[int]]:
        """Render messages; return the tokens of each."""
        encoding = load_harmony_encoding("HarmonyGptOss")
        conversation = Conversation(messages=list(messages))
        tokens: list[list[int]] = [[] for _ in messages]
        rendering = self.options.rendering()
        for segment in encoding.segments_for_completion(conversation, None, rendering):
            tokens[segment.message] += segment.tokens
        return tokens

    def _with_messages(
        self, messages: Sequence[Message], rendered: Sequence[Sequence[int]]
    ) -> TokenSequence:
        """Add messages that were not sampled, with their tokens."""
        runs = list(self.runs)
        end = len(self.input_ids)
        for message, tokens in zip(messages, rendered, strict=True):
            runs.append(_Run(message, end, end + len(tokens)))
            end += len(tokens)
        added = [token for tokens in rendered for token in tokens]
        return replace(self._with_tokens(added), runs=tuple(runs))

    def _with_opening(self) -> TokenSequence:
        return replace(self._with_tokens(OPENING), awaits_sampling=True)

    def _with_tokens(self, tokens: Sequence[int]) -> TokenSequence:
        """Add tokens that were not sampled."""
        return replace(
            self,
            input_ids=[*self.input_ids, *tokens],
            labels=[*self.labels, *[IGNORED] * len(tokens)],
            logprobs=[*self.logprobs, *[0.0] * len(tokens)],
        )


def _ends(parser: StreamableParser, tokens: Sequence[int]) -> Iterator[int]:
    """Parse a completion; return the index after the last token of each message."""
    count = 0
    for index, token in enumerate(tokens):
        parser.process(token)
        # A message that lacks its stop ends where the next one begins.
        end = index + 1 if token in STOP_TOKENS else index
        for _ in range(len(parser.messages) - count):
            yield end
        count = len(parser.messages)
    parser.process_eos()
    for _ in range(len(parser.messages) - count):
        yield len(tokens)
