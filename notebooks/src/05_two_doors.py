# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 5. Two doors into one room
#
# **The question.** The dead prefix is masked in one place, and a test proves it. Why did a change that did exactly this
# still lose tokens, with no error and exit code 0?
#
# It happened: 433 of 512 tokens came back, every run with prompts of equal length was exact, and only a count of tokens
# noticed. The masker had **two** entry points. Which one a model uses depends on its config. (The story is told in the
# seed document, a report on another engine from which many of the guards here come.)

# %%
from lesson import card, red_run, without
from pictures import bars_picture

# %% [markdown]
# ## See it happen
#
# Two models with the same random weights. One has no window; the other has sliding layers, so it comes in by the other
# door. Eight prompts of different length, 64 tokens each, one batch. A token counts as right if the same prompt *alone*
# gives it too.


# %%
def right_tokens(window):
    from dataclasses import replace

    import numpy as np
    from room import Room

    from teachkv.checkpoint.builtin import tiny

    model = tiny()
    model = replace(model, config=replace(model.config, windows=(None, window, None, window)))
    lengths = [4, 9, 13, 20, 26, 31, 37, 44]
    prompts = {i: [(7 * i + 3 * j) % 250 for j in range(n)] for i, n in enumerate(lengths)}

    def answers(rows):
        room = Room(model)
        last = {row: int(np.argmax(x)) for row, x in room.prefill({row: prompts[row] for row in rows}).items()}
        told = {row: [token] for row, token in last.items()}
        for _ in range(63):
            last = {row: int(np.argmax(x)) for row, x in room.decode(last).items()}
            for row, token in last.items():
                told[row].append(token)
        return told

    alone = {row: answers([row])[row] for row in prompts}
    together = answers(list(prompts))
    return sum(a == b for row in prompts for a, b in zip(alone[row], together[row], strict=True))


# %% tags=["varies"]
DOORS = {"full": "masker/none-at-one-query", "sliding": "masker-window/drops-lead-pad"}
found = {}
for model, window in (("without windows", None), ("with windows", 16)):
    found[model, "both doors guarded"] = right_tokens(window)
    for door, mutant in DOORS.items():
        found[model, f"{door} door open"] = without(mutant, right_tokens, window)
bars = [(f"model {model}, {doors}", count) for (model, doors), count in found.items()]
bars_picture("right tokens of 512", bars, bad=[name for name, count in bars if count < 512])

# %% [markdown]
# Read the picture by model. The model without windows does not notice that the window door is broken, and the windowed
# model is hurt by **either**, because its full layers use the first door and its sliding layers the second. A test on
# one family of models proves one door.
#
# ## The guard that prevents it
#
# Every return of both entry points carries the pad. The sliding-window door is this one:

# %%
card("masker-window/drops-lead-pad")

# %% [markdown]
# ## Take the guard away and look
#
# The picture above did: it ran the whole comparison with each guard taken out in turn. The guard's own test does not
# compare tokens. It finds the entry points in the source and asks each of them, at every return, with ragged rows, so a
# third door would be asked too.

# %%
said = red_run("masker-window/drops-lead-pad", "counts_no_dead_column")

# %% [markdown]
# ## Exercise
#
# There is a third return with a dead prefix in it: several query tokens per row, as in speculation. See who guards it:
#
#     .venv/bin/pytest --mutate --mutate-only=masker-causal
#
# ## What you know now

# %%
for model in ("without windows", "with windows"):
    assert found[model, "both doors guarded"] == 512
assert found["without windows", "full door open"] < 512
assert found["without windows", "sliding door open"] == 512, "this model never uses that door"
assert found["with windows", "sliding door open"] < 512
assert found["with windows", "full door open"] < 512
