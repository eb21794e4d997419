"""Where the text files of a model come from: a folder, or anything that hands them out by name."""

import json
from pathlib import Path
from typing import Any, Protocol

from teachkv.errors import TokenizerError

LIMIT = 64 << 20  # bytes; the largest published tokenizer.json has about 35 MB


class TextFiles(Protocol):
    """Files by their Hugging Face names. `where` is what errors name; `folder` is None if they lie in no folder."""

    where: str
    folder: Path | None

    def read(self, name: str) -> bytes | None:
        """Content, or None if there is no such file. Raises TokenizerError if it cannot be read."""
        ...


class Folder:
    """The files of a folder on disk."""

    def __init__(self, folder: str | Path) -> None:
        self.folder: Path | None = Path(folder)
        self.where = str(folder)

    def read(self, name: str) -> bytes | None:
        assert self.folder is not None
        path = self.folder / name
        try:
            with path.open("rb") as file:
                content = file.read(LIMIT + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            raise TokenizerError(f"{path}: cannot be read ({problem.strerror}); check its permissions") from None
        if len(content) > LIMIT:
            raise TokenizerError(f"{path}: is larger than {LIMIT} bytes; this is not the file it claims to be")
        return content


def read_text(files: TextFiles, name: str) -> str | None:
    """The file as text, or None if there is none. Raises TokenizerError if it is not UTF-8."""
    content = files.read(name)
    if content is None:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise TokenizerError(f"{files.where}: {name}: byte {problem.start} is not UTF-8; copy the file again") from None


def read_json(files: TextFiles, name: str) -> dict[str, Any] | None:
    """The file as a JSON object, or None if there is none. Raises TokenizerError for anything else."""
    text = read_text(files, name)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise TokenizerError(f"{files.where}: {name}: is not JSON ({problem}); copy the file again") from None
    # guard[json-is-text]: JSON can spell half a character; the tokenizers package raises on it, far from the file
    # mutant[json-is-text/removed]:
    #   - if "\\ud" in text.lower() and not _is_text(value):
    #   + if False:
    if "\\ud" in text.lower() and not _is_text(value):
        raise TokenizerError(
            f"{files.where}: {name}: spells half a character (\\ud800 to \\udfff); copy the file again"
        )
    if not isinstance(value, dict):
        raise TokenizerError(f"{files.where}: {name}: holds a {type(value).__name__}; expected a JSON object")
    return value


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
