"""A turn's grammar inside `generate` of Hugging Face Transformers: scores in, masked scores out.

The allowed tokens of a row depend only on its grammar and its generated tokens. So rows may change
places (beam search), shrink (assisted generation) or start again (another call).

Needs the extra ``transformers``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..encoding import load_harmony_encoding
from ..installation import missing_package
from ..sampled_messages import OPENING
from .closing import ClosingMatcher
from .errors import GrammarError
from .matcher import BITMASK_WORDS, Matcher, fill_bitmasks
from .token_table import MODEL_VOCABULARY_SIZE

try:
    import torch
except ImportError as error:
    raise ImportError(
        missing_package("GrammarLogitsProcessor needs", error, "transformers")
    ) from error


class _Row:
    """A row: the number of tokens that its matcher took; later tokens follow the turn's end."""

    __slots__ = ("is_wrong", "matcher", "taken")

    def __init__(self, matcher: Matcher | ClosingMatcher, taken: int = 0) -> None:
        self.matcher = matcher
        self.taken = taken
        self.is_wrong = False

    @property
    def is_open(self) -> bool:
        """True while the grammar restricts the next token."""
        return not self.is_wrong and not self.matcher.is_finished

    def take(self, tokens: Sequence[int]) -> None:
        if self.is_open:
            taken = self.matcher.accept_all(tokens)
            self.taken += taken
            self.is_wrong = taken < len(tokens) and not self.matcher.is_finished


