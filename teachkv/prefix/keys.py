"""What a stored block is found by: the model, the tags of the request, the chain of parents, and the tokens."""

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tags:
    """What sets apart two requests with equal tokens.

    adapter          name of the adapter, None for the bare model
    adapter_version  what tells two loads of one name apart: a digest of its weights, or a load number
    salt             a caller's own partition; requests with different salts share nothing
    """

    adapter: str | None = None
    adapter_version: str | None = None
    salt: str | None = None


NO_TAGS = Tags()


def digest(data: bytes) -> bytes:
    """32 bytes that find a block. Strong, so that nobody can construct two prompts that share them."""
    return hashlib.blake2b(data, digest_size=32).digest()


def model_fingerprint(config: object, load: bytes | None = None) -> bytes:
    """Names one loaded model: its config with all rope settings, and the load itself.

    `load` defaults to random bytes. The cache lives no longer than the process, so a fresh number per load tells two
    sets of weights under one path apart without reading them.
    """
    return digest(repr(config).encode() + (os.urandom(16) if load is None else load))


def encode_field(name: str, value: bytes | None) -> bytes:
    """One tagged field: name and value each behind its length, and a missing value apart from an empty one."""
    # guard[prefix-key-fields]: a salt that spells an adapter's name must not open the adapter's rows
    # origin: vllm#44701
    # mutant[prefix-key-fields/untagged]:
    #   - present = b"\0" if value is None else b"\1" + struct.pack("<Q", len(value)) + value
    #   - return struct.pack("<Q", len(name)) + name.encode() + present
    #   + return value or b""
    # mutant[prefix-key-fields/none-is-empty]:
    #   - present = b"\0" if value is None else b"\1" + struct.pack("<Q", len(value)) + value
    #   - return struct.pack("<Q", len(name)) + name.encode() + present
    #   + present = struct.pack("<Q", len(value or b"")) + (value or b"")
    #   + return struct.pack("<Q", len(name)) + name.encode() + present
    present = b"\0" if value is None else b"\1" + struct.pack("<Q", len(value)) + value
    return struct.pack("<Q", len(name)) + name.encode() + present


def root_key(fingerprint: bytes, tags: Tags) -> bytes:
    """Where every chain of one model and one set of tags begins. Not digested: it is compared as it is."""
    # guard[prefix-key]: rows of another model, adapter, adapter version or salt are wrong for this request
    # origin: vllm#30931, vllm#44701
    # mutant[prefix-key/no-fingerprint]:
    #   - fields = {"model": fingerprint, "adapter": tags.adapter, "version": tags.adapter_version, "salt": tags.salt}
    #   + fields = {"adapter": tags.adapter, "version": tags.adapter_version, "salt": tags.salt}
    # mutant[prefix-key/no-salt]:
    #   - fields = {"model": fingerprint, "adapter": tags.adapter, "version": tags.adapter_version, "salt": tags.salt}
    #   + fields = {"model": fingerprint, "adapter": tags.adapter, "version": tags.adapter_version}
    fields = {"model": fingerprint, "adapter": tags.adapter, "version": tags.adapter_version, "salt": tags.salt}
    encoded = (
        encode_field(name, value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)
        for name, value in fields.items()
    )
    return b"".join(encoded)


def chain_bytes(parent: bytes, tokens: Sequence[int]) -> bytes:
    """What is digested for a block: its parent's digest, then each token in eight bytes."""
    return parent + struct.pack(f"<{len(tokens)}q", *tokens)
