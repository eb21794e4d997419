"""The prefix cache: what prompts have in common is computed once."""

from teachkv.prefix.block import Block, Hit, LiveLayer, LiveRows, ReadRows
from teachkv.prefix.cache import PrefixCache, PrefixStats
from teachkv.prefix.keys import NO_TAGS, Tags, model_fingerprint
from teachkv.prefix.naive import NaivePrefixCache

__all__ = [
    "NO_TAGS",
    "Block",
    "Hit",
    "LiveLayer",
    "LiveRows",
    "NaivePrefixCache",
    "PrefixCache",
    "PrefixStats",
    "ReadRows",
    "Tags",
    "model_fingerprint",
]
