"""Stop strings across token boundaries: found at once, and never shown by halves."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Match:
    """`stop` was completed by the character before offset `end` of the text fed in that call."""

    stop: str
    end: int


class StopMatcher:
    """Watches a growing text for several strings at once (Knuth, Morris, Pratt 1977, one automaton per string).

    The match that is completed first wins; of several completed by the same character the longest. This looks at
    characters only, so that the answer is the same however the text is cut into tokens.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stops)
        self.borders = [_borders(stop) for stop in self.stops]
        self.states = [0] * len(self.stops)

    def feed(self, text: str) -> Match | None:
        """Look at the next characters; returns the first match, after which the matcher must not be fed again."""
        if not self.stops:
            return None
        for place, char in enumerate(text, 1):
            for i, stop in enumerate(self.stops):
                self.states[i] = _step(stop, self.borders[i], self.states[i], char)
            done = [stop for i, stop in enumerate(self.stops) if self.states[i] == len(stop)]
            if done:
                return Match(max(done, key=len), place)
        return None

    @property
    def held(self) -> int:
        """How many characters at the end of the text could still become part of a match: the longest suffix that is a
        proper prefix of a stop."""
        return max(self.states, default=0)


def _borders(stop: str) -> list[int]:
    """For each length n >= 1 of a prefix of `stop`: the length of its longest proper prefix that is also its suffix."""
    borders = [0]
    for char in stop[1:]:
        borders.append(_step(stop, borders, borders[-1], char))
    return borders


def _step(stop: str, borders: Sequence[int], state: int, char: str) -> int:
    """From the longest prefix of `stop` that ends the text to the one after another character; state < len(stop)."""
    while state and stop[state] != char:
        state = borders[state - 1]
    return state + 1 if stop[state] == char else 0
