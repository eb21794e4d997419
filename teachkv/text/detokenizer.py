"""Tokens to text, one at a time, never splitting a character."""

from collections.abc import Sequence
from encodings.utf_8 import IncrementalDecoder as Decoder  # its `buffer` holds the bytes of an unfinished character

from teachkv.text.vocabulary import Vocabulary

# Tokens of the prompt that can still hold bytes of an unfinished character: four bytes, with room for empty ones.
TAIL = 8


class Detokenizer:
    """Running text of one sequence.

    `prompt_ids` is the context before the first token: with it the text goes on in mid-word, and in mid-character, as
    the whole sequence decoded at once would; without it the first token starts a text.
    """

    def __init__(self, tokenizer: Vocabulary, prompt_ids: Sequence[int] = (), *, skip_special: bool = True) -> None:
        self.pieces = tokenizer.shown[skip_special]
        self.utf8 = Decoder(errors="replace")
        self.strip = tokenizer.strips_first
        if self.strip and any(self.pieces[token].raw for token in prompt_ids):
            self.strip = 0
        for token in prompt_ids[-TAIL:]:
            self.utf8.decode(self.pieces[token].raw)
        self.carried = bool(self.utf8.buffer)

    def push(self, token: int) -> str:
        """The characters that became complete. An ill-formed run of bytes gives one U+FFFD as soon as it is known to
        be one.
        """
        raw, text = self.pieces[token]
        # guard[open-character]: behind half a character even whole ones are first asked whether they end it
        # mutant[open-character/forgotten]:
        #   - if text is None or self.utf8.buffer:
        #   + if text is None:
        if text is None or self.utf8.buffer:
            # guard[whole-characters]: bytes go through one running decoder; a token decoded alone breaks them apart
            # origin: antonellof/ferrox#124
            # mutant[whole-characters/each-token-alone]:
            #   - text = self.utf8.decode(raw)
            #   + text = raw.decode("utf-8", "replace")
            # mutant[whole-characters/drops-invalid]:
            #   - text = self.utf8.decode(raw)
            #   + text = self.utf8.decode(raw).replace("\ufffd", "")
            text = self.utf8.decode(raw)
        return self._stripped(text) if self.strip or self.carried else text

    def flush(self) -> str:
        """What an unfinished character at the very end amounts to: one U+FFFD, or nothing."""
        # guard[flush-bytes]: a text may end in mid-character, at any max_tokens; the rest is shown, not swallowed
        # mutant[flush-bytes/forgotten]:
        #   - return self._stripped(self.utf8.decode(b"", final=True))
        #   + return ""
        return self._stripped(self.utf8.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        if not (text and (self.strip or self.carried)):
            return text
        if self.carried:
            # The prompt's own unfinished character was none after all; its replacement belongs to the prompt.
            self.carried, text = False, text.removeprefix("\ufffd")
        spaces = len(text) - len(text.lstrip(" "))
        # guard[first-space]: only the first token of a text loses its word-start space, not each piece of a stream
        # origin: huggingface/tokenizers#1141
        # mutant[first-space/every-piece]:
        #   - text, self.strip = text[min(spaces, self.strip) :], 0
        #   + text = text[min(spaces, self.strip) :]
        # mutant[first-space/never]:
        #   - text, self.strip = text[min(spaces, self.strip) :], 0
        #   + text, self.strip = text, 0
        text, self.strip = text[min(spaces, self.strip) :], 0
        return text
