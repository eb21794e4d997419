"""From what a user calls a model to the loaded thing: a built-in, a directory, a .gguf file, a pulled name."""

import os
from pathlib import Path

from teachkv.checkpoint import LoadedModel, load_model
from teachkv.checkpoint.builtin import MODELS
from teachkv.errors import OptionError


def load(name: str | Path) -> LoadedModel:
    """Raises OptionError when nothing goes by that name, ConfigError or CheckpointError when it is damaged."""
    text = str(name)
    if text in MODELS:
        return MODELS[text]()
    if text and os.path.exists(text):  # Path.exists raises for a name that is too long
        return load_model(Path(text))
    from teachkv.checkpoint.hub import is_hub_name
    from teachkv.checkpoint.pull import KNOWN, cached_dir

    if text in KNOWN or is_hub_name(text):
        directory = cached_dir(text)
        if directory is None:
            raise OptionError(f"model {text!r} has not been pulled yet: run 'teachkv pull {text}'")
        return load_model(directory)
    known = ", ".join([*MODELS, *KNOWN])
    raise OptionError(f"no model {text!r}: give a directory, a .gguf file, ORG/NAME, or one of {known}")
