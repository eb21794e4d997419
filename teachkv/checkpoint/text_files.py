"""The text files of a model (tokenizer.json, chat_template.jinja ...), from a folder or made from something else."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from teachkv.config.places import inside
from teachkv.errors import TokenizerError

MORE_TEMPLATES = "additional_chat_templates/"
TEXT_LIMIT = 64 << 20  # the largest published tokenizer.json has some 35 MB


class TextFiles(Protocol):
    """Files by name. `where` is what an error names; `folder` is None if the files lie in no folder."""

    where: str
    folder: Path | None

    def read(self, name: str) -> bytes | None:
        """Content of the file, or None if there is none of that name. Raises TokenizerError if it cannot be read."""
        ...


class FolderFiles:
    """Files of a model folder."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path | None = folder
        self.where = str(folder)

    def read(self, name: str) -> bytes | None:
        assert self.folder is not None
        folder, plain = self.folder, name
        if name.startswith(MORE_TEMPLATES):  # the one folder within a model folder that holds text
            folder, plain = folder / MORE_TEMPLATES.rstrip("/"), name.removeprefix(MORE_TEMPLATES)
        if not os.path.lexists(folder / plain):
            return None
        path = inside(folder, plain, error=TokenizerError)
        try:
            with path.open("rb") as file:
                content = file.read(TEXT_LIMIT + 1)
        except OSError as problem:
            raise TokenizerError(f"{path}: cannot be read ({problem.strerror}); check its permissions") from None
        if len(content) > TEXT_LIMIT:
            raise TokenizerError(f"{path}: larger than {TEXT_LIMIT} bytes; this is not the file it claims to be")
        return content


class MemoryFiles:
    """Files that exist only as text in memory, as those of a built-in model or of a GGUF file."""

    def __init__(self, where: str, files: Mapping[str, str]) -> None:
        self.where, self.files = where, dict(files)
        self.folder: Path | None = None

    def read(self, name: str) -> bytes | None:
        content = self.files.get(name)
        return None if content is None else content.encode("utf-8")
