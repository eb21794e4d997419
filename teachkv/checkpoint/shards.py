"""Safetensors checkpoints: one file, or several with an index. All headers are checked before any tensor is used."""

from functools import partial
from pathlib import Path
from typing import Any

from teachkv.checkpoint.header import Entry, read_header
from teachkv.checkpoint.mapping import MappedFile
from teachkv.checkpoint.stored import Store, Stored
from teachkv.config.places import inside, is_regular
from teachkv.config.reading import printable, read_json
from teachkv.errors import CheckpointError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_SHARDS = 4096


def open_safetensors(folder: Path) -> Store:
    """Every tensor of the folder's checkpoint. Raises CheckpointError if a file is missing, damaged or misplaced."""
    notes = []
    if is_regular(folder / SINGLE):
        if is_regular(folder / INDEX):
            notes.append(f"{INDEX} is not used: {SINGLE} is there")
        shards: dict[str, list[str] | None] = {SINGLE: None}
    elif is_regular(folder / INDEX):
        shards = dict(_read_index(folder))
    else:
        raise CheckpointError(f"{folder}: {_what_is_there(folder)}")
    # guard[shard-present]: a missing shard passed over leaves layers without weights (vllm#34859)
    # mutant[shard-present/skipped]:
    #   - paths = {name: _locate(folder, name, names) for name, names in shards.items()}
    #   + paths = {name: folder / name for name in shards if (folder / name).exists()}
    paths = {name: _locate(folder, name, names) for name, names in shards.items()}
    headers = {name: read_header(path) for name, path in paths.items()}
    tensors = _merge(folder, shards, headers)
    mapped = {name: MappedFile(paths[name]) for name, entries in headers.items() if entries}
    left = sorted(path.name for path in folder.glob("*.safetensors") if path.name not in shards)
    if left:
        notes.append(
            f"files not used: {', '.join(printable(name) for name in left[:8])}{' ...' if len(left) > 8 else ''}"
        )
    return Store(
        kind="safetensors",
        style="hf",
        where=folder,
        tensors={
            name: Stored(paths[shard], entry.dtype, entry.shape, partial(mapped[shard].tensor, entry))
            for name, (shard, entry) in tensors.items()
        },
        files={name: path.stat().st_size for name, path in paths.items()},
        notes=tuple(notes),
    )


def _what_is_there(folder: Path) -> str:
    others = sorted(
        path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.gguf", "*.safetensors") for path in folder.glob(pattern)
    )
    if any(name.endswith(".gguf") for name in others):
        return f"holds no {SINGLE}; name the .gguf file itself"
    if others:
        return f"holds no {SINGLE} or {INDEX}, only {', '.join(others[:4])}; convert the weights to safetensors"
    return f"holds no {SINGLE} and no {INDEX}; fetch the model again"


def _read_index(folder: Path) -> dict[str, list[str]]:
    """Shard file -> names of the tensors that the index puts there."""
    index = folder / INDEX
    table: Any = read_json(index, error=CheckpointError).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(file, str) for file in table.values()):
        raise CheckpointError(f"{index}: weight_map must map tensor names to file names; fetch the model again")
    shards: dict[str, list[str]] = {}
    for name, file in table.items():
        shards.setdefault(file, []).append(name)
    if len(shards) > MAX_SHARDS:
        raise CheckpointError(f"{index}: names {len(shards)} files (limit {MAX_SHARDS}); this is not a model's index")
    return shards


def _locate(folder: Path, shard: str, names: list[str] | None) -> Path:
    """The shard's path. A name that leaves the folder is refused; an absent file is told with what it held."""
    try:
        return inside(folder, shard, error=CheckpointError)
    except CheckpointError as problem:
        lost = f" ({len(names)} tensors, first {names[0][:80]!r})" if names else ""
        raise CheckpointError(f"{problem}{lost}") from None


def _merge(
    folder: Path, shards: dict[str, list[str] | None], headers: dict[str, tuple[Entry, ...]]
) -> dict[str, tuple[str, Entry]]:
    """Tensor name -> (shard, entry). What the index says and what the shards hold must be the same."""
    found: dict[str, tuple[str, Entry]] = {}
    for shard, entries in headers.items():
        for entry in entries:
            # guard[one-home]: of two tensors of one name, which one is used would depend on the order of files
            # mutant[one-home/removed]:
            #   - if entry.name in found:
            #   + if False:
            if entry.name in found:
                first = found[entry.name][0]
                raise CheckpointError(
                    f"{folder}: tensor {entry.name[:80]!r} lies in both {first} and {shard}; delete one"
                )
            found[entry.name] = (shard, entry)
    for shard, names in shards.items():
        for name in names or ():
            if name not in found or found[name][0] != shard:
                raise CheckpointError(f"{folder / INDEX}: puts {name[:80]!r} in {shard}, which does not hold it")
    return found
