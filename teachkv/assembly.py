"""Puts an engine together from a loaded model and options, and says at once which path it will take."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_kernels.registry import Ops
from teachkv.checkpoint import LoadedModel
from teachkv.config import ModelConfig
from teachkv.engine import Engine
from teachkv.errors import OptionError
from teachkv.finish import Limits
from teachkv.kv import BatchCache
from teachkv.model import Model
from teachkv.observe import Observer
from teachkv.options import EngineOptions
from teachkv.parts import (
    alarms,
    build_cache,
    build_model,
    build_ops,
    build_scheduler,
    choose_dtype,
    context,
    dtype_notes,
)
from teachkv.placing import Part
from teachkv.prefix import PrefixCache, model_fingerprint
from teachkv.reuse import Reuse
from teachkv.roster import Roster
from teachkv.sample.sampler import to_host
from teachkv.text import AnyTokenizer, load_tokenizer
from teachkv.warmup import record_graphs

FORWARD_ID = -1  # the cache row of LLM.forward; sequences count from 0


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
    scheduler = build_scheduler(config, options, cache, on_device=ops.xp is not np)
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
    overlap = overlap_of(options, cache, ops)
    model = build_model(config, weights, ops, options, overlap=overlap == "on", tell=log)
    graphs = record_graphs(model, cache, scheduler.limits.max_num_seqs, wanted=options.graphs_at_load)
    engine = Engine(model, roster, observer, options.speculative_tokens, overlap=overlap == "on")
    seed = options.seed if options.seed is not None else secrets.randbits(63)
    assembly = Assembly(
        loaded, options, tokenizer, engine, seed, path_line(options, cache, ops, limits, model, overlap)
    )
    if log is not None:
        log("; ".join([assembly.path, *([graphs] if graphs else []), f"seed {seed}"]))
        for note in (*config.notes, *loaded.report.notes, *dtype_notes(config, dtype), *alarms(ops)):
            log(f"note: {note}")
    return assembly


def path_line(options: EngineOptions, cache: BatchCache, ops: Ops, limits: Limits, model: Model, overlap: str) -> str:
    """Which code will run, so that "did nothing" can be told from "was not on the path"."""
    by_telling: dict[str, list[str]] = {}
    for op, telling in ops.tellings.items():
        by_telling.setdefault(telling, []).append(op)
    tellings = "; ".join(f"{telling}: {' '.join(names)}" for telling, names in by_telling.items())
    ragged = "ragged" if cache.can_be_ragged else "exact lengths only"
    how = "; ".join([tellings, *ops.notes])
    return (
        f"path: policy {options.policy}, batch cache {options.effective_batch_cache()} (strip {options.strip}, "
        f"windows {options.window_cache}, {ragged}), backend {ops.backend} ({how}), "
        f"decode steps {model.decode_path}, context {limits.max_model_len}, "
        f"prefix cache {'on' if options.enable_prefix_caching else 'off'}, "
        f"speculation {options.speculative_tokens or 'off'}, overlap {overlap}"
    )


def overlap_of(options: EngineOptions, cache: BatchCache, ops: Ops) -> str:
    """For the path line: on, off, or off with the reason. Raises OptionError where it was asked for and cannot be."""
    why = "speculation" if options.speculative_tokens else "" if cache.can_be_ragged else "ring layers"
    if options.overlap is True and why:
        raise OptionError(f"overlap does not go with {why}: leave it at 'auto'")
    if options.overlap is False or (options.overlap == "auto" and ops.xp is np):
        return "off"
    return f"off ({why})" if why else "on"


def describe_backend(loaded: LoadedModel, options: EngineOptions) -> str:
    """The lines of `inspect` about what would compute this model here."""
    ops = build_ops(loaded.config, loaded, options)
    tellings = ", ".join(f"{op} {telling}" for op, telling in ops.tellings.items())
    return "\n".join([f"backend {ops.backend}: {tellings}", *(f"  {note}" for note in ops.notes)])
