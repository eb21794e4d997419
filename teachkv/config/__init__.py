"""What a model is: config.json read, validated and explained."""

from teachkv.config.model import ModelConfig
from teachkv.config.rope import Rope, RopeConfig

__all__ = ["ModelConfig", "Rope", "RopeConfig"]
