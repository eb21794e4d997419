"""Models as they lie on disk, and as they are built in."""

from teachkv.checkpoint.load import load_model
from teachkv.checkpoint.loaded import LoadedModel, LoadReport
from teachkv.checkpoint.text_files import TextFiles

__all__ = ["LoadReport", "LoadedModel", "TextFiles", "load_model"]
