# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 9. From naive to fast
#
# **The question.** Two kernels read the same columns and give the same answer. One takes several times as long. Where does
# the time go, and how would you know that a faster one is as fast as it can be?
#
# Decoding attention does little arithmetic with much memory: every live key and value is read once. So the roof is the
# speed of memory, and the first thing to count is reads.

# %%
import json

import numpy as np
from kernel_example import example
from lesson import ROOT, card, red_run, without
from pictures import bars_picture

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.trace import trace_kernel

# %% [markdown]
# ## See it happen
#
# Rung by rung, from the trace of one tiny call. First: how many read instructions does it take to fetch the keys, and how
# many numbers does one bring?


# %%
def key_reads(telling):
    trace = trace_kernel("attention_decode_ragged", example(), telling)
    reads = [t for one in trace.launches for t in one.touches if t.array == one.number_of("k_cache") and not t.write]
    return len(reads), sum(touch.length for touch in reads)


counted = {}
for telling in ("numba", "raw"):
    try:
        counted[telling] = key_reads(telling)
    except KernelUnavailable as error:
        print(f"{telling}: not here ({error})")
for telling, (instructions, numbers) in counted.items():
    print(f"{telling:6} {instructions:4} reads of {numbers / instructions:g} numbers each = {numbers} numbers")

# %% [markdown]
# The same numbers either way: 26 live keys of 8 dims, none of them twice. Now the clock. No GPU runs here; these are the
# records that are kept in `docs/evidence`, made on the machine that they name.


# %%
def lines(record, part):
    held = json.loads((ROOT / "docs" / "evidence" / record).read_text())
    return {line["name"].removeprefix("Qwen2.5-0.5B "): line for line in held[part]["lines"]}


raw, numba = lines("raw-kernels-h200-time.json", "time"), lines("numba-time.json", "time")
CASE = "attention_decode B=32 uniform, 9824 live columns"
bars_picture(
    f"microseconds: {CASE}",
    [("Numba, written to be read", numba[CASE]["us"]), ("CUDA C++, written to be fast", raw[CASE]["us"])],
)

# %% [markdown]
# ## The roof
#
# A kernel that only moves memory cannot beat memory. What does each case reach, beside a plain stream of the same
# record: the logits of one row, which is one walk through one large matrix?

# %%
roof = next(line["GB/s"] for name, line in raw.items() if name.startswith("lm_head") and name.endswith("rows 1"))
decode = {name: line["GB/s"] for name, line in raw.items() if name.startswith("attention_decode")}
bars_picture(
    "GB/s of decoding attention, beside a plain stream",
    [(name.removeprefix("attention_decode ").partition(",")[0], value) for name, value in decode.items()]
    + [("logits of one row: a plain stream", roof)],
)

# %% [markdown]
# One row cannot fill a GPU, however clever the kernel: there is not enough to read. With 128 long rows it comes near the
# stream. And where rows are *spread* (very different lengths) it loses against equal rows of the same total: the ragged
# tax, which the record states as well.
#
# A rung that lost is worth as much as one that won. One long row can be cut into segments for several blocks; how many
# segments per block?

# %%
variants = lines("raw-kernels-h200-variants.json", "variants")
for name, line in variants.items():
    if "per block" in name:
        print(f"{line['us']:7.2f} us  {name}")

# %% [markdown]
# ## The guard that comes with speed
#
# Cutting a row into segments means merging them again, each with its own running maximum. Both sides must be brought to
# the common maximum before they are added.

# %%
card("numba-merge/unscaled")

# %% [markdown]
# ## Take the guard away and look


# %% tags=["varies"]
def off_by(columns):
    import numpy as np

    from cuda_kernels.registry import get

    rng = np.random.default_rng(0)
    cache = rng.standard_normal((1, 1, columns, 4)).astype(np.float32)
    query = 3 * rng.standard_normal((1, 1, 4)).astype(np.float32)
    where = [np.array(values, np.int32) for values in ([0, 1], [0], [columns])]
    args = (query, cache, cache.copy(), *where, None, None, 0.5)
    told = [get("attention_decode_ragged", telling)(*args) for telling in ("numba", "spec")]
    return float(np.abs(told[0] - told[1]).max())


COLUMNS = (200, 300)
kept = [off_by(n) for n in COLUMNS]
broken = [without("numba-merge/unscaled", off_by, n) for n in COLUMNS]
for n, a, b in zip(COLUMNS, kept, broken, strict=True):
    print(f"{n} columns: with the guard off by {a:.0e}, without by {b:.0e}")

# %% [markdown]
# 200 columns are one segment of 256: nothing to merge, nothing to see. A test with short rows is green.

# %% tags=["varies"]
said = red_run("numba-merge/unscaled")

# %% [markdown]
# ## Exercise
#
# And if only the first segment is merged? Look at the test that knows:
#
#     pytest --mutate --mutate-only=numba-merge-all
#
# ## What you know now

# %%
assert all(numbers == 26 * 8 for _, numbers in counted.values()), "every live key once, no dead one"
assert raw[CASE]["us"] < numba[CASE]["us"]
assert max(decode.values()) < roof, "nothing beats the stream"
assert max(kept) < 1e-5
assert broken[0] < 1e-5, "one segment: nothing to merge"
assert broken[1] > 1e-3
assert np.isfinite(broken).all()
