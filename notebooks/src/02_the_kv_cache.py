# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 2. The KV cache
#
# **The question.** Every new token depends on the whole text before it. How can token 500 then cost hardly more than
# token 5? And once something is kept: which numbers must be remembered about every row, and which must *not*?

# %%
import numpy as np
from lesson import card, red_run, without
from pictures import bars_picture
from room import Room

from teachkv.checkpoint.builtin import tiny
from teachkv.observe.widget import step_player

TEXT = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]

# %% [markdown]
# ## See it happen
#
# The same ten tokens twice: all at once, and one by one behind a cache. The last logits must be equal, bit for bit.

# %%
whole = Room(tiny()).prefill({0: TEXT})[0]
room = Room(tiny())
room.prefill({0: TEXT[:4]})
for token in TEXT[4:]:
    last = room.decode({0: token})[0]
print("equal bits:", bool((whole == last).all()))
without_cache = [len(TEXT[: n + 1]) for n in range(4, len(TEXT))]
bars_picture(
    "tokens computed for six new ones",
    [
        ("prompt of four, then one by one with a cache", 4 + 6),
        ("everything again for each token", 4 + sum(without_cache)),
    ],
)

# %% [markdown]
# Keys and values of a position depend on the tokens up to it, and those do not change. So they are kept: one *column*
# per token, layer by layer. What still grows with the text is attention, which reads every column; all other work is
# that of one token. Step through it:

# %%
step_player(room.log)

# %% [markdown]
# ## Three facts per row
#
# When rows of different lengths share a batch, all of them end at the same column. Now each row has
#
# - `lead_pad`, the dead columns before it: changes only when rows are moved,
# - `stored_len`, the column behind the last one: the same for the whole batch, grows with every step,
# - the *position* of a column: column - `lead_pad`, which the rotary embedding sees.
#
# Everything else, such as the live length, is computed when it is asked for.

# %%
pair = Room(tiny())
pair.prefill({0: TEXT[:7], 1: TEXT[:3]})
for step in range(3):
    pair.decode({0: 1 + step, 1: 2 + step})
for record in pair.log[1:]:
    print(
        "  ".join(
            f"row {r.id}: lead_pad {r.lead_pad}, end {r.end}, position of the new token {r.end - 1 - r.lead_pad}"
            for r in record.rows
        )
    )

# %% [markdown]
# ## The guard that prevents the fault
#
# It is tempting to store the live length when the batch is built. It is right for exactly one step.

# %%
card("geometry/stores-live-length")

# %% [markdown]
# ## Take the guard away and look


# %% tags=["varies"]
def row_one(steps):
    """Largest difference of row 1's logits from its text computed afresh, step by step."""
    import numpy as np
    from room import Room

    from teachkv.checkpoint.builtin import tiny

    text = [10, 20, 30, 40, 50, 60, 70]
    batch, short = Room(tiny(), batch_cache="rebuild"), text[:3]
    batch.prefill({0: text, 1: short})
    found = []
    for step in range(steps):
        behind_the_cache = batch.decode({0: 1 + step, 1: 2 + step})[1]
        short = [*short, 2 + step]
        afresh = Room(tiny()).prefill({1: short})[1]
        found.append(float(np.abs(behind_the_cache - afresh).max()))
    return found


kept, broken = row_one(4), without("geometry/stores-live-length", row_one, 4)
for step, (a, b) in enumerate(zip(kept, broken, strict=True)):
    print(f"step {step}: with the guard off by {a:g}; without it by {b:.2g}")

# %% [markdown]
# Step 0 is right. From then on the row loses one of its live columns per step. A test with one step cannot see it.

# %%
said = red_run("geometry/stores-live-length")

# %% [markdown]
# ## Exercise
#
# Rolling back is the other side of the same coin: a slot must not be set to a length that was never computed.
#
#     .venv/bin/pytest --mutate --mutate-only=set-len
#
# ## What you know now

# %%
assert np.array_equal(whole, last), "a cache changes the work, not one bit of the answer"
assert kept == [0.0] * 4
assert broken[0] == 0.0, "the first step is right"
assert min(broken[1:]) > 0
