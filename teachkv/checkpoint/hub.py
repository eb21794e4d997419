"""Models of the Hugging Face hub, through its own client (extra `hub`): its cache, its resuming, its credentials."""

import re
from pathlib import Path

from teachkv.errors import PullError

NAME = re.compile(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}", re.ASCII)
# What a model folder is read from here. Weights of other formats are not fetched.
WANTED = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "processor_config.json",
    "additional_chat_templates/*.jinja",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
]


def is_hub_name(name: str) -> bool:
    """True for ORG/NAME as the hub spells it."""
    return NAME.fullmatch(name) is not None and ".." not in name and "--" not in name


def pull_hub(name: str) -> Path:
    """Fetch what is missing of ORG/NAME and return its snapshot folder. Raises PullError."""
    return _snapshot(name, local=False)


def cached_hub(name: str) -> Path | None:
    """The snapshot folder in the hub's cache, or None. Never touches the network."""
    try:
        return _snapshot(name, local=True)
    except PullError:
        return None


def _snapshot(name: str, *, local: bool) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise PullError(f"{name}: needs the hub client; run 'pip install teachkv[hub]'") from None
    try:
        folder = Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=local))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as problem:
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise PullError(
            f"{name}: cannot be fetched from the hub ({reason[:200]}); check name, network and login"
        ) from None
    if not (folder / "config.json").is_file():
        raise PullError(f"{name}: has no config.json; it is not a model of this kind")
    return folder
