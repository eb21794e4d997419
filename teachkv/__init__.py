"""teachkv: an LLM inference engine in plain Python, for teaching and audit.

    from teachkv import LLM, SamplingParams

Names are loaded when first used, so that `import teachkv` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teachkv.errors import TeachKVError
    from teachkv.llm import LLM
    from teachkv.outputs import CompletionOutput, RequestOutput, StreamChunk
    from teachkv.sample import SamplingParams

__all__ = ["LLM", "CompletionOutput", "RequestOutput", "SamplingParams", "StreamChunk", "TeachKVError"]

_HOMES = {
    "LLM": "teachkv.llm",
    "CompletionOutput": "teachkv.outputs",
    "RequestOutput": "teachkv.outputs",
    "StreamChunk": "teachkv.outputs",
    "SamplingParams": "teachkv.sample",
    "TeachKVError": "teachkv.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'teachkv' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
