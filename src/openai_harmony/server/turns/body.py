"""The text of a message while it is sampled, with the log-probabilities of its tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from ...engines.engine import SampledToken
from ...tokens.special_tokens import FIRST_SPECIAL
from .events import TextAdded, TokenLogprob
from .stop_texts import StopTexts

__all__ = ["TurnBody"]


class TurnBody:
    """Holds back what may yet be a stop text; `text` is what was passed on."""

    def __init__(
        self,
        at: int,
        channel: str | None,
        stop: Sequence[str],
        bytes_of: Callable[[Collection[int]], bytes],
        *,
        is_hidden: bool = False,
    ) -> None:
        self.at = at
        self.channel = channel
        self.is_hidden = is_hidden
        self._stop = StopTexts(stop) if stop else None
        self._bytes_of = bytes_of
        self._parts: list[str] = []
        self._taken = 0  # characters
        self._passed = 0  # of these
        # Each with the number of characters before its token's own:
        self._logprobs: deque[tuple[int, TokenLogprob]] = deque()

    @property
    def text(self) -> str:
        """What was passed on so far."""
        return "".join(self._parts)

    @property
    def has_stopped(self) -> bool:
        """Whether a stop text was found, which is not a part of the text."""
        return self._stop is not None and self._stop.found

    def note(self, sampled: SampledToken) -> None:
        """Keep the log-probability of a token of the body."""
        if sampled.logprob is None or sampled.token >= FIRST_SPECIAL:
            return
        top = tuple((self._bytes_of([one]), logprob) for one, logprob in sampled.top_logprobs or ())
        known = TokenLogprob(self._bytes_of([sampled.token]), sampled.logprob, top)
        self._logprobs.append((self._taken, known))

    def add(self, text: str) -> TextAdded | None:
        """Take text; return what no stop text can begin in."""
        self._taken += len(text)
        return self._pass_on(text if self._stop is None else self._stop.feed(text))

    def add_rest(self, whole: str) -> TextAdded | None:
        """Take what the end of the message brought, of its whole text, and hold nothing back."""
        missing = whole[self._taken :]
        self._taken += len(missing)
        if self._stop is None:
            return self._pass_on(missing)
        text = self._stop.feed(missing)
        return self._pass_on(text + self._stop.rest())

    def _pass_on(self, text: str) -> TextAdded | None:
        if not text:
            return None
        self._parts.append(text)
        self._passed += len(text)
        logprobs = []
        while self._logprobs and self._logprobs[0][0] < self._passed:
            logprobs.append(self._logprobs.popleft()[1])
        return TextAdded(self.at, text, tuple(logprobs))
