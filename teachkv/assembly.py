"""Puts an engine together from a loaded model and options, and says at once which path it will take."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_kernels.common.device import gpu
from cuda_kernels.errors import KernelUnavailable, NotInvariant
from cuda_kernels.registry import Ops, make_ops
from teachkv.checkpoint import LoadedModel
from teachkv.config import ModelConfig
from teachkv.engine import Engine
from teachkv.errors import BackendError, OptionError
from teachkv.finish import Limits
from teachkv.kv import BatchCache, CacheSpec, IncrementalBatchCache, RebuildBatchCache
from teachkv.model import Model, Part
from teachkv.observe import Observer
from teachkv.options import DTYPES, EngineOptions
from teachkv.prefix import PrefixCache, model_fingerprint
from teachkv.reuse import Reuse
from teachkv.roster import Roster
from teachkv.sample.sampler import to_host
from teachkv.schedule import Scheduler
from teachkv.text import AnyTokenizer, load_tokenizer

FORWARD_ID = -1  # the cache row of LLM.forward; sequences count from 0


@dataclass(frozen=True, slots=True)
class KVBudget:
    """The scheduler's view of the memory: does this set of rows and staging slots fit into so many bytes?"""

    cache: BatchCache
    bytes: int
    drafts: int = 0  # columns that each row may need for guesses

    def fits(self, lengths: Sequence[int], staging: Sequence[int]) -> bool:
        return self.cache.bytes_for([length + self.drafts for length in lengths], staging) <= self.bytes


