"""Text in and out: tokenizers, chat templates, incremental text and stop strings."""

from teachkv.text.byte_tokenizer import ByteTokenizer
from teachkv.text.chat_template import ChatTemplate, load_chat_template
from teachkv.text.detokenizer import Detokenizer
from teachkv.text.file_tokenizer import Tokenizer, load_tokenizer
from teachkv.text.stop import StopMatcher
from teachkv.text.stream import TextStream
from teachkv.text.tokenizer import AnyTokenizer

__all__ = [
    "AnyTokenizer",
    "ByteTokenizer",
    "ChatTemplate",
    "Detokenizer",
    "StopMatcher",
    "TextStream",
    "Tokenizer",
    "load_chat_template",
    "load_tokenizer",
]
