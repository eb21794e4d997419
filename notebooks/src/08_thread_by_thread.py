# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 8. The ragged decode kernel, thread by thread
#
# **The question.** A GPU kernel is a few dozen lines that thousands of threads run at once. Which thread reads which
# column, and does any of them touch the dead prefix?
#
# No GPU is needed to see it. The Numba kernel is run as plain Python, one thread at a time between barriers. The CUDA C++
# kernel is compiled for the CPU from the very same source. Both write down every read and write.

# %%
import numpy as np
from IPython.display import display
from kernel_example import example
from lesson import card, red_run, without
from pictures import Drawing

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.registry import get
from cuda_kernels.trace import as_svg, as_text, order_text, trace_kernel
from teachkv.observe.scenes import thread_scene
from teachkv.observe.widget import step_player

# %% [markdown]
# ## See it happen
#
# Two rows that both end at column 20. Row 0 begins at column 0, row 1 at column 14. One query each, one head of 8 dims.

# %%
traces = {}
for telling in ("numba", "raw"):
    try:
        traces[telling] = trace_kernel("attention_decode_ragged", example(), telling)
    except KernelUnavailable as error:
        print(f"{telling}: not here ({error})")
print(as_text(traces["numba"]))

# %%
Drawing("the block of row 1: who reads which key", as_svg(traces["numba"], "k_cache", block=2))

# %% [markdown]
# This is the block that serves row 1. Each thread scores one key, so consecutive threads read consecutive columns. Grey
# is what may not be read: the dead prefix on the left, columns not yet written on the right. Then the same threads turn
# around: each takes one *dimension* and sums the values of all live columns.

# %%
Drawing("the block of row 1: who reads which value", as_svg(traces["numba"], "v_cache", block=2))

# %% [markdown]
# The two passes differ in what neighbours read. A GPU fetches pieces of 32 bytes, and threads that run together share
# them:

# %%
print(order_text(traces["numba"]))

# %% [markdown]
# One key per thread means that neighbours read 8 numbers apart: of each piece one number in eight is used at once, and
# the rest must still be near when its turn comes. One dimension per thread puts neighbours side by side.
#
# Now turn by turn: what one thread touches before the next one runs. First the keys, then, behind the barrier, the
# values.

# %%
ARRAYS = ["q", "k_cache", "v_cache", "parts", "out"]
step_player(thread_scene(traces["numba"].to_dict(), blocks=[2], arrays=ARRAYS))

# %% [markdown]
# The CUDA C++ kernel at this head size; other grid, other threads, the same columns:

# %%
if "raw" in traces:
    print(as_text(traces["raw"]))

# %%
if "raw" in traces:
    display(step_player(thread_scene(traces["raw"].to_dict(), arrays=ARRAYS)))

# %% [markdown]
# ## The guard that prevents the fault

# %%
card("numba-dead-prefix/off-by-one")

# %% [markdown]
# ## Take the guard away and look
#
# One column too early. Whether the *result* shows it depends on what happens to lie in that column; the trace sees the
# read itself, whatever lies there.


# %%
def columns_read():
    from kernel_example import example

    from cuda_kernels.trace import trace_kernel

    trace = trace_kernel("attention_decode_ragged", example(), "numba")
    found = {0: set(), 1: set()}
    for launch in trace.launches:
        for _, row, column in launch.along("k_cache", 2):
            found[row].add(column)
    return {str(row): sorted(columns) for row, columns in found.items()}


kept, broken = columns_read(), without("numba-dead-prefix/off-by-one", columns_read)
print("row 1 reads, with the guard:   ", kept["1"])
print("row 1 reads, without the guard:", broken["1"])

# %%
said = red_run("numba-dead-prefix/off-by-one")

# %% [markdown]
# ## Exercise
#
# A dropped barrier is a fault that a GPU shows now and then, or never while you look. The stepper shows it every time:
#
#     .venv/bin/pytest --mutate --mutate-only=numba-weights
#
# ## What you know now

# %%
assert kept == {"0": list(range(20)), "1": list(range(14, 20))}, "live columns, all of them, and no other"
assert broken["1"] == list(range(13, 20)), "one dead column"
spec = get("attention_decode_ragged", "spec")(*example())
for telling in traces:
    told = get("attention_decode_ragged", telling)(*example())
    assert np.abs(told - spec).max() < 1e-5, telling
