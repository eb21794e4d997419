# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 6. All or nothing
#
# **The question.** Four rows are to be aligned into one batch. The fourth cannot be. The engine refuses, the caller gets
# a clear error, and the requests go on one by one. What can still be wrong after a *correct* refusal?

# %%
from lesson import card, red_run, without

# %% [markdown]
# ## See it happen
#
# We spoil the last row by hand (its buffer is larger than the engine allows) and ask for a batch. Then we look at what
# each row *is*: its lead pad and its stored length.


# %%
def refused_batch():
    import numpy as np
    from room import Room

    room = Room(batch_cache="rebuild", max_model_len=16)
    room.prefill({0: "abc", 1: "a", 2: "abcdefg", 3: "ab"})
    rows = room.cache._rows
    before = [(rows[i].lead_pad, rows[i].slots[0].length) for i in rows]
    spoiled = rows[3].slots[0]
    spoiled.k = np.concatenate([spoiled.k, spoiled.k], axis=1)
    try:
        room.decode(dict.fromkeys(rows, "."))
        told = "nothing was refused"
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    after = [(rows[i].lead_pad, rows[i].slots[0].length) for i in rows]
    return {"told": told, "before": before, "after": after}


def show(found):
    print(found["told"])
    print("            row 0   row 1   row 2   row 3     (lead pad, stored length)")
    for when in ("before", "after"):
        print(f"{when:10}", *(f"{tuple(row)!s:7}" for row in found[when]))


kept = refused_batch()
show(kept)

# %% [markdown]
# The error names layer, row and all lengths, and every row is as it was. The next plan can run the rows apart.
#
# ## The guard that prevents the fault
#
# Aligning moves rows *in place*, one after the other. So all of them are asked first, and nothing is touched until all
# have said yes. The card below has the same two lines in the other order, which looks harmless.

# %%
card("all-or-nothing/pads-before-asking")

# %% [markdown]
# ## Take the guard away and look

# %%
broken = without("all-or-nothing/pads-before-asking", refused_batch)
show(broken)

# %% [markdown]
# Still an error, now from deep inside and without the number of the row. But rows 0 and 1 begin with dead columns that no
# batch accounts for: a caller who catches the error and goes on works with moved rows. A test that checks only "an error
# is raised" is green. The killer wants the typed refusal and compares every stored byte before and after:

# %%
said = red_run("all-or-nothing/pads-before-asking")

# %% [markdown]
# ## Exercise
#
# The other mutant of this guard does not ask at all. Is it killed by the same tests?
#
#     .venv/bin/pytest --mutate --mutate-only=all-or-nothing --mutate-matrix
#
# ## What you know now

# %%
assert kept["told"].startswith("PlanRefused")
assert "row 3" in kept["told"]
assert kept["after"] == kept["before"], "a refusal leaves everything as it was"
assert broken["after"] != broken["before"]
assert [pad for pad, _ in broken["after"]] == [4, 6, 0, 0], "half aligned"
