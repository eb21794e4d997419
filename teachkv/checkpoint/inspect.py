"""What a model really is, in words: every default, gate and fall-back that took effect."""

from itertools import groupby

from teachkv.checkpoint.loaded import LoadedModel
from teachkv.config import ModelConfig
from teachkv.config.reading import printable

SHOWN = 12  # names of unused tensors; the rest is counted


def describe(loaded: LoadedModel) -> str:
    """The text of `teachkv inspect`, without the backend: one fact per line, notes last."""
    config, report = loaded.config, loaded.report
    rows = [
        ("model", f"{loaded.name} ({report.kind}{f', {loaded.path}' if loaded.path else ''})"),
        ("family", config.family),
        ("sizes", _sizes(config)),
        ("heads", f"{config.num_heads} query, {config.num_kv_heads} KV, head_dim {config.head_dim}"),
        ("context", f"{config.max_position} tokens"),
        ("rope", config.rope.describe()),
        ("norm eps", f"{config.rms_eps:g}"),
        ("biases", _biases(config)),
        ("embeddings", "tied to the head" if loaded.weights.tied else "not tied"),
        ("dtype", _dtypes(loaded)),
        ("eos ids", ", ".join(map(str, config.eos_ids)) or "none"),
        ("bos, pad", f"{_or_none(config.bos_id)}, {_or_none(config.pad_id)}"),
        *(("layers", line) for line in _layers(config.windows)),
        *(("file", f"{name}, {_bytes(size)}") for name, size in report.files.items()),
        ("weights", f"{_bytes(loaded.weights.nbytes)}: {_bytes(report.mapped)} mapped, {_bytes(report.copied)} copied"),
        ("unused", _names(report.unused)),
        ("missing", "none"),  # else it would not have loaded
        *(("note", note) for note in (*config.notes, *report.notes)),
    ]
    return "\n".join(f"{label:<11} {text}" for label, text in rows)


def _sizes(config: ModelConfig) -> str:
    return (
        f"vocabulary {config.vocab_size}, hidden {config.hidden_size}, intermediate {config.intermediate_size}, "
        f"{config.num_layers} layers"
    )


def _biases(config: ModelConfig) -> str:
    flags = (("q k v", config.qkv_bias), ("o", config.o_bias), ("mlp", config.mlp_bias), ("q/k norm", config.qk_norm))
    return ", ".join(name for name, present in flags if present) or "none"


def _dtypes(loaded: LoadedModel) -> str:
    stored = ", ".join(f"{count} tensors {dtype}" for dtype, count in sorted(loaded.report.dtypes.items()))
    return f"float32 in use; stored: {stored or 'nothing'}; config says {loaded.config.dtype}"


def _layers(windows: tuple[int | None, ...]) -> list[str]:
    """One line per run of layers with the same window."""
    lines = []
    for window, run in groupby(enumerate(windows), key=lambda item: item[1]):
        numbers = [index for index, _ in run]
        place = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        lines.append(f"{place}: {'full attention' if window is None else f'sliding window of {window}'}")
    return lines


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(printable(name, 120) for name in names[:SHOWN]) or "none") + more


def _or_none(token: int | None) -> str:
    return "none" if token is None else str(token)


def _bytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
