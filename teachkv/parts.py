"""The parts of an engine, each built from the options that concern it, each refused before anything runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cuda_kernels.common.device import gpu
from cuda_kernels.errors import KernelUnavailable, NotInvariant
from cuda_kernels.registry import Ops, make_ops
from teachkv.checkpoint import LoadedModel
from teachkv.config import ModelConfig
from teachkv.errors import BackendError, OptionError
from teachkv.kv import BatchCache, CacheSpec, IncrementalBatchCache, RebuildBatchCache
from teachkv.kv.budget import rectangle_bytes
from teachkv.model import Model
from teachkv.options import DTYPES, EngineOptions, device_memory
from teachkv.schedule import Scheduler
from teachkv.weights import ModelWeights

ALARMS = ("NOT invariant", "CuPy cannot")


@dataclass(frozen=True, slots=True)
class KVBudget:
    """The scheduler's view of the memory: does this set of rows and staging slots fit into so many bytes?"""

    cache: BatchCache
    bytes: int
    drafts: int = 0  # columns that each row may need for guesses

    def fits(self, lengths: Sequence[int], staging: Sequence[int]) -> bool:
        """Asked between steps. Where only the slack of buffers stands in the way, it is given back first."""
        need = self.cache.bytes_for([length + self.drafts for length in lengths] if self.drafts else lengths, staging)
        left = self.bytes - need
        if 0 <= left < self.cache.held() and left < self.cache.slack():  # what is not held cannot be slack
            self.cache.trim()
        return left >= 0


def build_ops(config: ModelConfig, loaded: LoadedModel, options: EngineOptions) -> Ops:
    present, why = gpu()
    backend = ("raw" if present else "reference") if options.backend == "auto" else options.backend
    shapes = {array.shape for _, array in loaded.weights.named() if array.ndim == 2}
    try:
        ops = make_ops(backend, invariance=options.invariance, shapes=sorted(shapes))
    except (KernelUnavailable, NotInvariant) as error:
        raise BackendError(f"backend {backend!r}: {error}") from error
    chosen = f"chosen by 'auto': {why}" if options.backend == "auto" else "asked for"
    return replace(ops, notes=(chosen, *ops.notes))


def alarms(ops: Ops) -> list[str]:
    """Notes that call for a person: bits that are not equal, a GPU that lies idle. The others are matters of course."""
    return [note for note in ops.notes if any(word in note for word in ALARMS)]


def build_model(
    config: ModelConfig,
    weights: ModelWeights,
    ops: Ops,
    options: EngineOptions,
    *,
    overlap: bool,
    tell: Callable[[str], None] | None = None,
) -> Model:
    """On a GPU decode steps run in fused kernels and are replayed as CUDA graphs, unless that is switched off.

    tell: takes a line if a graph cannot be recorded, at any time.
    """
    model = Model(config, weights, ops)
    if options.fused_decode and ops.tellings.get("linear") == "raw":
        from teachkv.fused import fused

        model = fused(model)
    if not options.cuda_graphs or ops.xp is np:
        return model
    from teachkv.graphs import GraphedModel

    graphed = GraphedModel(model)
    graphed.turns, graphed.tell = 2 if overlap else 1, tell or graphed.tell
    return graphed


def context(config: ModelConfig, options: EngineOptions) -> int:
    """Tokens, prompt and output together. Raises OptionError for more than the model was made for."""
    asked = options.max_model_len
    if asked is not None and asked > config.max_position:
        raise OptionError(f"max_model_len {asked} is above the model's context of {config.max_position} tokens")
    return asked or config.max_position


def choose_dtype(config: ModelConfig, options: EngineOptions, ops: Ops) -> str:
    """What weights, activations and KV are stored in. Raises OptionError where the backend has no such type."""
    if ops.backend == "reference":
        if options.dtype not in ("auto", "float32"):
            raise OptionError(f"dtype {options.dtype!r}: the reference backend computes in float32")
        return "float32"
    if options.dtype != "auto":
        return options.dtype
    return config.dtype if config.dtype in DTYPES else "float32"


