"""The text of one running sample: what may be shown now, what is held back, and whether a stop string ended it."""

from collections.abc import Sequence

from teachkv.text.detokenizer import Detokenizer
from teachkv.text.stop import StopMatcher
from teachkv.text.tokenizer import AnyTokenizer


class TextStream:
    """Joined, the pieces that `push` and `finish` return are `text`, at whatever token the sequence ends.

    min_tokens: stop strings are looked for only in what later tokens add. include_stop: keep the stop string in the
    text.
    """

    def __init__(
        self,
        tokenizer: AnyTokenizer,
        stop_strings: Sequence[str] = (),
        prompt_ids: Sequence[int] = (),
        *,
        skip_special: bool = True,
        include_stop: bool = False,
        min_tokens: int = 0,
    ) -> None:
        self.detokenizer = Detokenizer(tokenizer, prompt_ids, skip_special=skip_special)
        self.matcher = StopMatcher(stop_strings)
        self.include_stop, self.min_tokens = include_stop, min_tokens
        self.stopped: str | None = None
        self.finished = False
        self.pushed = 0
        self.held = ""
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """Everything that may be shown so far; after `finish`, the whole text."""
        return "".join(self._pieces)

    def since(self, pieces: int) -> tuple[str, int]:
        """What may be shown behind the first so many pieces, and how many there are now."""
        return "".join(self._pieces[pieces:]), len(self._pieces)

    def push(self, token: int) -> str:
        """Take the next token; returns the text that is now certain. When a stop string is found, `stopped` names it.

        Raises RuntimeError after the end: a token past a stop would be shown to nobody or to the wrong one.
        """
        if self.finished or self.stopped is not None:
            raise RuntimeError("TextStream: a token was pushed after the text had ended")
        self.pushed += 1
        new = self.detokenizer.push(token)
        return self._grow(new) if self.matcher.stops else self._show(new)

    def finish(self, reason: str) -> str:
        """The sequence has ended (stop, length, abort, error); returns what was held back, if no stop string cut it
        off.
        """
        if self.finished:
            return ""
        self.finished = True
        if self.stopped is not None:
            return ""
        more = self._grow(self.detokenizer.flush())
        # guard[flush-held]: text held for a possible stop belongs to the user at every end that is not that stop
        # origin: ggml-org/llama.cpp#10914
        # mutant[flush-held/forgotten]:
        #   - return more + self._show(self.held)
        #   + return more
        # mutant[flush-held/only-at-eos]:
        #   - return more + self._show(self.held)
        #   + return more + (self._show(self.held) if reason == "stop" else "")
        return more + self._show(self.held)

    def _grow(self, new: str) -> str:
        if self.pushed <= self.min_tokens or not self.matcher.stops:
            return self._show(new)
        whole = self.held + new
        match = self.matcher.feed(new)
        if match is not None:
            self.stopped = match.stop
            end = len(self.held) + match.end
            return self._show(whole[: end if self.include_stop else end - len(match.stop)])
        # guard[hold-back]: the longest suffix that may still become a stop is held, and nothing more
        # origin: ggml-org/llama.cpp#10914
        # mutant[hold-back/leaks-half]:
        #   - certain = len(whole) - self.matcher.held
        #   + certain = len(whole)
        # mutant[hold-back/holds-all]:
        #   - certain = len(whole) - self.matcher.held
        #   + certain = 0 if self.matcher.stops else len(whole)
        certain = len(whole) - self.matcher.held
        return self._show(whole[:certain], whole[certain:])

    def _show(self, text: str, held: str = "") -> str:
        self.held = held
        if text:
            self._pieces.append(text)
        return text
