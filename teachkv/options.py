"""Every option of the engine, in one place: name, meaning, default, range."""

import os
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal

from teachkv.errors import OptionError

POLICIES = ("packed", "ragged", "bucketed")
BATCH_CACHES = ("incremental", "rebuild")
BACKENDS = ("auto", "reference", "numba", "raw")
MAX_SEED = 2**64
DTYPES = ("auto", "float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What `LLM(model, **options)` and the command line accept. Names follow vLLM where vLLM has them.

    max_num_seqs: most sequences that hold KV at one time, in every policy.
    max_model_len: most tokens of one sequence, prompt and output together; None = the model's own limit.
    max_num_batched_tokens: prompt tokens per step (policy "packed"); None = 512 on a CPU, up to 8,192 on a GPU.
    policy: which sequences run in a step (teachkv/schedule).
    batch_cache: how a batch is kept; None = "rebuild" for "bucketed", else "incremental".
    strip: when a row's dead prefix is cut off ("eager" exists to measure what "deferred" gains).
    window_cache: "masked" keeps all columns of sliding layers, "ring" only the window (and refuses raggedness).
    kv_budget: most bytes of KV; None = 40 % of the free memory at start.
    enable_prefix_caching, prefix_cache_bytes: keep computed prompt beginnings for later requests, in so many bytes.
    prefill_floor_steps: after so many steps without a prompt, one runs (policy "ragged"); 0 = off.
    prefill_max_seqs: most prompts that come in with one step (policy "ragged"); 0 = off.
    coalesce: let the shortest bucket catch up with the next (policy "ragged").
    backend: what computes; "auto" = the fastest that this machine can run, and the path line says which.
    dtype: of weights, activations and KV on a device; "auto" = the checkpoint's. The reference backend has float32.
    cuda_graphs: replay decode steps as CUDA graphs where there is a GPU.
    graphs_at_load: record them for every batch size at load, so that no request waits for one; False: when first used.
    fused_decode: join the raw kernels of a decode step, where there are any; same bits, fewer launches.
    invariance: True = bit-equal results in any batch; "required" = an error where the machine cannot; False = faster.
    overlap: prepare the next step while this one runs; "auto" = where there is a GPU. Same output either way.
    speculative_tokens: drafts per step from prompt lookup; 0 = off.
    seed: the engine's own seed, for requests that bring none; None = random, and printed.
    poison: fill memory that nobody may read with NaN; None = as the variable TEACHKV_POISON says (the tests set it).
    """

    max_num_seqs: int = 128
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    policy: Literal["packed", "ragged", "bucketed"] = "packed"
    batch_cache: Literal["incremental", "rebuild"] | None = None
    strip: Literal["deferred", "eager"] = "deferred"
    window_cache: Literal["masked", "ring"] = "masked"
    kv_budget: int | None = None
    enable_prefix_caching: bool = True
    prefix_cache_bytes: int = 256 << 20
    prefill_floor_steps: int = 0
    prefill_max_seqs: int = 0
    coalesce: bool = True
    backend: Literal["auto", "reference", "numba", "raw"] = "auto"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    invariance: bool | Literal["required"] = True
    cuda_graphs: bool = True
    graphs_at_load: bool = True
    fused_decode: bool = True
    overlap: bool | Literal["auto"] = "auto"
    speculative_tokens: int = 0
    seed: int | None = None
    poison: bool | None = None

    def __post_init__(self) -> None:
        self._one_of("policy", POLICIES)
        self._one_of("batch_cache", (None, *BATCH_CACHES))
        self._one_of("strip", ("deferred", "eager"))
        self._one_of("window_cache", ("masked", "ring"))
        self._one_of("backend", BACKENDS)
        self._one_of("dtype", DTYPES)
        self._one_of("overlap", ("auto", True, False))
        self._one_of("invariance", (True, False, "required"))
        for name in ("max_num_seqs", "max_model_len", "max_num_batched_tokens", "kv_budget"):
            self._at_least(name, 1)
        for name in ("prefill_floor_steps", "prefill_max_seqs", "speculative_tokens", "prefix_cache_bytes", "seed"):
            self._at_least(name, 0)
        if self.seed is not None and self.seed >= MAX_SEED:
            raise OptionError(f"option 'seed' is {self.seed!r}: use a whole number below 2**64")
        # Every non-empty string is true, "no" as well.
        for name in ("enable_prefix_caching", "coalesce", "cuda_graphs", "graphs_at_load", "fused_decode"):
            self._one_of(name, (True, False))
        self._one_of("poison", (None, True, False))

    @classmethod
    def parse(cls, options: dict[str, Any]) -> "EngineOptions":
        """Raises OptionError for a name that does not exist, with the nearest one that does."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise OptionError(f"unknown option {name!r}: {hint}")
        return cls(**options)

    def effective_batch_cache(self) -> str:
        return self.batch_cache or ("rebuild" if self.policy == "bucketed" else "incremental")

    def effective_kv_budget(self, *, on_device: bool = False) -> int:
        """Bytes. Of the memory that is free now 40 % (on a device 80 %), unless the caller said otherwise."""
        if self.kv_budget is not None:
            return self.kv_budget
        return int(0.8 * device_memory()[0]) if on_device else int(0.4 * free_memory())

    def _one_of(self, name: str, allowed: tuple[Any, ...]) -> None:
        value = getattr(self, name)
        if not any(value is a or (isinstance(value, str) and value == a) for a in allowed):
            raise OptionError(f"option {name!r} is {value!r}: use one of {', '.join(repr(a) for a in allowed)}")

    def _at_least(self, name: str, low: int) -> None:
        value = getattr(self, name)
        if value is None:
            return
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise OptionError(f"option {name!r} is {value!r}: use a whole number of at least {low}")


def device_memory() -> tuple[int, int]:
    """Bytes that the current device can still give, and that it has."""
    from importlib import import_module

    free, total = import_module("cupy").cuda.runtime.memGetInfo()
    return int(free), int(total)


def free_memory() -> int:
    """Bytes that can be taken without swapping (Linux counts reclaimable pages in; elsewhere half of all memory)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
