# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 9. From naive to fast
#
# **The question.** Two kernels read the same columns and give the same answer. One takes fifteen times as long. Where does
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
# From the trace of one tiny call: how many read instructions does it take to fetch the keys, and how many numbers does
# one bring?


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
# The same numbers either way: 26 live keys of 8 dims, none of them twice, in a quarter of the instructions. Now the
# clock. No GPU runs here; these are records of one H200, kept in `docs/evidence`.


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
# One row cannot fill a GPU, however clever the kernel: there is not enough to read. With 128 long rows it reaches two
# thirds of the stream. And where rows are *spread* (very different lengths) it is slower than with equal rows of about
# the same total: the ragged tax.
#
# A rung that lost is worth as much as one that won. A long row is cut into segments for several blocks; should a block
# take one segment or two?

# %%
variants = lines("raw-kernels-h200-variants.json", "variants")


def per_kilocolumn(segments, case):
    """Microseconds for a thousand live columns: where rows are spread, the two runs drew different lengths."""
    name = next(name for name in variants if name.startswith(f"attention_decode {segments} per block {case},"))
    return variants[name]["us"] / int(name.rsplit(", ", 1)[1].split()[0]) * 1000


CASES = ("B=1", "B=32 spread", "B=128 uniform", "B=128 spread", "B=128 at 2000")
print("us per 1000 live columns     one segment   two segments")
won = {}
for case in CASES:
    one, two = per_kilocolumn(1, case), per_kilocolumn(2, case)
    won[case] = one / two - 1
    print(f"{case:26} {one:11.2f} {two:14.2f}   {'two' if two < one else 'one'} wins by {abs(won[case]):.0%}")

# %% [markdown]
# A segment is 256 positions, so rows of 307 are two: a block that takes both has nothing to merge through memory. Spread
# rows of up to 565 are three: two blocks and a merge, and one of the blocks is half idle. The kernel takes two, and the
# ragged tax is larger for it.
#
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
#     .venv/bin/pytest --mutate --mutate-only=numba-merge-all
#
# ## What you know now

# %%
assert all(numbers == 26 * 8 for _, numbers in counted.values()), "every live key once, no dead one"
assert 0.6 < max(decode.values()) / roof < 1, "two thirds of the stream, and nothing beats it"
assert 14 < numba[CASE]["us"] / raw[CASE]["us"] < 16
assert won["B=128 uniform"] > 0.3
assert won["B=128 spread"] < 0.05
assert max(kept) < 1e-5
assert broken[0] < 1e-5, "one segment: nothing to merge"
assert broken[1] > 1e-3
assert np.isfinite(broken).all()