@dataclass(slots=True)
class Assembly:
    """Everything one LLM runs on. `seed` is the engine's own, for requests that bring none."""

    loaded: LoadedModel
    options: EngineOptions
    tokenizer: AnyTokenizer
    engine: Engine
    seed: int
    path: str

    @property
    def config(self) -> ModelConfig:
        return self.loaded.config

    def forward(self, ids: Sequence[int], bias: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """Logits [T, V] of one sequence, beside the engine's requests."""
        cache, model = self.engine.cache, self.engine.model
        cache.add(FORWARD_ID)
        try:
            view = cache.open_prefill([FORWARD_ID], [len(ids)])
            offsets = np.array([0, len(ids)], dtype=np.int32)
            part = Part("prefill", offsets, view, bias=bias, prompt_lens=offsets[1:])
            logits = model.forward(np.array(ids, dtype=np.int32), [part], np.arange(len(ids), dtype=np.int32))
            cache.close(view)
        finally:
            cache.drop(FORWARD_ID)
        return to_host(model.ops, logits)

    def stats(self) -> dict[str, Any]:
        """Plain data, taken from the running engine, never from what was asked for."""
        observer, reuse = self.engine.observer, self.engine.reuse
        running, waiting, resident = self.engine.scheduler.counts()
        return {
            "path": self.path,
            "steps": observer.totals.as_dict(),
            "now": {"running": running, "waiting": waiting, "resident": resident},
            "cache": self.engine.cache.stats(),
            "prefix": None if reuse is None else reuse.prefix.stats(),
            "engaged": dict(observer.engagement.counts),
            "tellings": dict(self.engine.model.ops.tellings),
            "seed": self.seed,
        }


def assemble(
    loaded: LoadedModel, options: EngineOptions, *, log: Callable[[str], None] | None, trace: bool = False
) -> Assembly:
    """Raises OptionError or BackendError for what cannot be honoured, before any request is taken."""
    config = loaded.config
    ops = build_ops(config, loaded, options)
    tokenizer = load_tokenizer(loaded.tokenizer_source, loaded.template_source)
    limits = Limits(context(config, options), frozenset((*config.eos_ids, *tokenizer.eos_ids)))
    dtype = choose_dtype(config, options, ops)
    cache = build_cache(config, options, ops, limits.max_model_len, dtype)
    scheduler = build_scheduler(options, cache)
    reuse = None
    if options.enable_prefix_caching:
        prefix = PrefixCache(16, options.prefix_cache_bytes, model_fingerprint(config))
        reuse = Reuse(prefix, config, cache, scheduler)
    observer = Observer(log, keep=trace)
    if options.speculative_tokens and not cache.can_be_ragged:
        raise OptionError(
            "speculative_tokens needs rows of different length: use window_cache='masked', or set it to 0"
        )
    roster = Roster(cache, scheduler, reuse, limits)
    weights = loaded.weights.placed(ops.xp, dtype)
    engine = Engine(Model(config, weights, ops), roster, observer, options.speculative_tokens)
    seed = options.seed if options.seed is not None else secrets.randbits(63)
    assembly = Assembly(loaded, options, tokenizer, engine, seed, path_line(options, cache, ops, limits))
    if log is not None:
        log(assembly.path + f"; seed {seed}")
    return assembly


def build_ops(config: ModelConfig, loaded: LoadedModel, options: EngineOptions) -> Ops:
    present, why = gpu()
    backend = options.backend if options.backend != "auto" or present else "reference"
    shapes = {array.shape for _, array in loaded.weights.named() if array.ndim == 2}
    try:
        ops = make_ops(backend, invariance=options.invariance, shapes=sorted(shapes))
    except (KernelUnavailable, NotInvariant) as error:
        raise BackendError(f"backend {backend!r}: {error}") from error
    chosen = f"chosen by 'auto': {why}" if options.backend == "auto" else "asked for"
    return replace(ops, notes=(chosen, *ops.notes))


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
    return IncrementalBatchCache(spec, ops, poison=options.poison)


def build_scheduler(options: EngineOptions, cache: BatchCache) -> Scheduler:
    """Hands each policy the options it has; one that it has not is an error if the caller set it."""
    given: dict[str, Any] = {
        "max_num_seqs": options.max_num_seqs,
        "budget": KVBudget(cache, options.effective_kv_budget(), options.speculative_tokens),
        "can_be_ragged": cache.can_be_ragged,
    }
    if options.policy == "packed":
        given["max_num_batched_tokens"] = options.max_num_batched_tokens or 512
    elif options.max_num_batched_tokens is not None:
        raise OptionError(f"max_num_batched_tokens belongs to policy 'packed'; policy is {options.policy!r}")
    ragged = {name: getattr(options, name) for name in ("prefill_floor_steps", "prefill_max_seqs", "coalesce")}
    if options.policy == "ragged":
        given |= ragged
    elif ragged != {"prefill_floor_steps": 0, "prefill_max_seqs": 0, "coalesce": True}:
        raise OptionError(f"{', '.join(ragged)} belong to policy 'ragged'; policy is {options.policy!r}")
    return Scheduler(options.policy, **given)


def path_line(options: EngineOptions, cache: BatchCache, ops: Ops, limits: Limits) -> str:
    """Which code will run, so that "did nothing" can be told from "was not on the path"."""
    by_telling: dict[str, list[str]] = {}
    for op, telling in ops.tellings.items():
        by_telling.setdefault(telling, []).append(op)
    tellings = "; ".join(f"{telling}: {' '.join(names)}" for telling, names in by_telling.items())
    ragged = "ragged" if cache.can_be_ragged else "exact lengths only"
    notes = "".join(f"; {note}" for note in ops.notes)
    return (
        f"path: policy {options.policy}, batch cache {options.effective_batch_cache()} (strip {options.strip}, "
        f"windows {options.window_cache}, {ragged}), backend {ops.backend} ({tellings}), "
        f"context {limits.max_model_len}, prefix cache {'on' if options.enable_prefix_caching else 'off'}, "
        f"speculation {options.speculative_tokens or 'off'}{notes}"
    )


def describe_backend(loaded: LoadedModel, options: EngineOptions) -> str:
    """The lines of `inspect` about what would compute this model here."""
    ops = build_ops(loaded.config, loaded, options)
    tellings = ", ".join(f"{op} {telling}" for op, telling in ops.tellings.items())
    return "\n".join([f"backend {ops.backend}: {tellings}", *(f"  {note}" for note in ops.notes)])
