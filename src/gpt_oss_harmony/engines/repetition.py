"""The detection of a model that runs in circles, token by token.

A completion repeats itself if its last tokens are the same as those one period before: a marker
again and again, the same sentence, the same table row. A rolling hash of the last `threshold`
tokens finds this in constant time for each token, and in memory for `threshold` tokens.
"""

from __future__ import annotations

from collections import deque

# A large prime: different tokens rarely have the same hash, and `_is_periodic` compares them.
_MODULUS = (1 << 61) - 1
_BASE = 0x5DEECE66D1


class RepetitionDetector:
    """Finds the end of a text that repeats itself for at least `threshold` tokens.

    The repeated tokens come after their first occurrence, and a period has at most half of the
    threshold. So everything is there at least three times: a block that is copied once is no
    repetition, however long it is. Texts that change a little in each round, such as a counter,
    are not found either.

    >>> detector = RepetitionDetector(6)
    >>> [detector.take(token) for token in [7, 1, 2, 3, 1, 2, 3, 1, 2, 3]]
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    """

    def __init__(self, threshold: int) -> None:
        if threshold < 2:
            raise ValueError(f"the threshold must be an integer from 2, not {threshold!r}")
        self._threshold = threshold
        self._longest = threshold // 2
        self._power = pow(_BASE, threshold, _MODULUS)
        self._ring = [-1] * (threshold + self._longest)  # the last tokens, by position
        self._hash = 0  # of the last `threshold` tokens
        self._positions: dict[int, int] = {}  # of the hashes below, the latest of each
        self._hashes: deque[int] = deque()  # of the last periods
        self._position = 0

    def take(self, token: int) -> int:
        """Read a token; return the period if the text repeats itself, otherwise 0."""
        ring, position, threshold = self._ring, self._position, self._threshold
        oldest = ring[(position - threshold) % len(ring)]  # -1 as long as there is none
        ring[position % len(ring)] = token
        self._position += 1
        # One is added, so that the token 0 is not the same as no token.
        value = self._hash * _BASE + token + 1 - (oldest + 1) * self._power
        self._hash = value = value % _MODULUS
        if self._position < threshold:
            return 0
        before = self._positions.get(value)
        period = 0 if before is None else self._position - before
        self._positions[value] = self._position
        self._hashes.append(value)
        if len(self._hashes) > self._longest:
            expired = self._hashes.popleft()
            # The same hash may have come again since: then its later place stays.
            if self._positions[expired] == self._position - self._longest:
                del self._positions[expired]
        return period if period and self._is_periodic(period) else 0

    def _is_periodic(self, period: int) -> bool:
        """Compare the tokens themselves: the hashes of different tokens may be the same."""
        ring, last = self._ring, self._position - 1
        return all(
            ring[at % len(ring)] == ring[(at - period) % len(ring)]
            for at in range(last, last - self._threshold, -1)
        )