def dtype_notes(config: ModelConfig, dtype: str) -> list[str]:
    """What a person should know about the type that was chosen."""
    if config.dtype == "bfloat16" and dtype == "float16":
        return ["made for bfloat16 and run in float16, which ends at 65504: larger activations become infinity"]
    return []


def build_cache(config: ModelConfig, options: EngineOptions, ops: Ops, maximum: int, dtype: str) -> BatchCache:
    spec = CacheSpec.for_windows(
        config.windows,
        kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        maximum=maximum,
        window_cache=options.window_cache,
        dtype=ops.xp.dtype(dtype),
    )
    if options.effective_batch_cache() == "rebuild":
        return RebuildBatchCache(spec, ops, strip=options.strip, poison=options.poison)
    # guard[strip-honoured]: an option that does nothing is measured as if it did
    # mutant[strip-honoured/ignored]:
    #   - if options.strip != "deferred":
    #   + if False:
    if options.strip != "deferred":
        raise OptionError(
            f"strip {options.strip!r} belongs to batch_cache 'rebuild'; 'incremental' has nothing to strip"
        )
    if ops.xp is np:
        return IncrementalBatchCache(spec, ops, budget=options.effective_kv_budget(), poison=options.poison)
    # On a device nothing is moved once it lies: graphs hold pointers. So all rows are made at the start.
    return IncrementalBatchCache(spec, ops, rows=device_rows(options, spec), poison=options.poison)


def device_rows(options: EngineOptions, spec: CacheSpec) -> int:
    """Rows of the full context that the budget holds, at most the seats. Raises OptionError if not one fits."""
    budget, each = options.effective_kv_budget(on_device=True), rectangle_bytes(spec, 1, spec.maximum)
    rows = min(options.max_num_seqs, budget // (2 * each))  # as much again for staging and prefix blocks
    if rows < 1:
        raise OptionError(f"kv_budget of {budget} bytes holds no row of {spec.maximum} tokens; lower max_model_len")
    return int(rows)


def seats(options: EngineOptions, cache: BatchCache) -> int:
    """Sequences that may hold rows: as many as asked for, or as there are rows."""
    if isinstance(cache, IncrementalBatchCache) and cache.batch.preallocated is not None:
        return min(options.max_num_seqs, cache.batch.preallocated[0])
    return options.max_num_seqs


def build_scheduler(config: ModelConfig, options: EngineOptions, cache: BatchCache, on_device: bool) -> Scheduler:
    """Hands each policy the options it has; one that it has not is an error if the caller set it."""
    given: dict[str, Any] = {
        "max_num_seqs": seats(options, cache),
        "budget": KVBudget(cache, options.effective_kv_budget(on_device=on_device), options.speculative_tokens),
        "can_be_ragged": cache.can_be_ragged,
    }
    if options.policy == "packed":
        given["max_num_batched_tokens"] = options.max_num_batched_tokens or step_tokens(config, on_device)
    elif options.max_num_batched_tokens is not None:
        raise OptionError(f"max_num_batched_tokens belongs to policy 'packed'; policy is {options.policy!r}")
    ragged = {name: getattr(options, name) for name in ("prefill_floor_steps", "prefill_max_seqs", "coalesce")}
    if options.policy == "ragged":
        given |= ragged
    elif ragged != {"prefill_floor_steps": 0, "prefill_max_seqs": 0, "coalesce": True}:
        raise OptionError(f"{', '.join(ragged)} belong to policy 'ragged'; policy is {options.policy!r}")
    return Scheduler(options.policy, **given)


def step_tokens(config: ModelConfig, on_device: bool) -> int:
    """Prompt tokens per step where the caller names no number.

    A GPU is not filled by few, and launches cost the same for many. But a request may ask for the logits of all of them
    (prompt_logprobs), float32 [T, V]: these take at most a tenth of its memory.
    """
    if not on_device:
        return 512
    fitting = device_memory()[1] // 10 // (4 * config.vocab_size)
    return min(8192, max(512, 1 << max(fitting, 1).bit_length() - 1))
