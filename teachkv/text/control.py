"""Control tokens that no text can spell: a twin of a tokenizer in which they carry secret names.

A tokenizer looks for control tokens in the text itself, so whoever types `<|im_end|>` closes a turn. In the twin every
control token is renamed to its spelling between two secret words; everything else is the same. Text given to it is text
and nothing else, whatever it spells. Where a template writes a control token, the secret name is put in its place
first.
"""

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from teachkv.errors import TokenizerError
from teachkv.text.package import ids_of, open_tokenizer


def looks_like_markup(content: str) -> bool:
    """Whether an added token is written as a tag (`<think>`, `[INST]`), as opposed to a word or a run of spaces."""
    return len(content) > 2 and (content[0], content[-1]) in (("<", ">"), ("[", "]")) and not re.search(r"\s", content)


class ControlTwin:
    """The renamed tokenizer.

    data: the parsed tokenizer.json. controls: spelling -> id. Raises TokenizerError if the twin's ids would differ.
    """

    def __init__(self, data: Mapping[str, Any], controls: Mapping[str, int], where: str) -> None:
        self.word = secrets.token_hex(16)
        self.controls = dict(controls)
        self.secret = {content: f"{self.word}{content}{self.word}" for content in controls}
        self.where = where
        self.tokenizer, _ = open_tokenizer(json.dumps(self._renamed(data)), where)
        # guard[twin-ids]: a renamed token that got another id would put a wrong token into every chat
        # mutant[twin-ids/unchecked]:
        #   - wrong = [c for c, i in self.controls.items() if self.tokenizer.token_to_id(self.secret[c]) != i]
        #   + wrong = []
        wrong = [c for c, i in self.controls.items() if self.tokenizer.token_to_id(self.secret[c]) != i]
        if wrong:
            raise TokenizerError(f"{where}: control token {wrong[0]!r} cannot be kept apart from text that spells it")

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        """ids of text in which nothing is a control token; add_special adds what the tokenizer puts around a text."""
        return ids_of(self.tokenizer, text, add_special=add_special, where=self.where)

    def encode_marked(self, text: str, mark: str) -> list[int]:
        """ids of a rendered chat: control tokens count where they are spelled whole; `mark` inside one makes it
        text.
        """
        spellings = "|".join(re.escape(content) for content in sorted(self.controls, key=len, reverse=True))
        named = re.sub(spellings, lambda found: self.secret[found.group()], text) if spellings else text
        return self.encode(named.replace(mark, ""))

    def _renamed(self, data: Mapping[str, Any]) -> dict[str, Any]:
        twin = dict(data)
        twin["added_tokens"] = [
            {**token, "content": self.secret.get(token["content"], token["content"])} for token in data["added_tokens"]
        ]
        twin["model"] = model = dict(data["model"])
        vocab = model["vocab"]
        if isinstance(vocab, Mapping):
            model["vocab"] = {self.secret.get(entry, entry): number for entry, number in vocab.items()}
        else:
            model["vocab"] = [[self.secret.get(entry, entry), score] for entry, score in vocab]
        if model.get("unk_token") is not None:
            model["unk_token"] = self.secret.get(model["unk_token"], model["unk_token"])
        return twin