class GrammarLogitsProcessor:
    """Restrict `generate` to the tokens that a grammar allows: ``logits_processor=[processor]``.

    - `grammar`: one grammar for all rows, or one for each prompt of the batch. All beams and
      sequences of a prompt use the prompt's grammar.
    - `prompt_length`: the number of columns of ``input_ids`` up to and including
      ``<|start|>assistant``. Rows are padded on the left. Later columns belong to the turn. Set it
      again for a prompt of another length.
    - `max_new_tokens`: the limit of ``generate``, so that every row ends within it (see
      `ClosingMatcher`); None lets the limit cut a call or a JSON answer.

    ``generate`` must stop at ``<|return|>`` and ``<|call|>``; later tokens are not restricted. A
    token that the grammar does not allow raises `GrammarError`. It comes from a given beginning of
    the turn, or from another processor.

    >>> from gpt_oss_harmony import Conversation, load_harmony_encoding
    >>> from gpt_oss_harmony.grammar import TurnOptions, turn_grammar
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> grammar = turn_grammar(Conversation.from_messages([]), TurnOptions(preambles=False))
    >>> prompt = torch.tensor([encoding.encode("<|start|>assistant", allowed_special="all")])
    >>> processor = GrammarLogitsProcessor(grammar, prompt_length=prompt.shape[1])
    >>> scores = processor(prompt, torch.zeros(1, 201088))
    >>> encoding.decode(scores.isfinite().nonzero()[:, 1].tolist())
    '<|channel|>'
    """

    supports_continuous_batching = False  # there, rows belong to different prompts at each step

    def __init__(
        self,
        grammar: str | Sequence[str],
        prompt_length: int,
        max_new_tokens: int | None = None,
    ) -> None:
        self.grammars = [grammar] if isinstance(grammar, str) else list(grammar)
        self.prompt_length = prompt_length
        self.max_new_tokens = max_new_tokens
        if not self.grammars:
            raise ValueError("grammar: expected one grammar, or one for each prompt; found none")
        for text in self.grammars:
            self._matcher(text)  # raises an error now if it does not compile
        self._rows: list[_Row] = []
        self._generated = torch.empty((0, 0), dtype=torch.long)
        self._bitmasks: NDArray[np.int32] = np.empty((0, BITMASK_WORDS), np.int32)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return `scores`, with -inf for every token that the grammar does not allow next."""
        if scores.shape[-1] < MODEL_VOCABULARY_SIZE:
            raise GrammarError(
                f"the model has {scores.shape[-1]} logits, but the vocabulary of harmony has "
                f"{MODEL_VOCABULARY_SIZE} tokens",
                remedy="use a gpt-oss model",
            )
        generated = input_ids[:, self.prompt_length :]
        before = self._generated.to(generated.device)
        length = before.shape[1]
        if before.shape[0] == generated.shape[0] and torch.equal(generated[:, :length], before):
            # The usual step, in which each row has only grown.
            for row, tokens in zip(self._rows, generated[:, length:].tolist(), strict=True):
                row.take(tokens)
        else:
            self._check_prompts(input_ids)
            self._rearrange(before.cpu().numpy(), generated.cpu().numpy())
        self._generated = generated.clone()
        self._check_rows(input_ids)
        return self._masked(scores)

    def _check_prompts(self, input_ids: torch.Tensor) -> None:
        rows, columns = input_ids.shape
        if rows % len(self.grammars):
            raise GrammarError(
                f"{rows} rows cannot share {len(self.grammars)} grammars",
                remedy="give one grammar, or one for each prompt",
            )
        ending = list(OPENING)
        before = self.prompt_length - len(ending)
        endings = input_ids[:, max(before, 0) : self.prompt_length].tolist()
        if columns < self.prompt_length or endings.count(ending) < rows:
            raise GrammarError(
                f"not every row has <|start|>assistant before column {self.prompt_length}",
                remedy="give the length of the prompts as prompt_length, and pad them on the left",
            )

    def _matcher(self, grammar: str) -> Matcher | ClosingMatcher:
        if self.max_new_tokens is None:
            return Matcher(grammar)
        return ClosingMatcher(grammar, self.max_new_tokens)

    def _grammar(self, row: int, rows: int) -> str:
        return self.grammars[row * len(self.grammars) // rows]

    def _rearrange(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Find the earlier row that each row continues; a row that continues none starts again.

        Tokens are not rolled back one by one: this is impossible under a limit of tokens, and
        taking the tokens of a row again is fast.
        """
        length = before.shape[1]
        old, rows = self._rows, len(after)
        indices = {
            (self._grammar(i, len(old)), tokens.tobytes()): i for i, tokens in enumerate(before)
        }
        grammars = [self._grammar(row, rows) for row in range(rows)]
        parents = [
            indices.get((grammar, tokens[:length].tobytes()))
            for grammar, tokens in zip(grammars, after, strict=True)
        ]
        uses = Counter(parents)
        self._rows = []
        for grammar, parent, tokens in zip(grammars, parents, after, strict=True):
            if parent is None:
                row = _Row(self._matcher(grammar))
            else:
                uses[parent] -= 1
                matcher = old[parent].matcher
                # The last row that continues an earlier one takes its matcher over.
                row = _Row(matcher.copy() if uses[parent] else matcher, old[parent].taken)
            row.take(tokens[row.taken :].tolist())
            self._rows.append(row)

    def _check_rows(self, input_ids: torch.Tensor) -> None:
        """Raise for a wrong row, unless another row of its prompt is right.

        Beam sampling keeps wrong rows with a probability of zero if it finds too few others.
        """
        wrong = [number for number, row in enumerate(self._rows) if row.is_wrong]
        if not wrong:
            return
        prompts = input_ids[:, : self.prompt_length]
        right = torch.tensor([not row.is_wrong for row in self._rows], device=input_ids.device)
        for number in wrong:
            twins = (prompts == prompts[number]).all(dim=1)
            if not bool((twins & right).any()):
                column = self.prompt_length + self._rows[number].taken
                token = int(input_ids[number, column])
                text = ""
                if 0 <= token < MODEL_VOCABULARY_SIZE:
                    text = f" ({load_harmony_encoding('HarmonyGptOss').decode([token])!r})"
                raise GrammarError(
                    f"the grammar does not allow the token {token}{text} "
                    f"at row {number}, column {column} of input_ids",
                    remedy="check the given beginning of the turn, and the other logits processors",
                )

    def _masked(self, scores: torch.Tensor) -> torch.Tensor:
        matchers = [(i, row.matcher) for i, row in enumerate(self._rows) if row.is_open]
        if not matchers:
            return scores
        if len(self._bitmasks) != len(self._rows):
            self._bitmasks = np.empty((len(self._rows), BITMASK_WORDS), np.int32)
        self._bitmasks.fill(-1)  # every token is allowed unless a matcher forbids it
        fill_bitmasks(matchers, self._bitmasks)
        allowed = np.unpackbits(self._bitmasks.view(np.uint8), axis=1, bitorder="little")
        forbidden = torch.from_numpy(allowed).to(scores.device) == 0
        padding = scores.shape[1] - MODEL_VOCABULARY_SIZE
        if padding:
            forbidden = torch.nn.functional.pad(forbidden, (0, padding), value=True)
        return scores.masked_fill(forbidden, float("-inf"))
