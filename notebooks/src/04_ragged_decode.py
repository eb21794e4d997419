# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 4. Ragged decode
#
# **The question.** Three answers are being written at once. One has 8 tokens so far, one has 3, one has 6. A batch is a
# rectangle. How can they share one step, and what lies in the corner that is left over?
#
# The *glass model* makes the answer visible. Its weights are made by hand so that every query looks at all keys it can
# see with equal weight. Its logits then count what was seen: `a: 2` means the letter *a* was seen twice.

# %%
from lesson import card, red_run, without
from pictures import rows_picture
from room import Room, counted

from teachkv.observe.widget import step_player

PROMPTS = {0: "abcabcx", 1: "ax", 2: "aaaax"}

# %% [markdown]
# ## See it happen
#
# Each prompt is computed by itself, then all three decode one token (a dot) in one step.

# %%
room = Room()
room.prefill(PROMPTS)
logits = room.decode(dict.fromkeys(PROMPTS, "."))
for row, answer in logits.items():
    print(f"row {row} = {PROMPTS[row] + '.':9} saw {counted(answer, once='x')}")

# %%
step_player(room.log)

# %% [markdown]
# Go one step on (the button ▶| or the right arrow key). Every row now **ends** at the same column, so one column takes
# the next token of all of them. The short rows begin later: the grey columns before them are the *dead prefix*, and its length is the row's `lead_pad`. A column is not a
# position: position = column - `lead_pad`, and that is what the rotary embedding was given.
#
# Below the columns stands the attention weight of the new token.


# %%
def picture(title, log, seen):
    """`seen[row]`: the counts of that row; every key counted, live or not, took the same weight."""
    rows = []
    for row in log[-1].rows:
        cells, pad, counts = PROMPTS[row.id] + ".", row.lead_pad, seen[row.id]
        weight = 1 / sum(counts.values())
        rows.append(
            (f"row {row.id}", pad, cells, [weight if counts.get("nothing") else 0.0] * pad + [weight] * len(cells))
        )
    return rows_picture(title, rows)


kept = {row: counted(answer, once="x") for row, answer in logits.items()}
picture("with the guard: the dead prefix takes no weight", room.log, kept)

# %% [markdown]
# ## The guard that prevents the fault
#
# A dead column holds zeros. A zero key is **not** a masked key: its score is 0, and `exp(0) = 1`, so softmax gives it
# weight like any other. It must be left out by name. For one new token the masker is tempted to answer "no mask, one
# query sees everything". That was right until rows of different length met in one batch.

# %%
card("masker/none-at-one-query")

# %% [markdown]
# ## Take the guard away and look
#
# The next cell runs the same step in a fresh interpreter whose masker carries this mutant.


# %%
def decode_once(prompts):
    from room import Room, counted

    room = Room()
    room.prefill(dict(enumerate(prompts)))
    logits = room.decode(dict.fromkeys(range(len(prompts)), "."))
    return [counted(row, once="x") for row in logits.values()]


broken = dict(enumerate(without("masker/none-at-one-query", decode_once, list(PROMPTS.values()))))
for row, counts in broken.items():
    print(f"row {row} saw {counts}")
picture("without it: nothing takes weight (red)", room.log, broken)

# %% [markdown]
# No error, no warning: row 1 loses more than half of its attention to columns that hold nothing, and its next token is
# drawn from that. The longest row is right, so a test with one row, or with equal rows, sees nothing.
#
# This is the test that does:

# %%
said = red_run("masker/none-at-one-query", "counts_no_dead_column")

# %% [markdown]
# ## Exercise
#
# Run this, and read which test notices a masker that drops the pad where a *window* is in force:
#
#     .venv/bin/pytest --mutate --mutate-only=masker-window
#
# ## What you know now

# %%
for row, text in PROMPTS.items():
    assert kept[row] == {c: (text + ".").count(c) for c in text + "."}, row
assert broken[0] == kept[0], "the longest row has no dead prefix and shows nothing"
assert broken[1]["nothing"] == 5
assert broken[2]["nothing"] == 2
