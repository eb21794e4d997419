# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 1. One token by hand
#
# **The question.** Between a list of token numbers and the next token lie some dozens of array operations. Which ones, in
# which order, and how do you find the one that is wrong?
#
# You compare with a *twin*: the same pass, written as slowly and obviously as possible, from the formula alone. Two
# passes that share no code and agree at **every** operation are hard to get wrong in the same way.

# %%
import numpy as np
from lesson import card, red_run, without
from one_token import Recorder, played, twin_pass

from teachkv.checkpoint.builtin import tiny
from teachkv.observe.scenes import Scene
from teachkv.observe.widget import step_player

TEXT = [72, 101, 108, 108, 111]  # "Hello" in the byte tokenizer

# %% [markdown]
# ## See it happen
#
# The recorder stands between the model and its operations and keeps what each one gave back. The model is `tiny`: 4
# layers, 64 wide, 4 query heads that share 2 KV heads.

# %%
recorder = Recorder(tiny())
logits = recorder.run(TEXT)
for number, step in enumerate(recorder.steps[:14]):
    print(f"{number:2}  {step.op:18} {step.name:22} {step.output.shape}")
print(f"... {len(recorder.steps)} operations in all; the next token is {int(logits[-1].argmax())}")

# %% [markdown]
# ## Against the twin
#
# For every operation: the largest difference from the twin's tensor of the same name.


# %% tags=["varies"]
def differences(recorder, text):
    twin = twin_pass(recorder.loaded, text)
    return [
        (step.name, float(np.abs(step.output - twin[step.name]).max())) for step in recorder.steps if step.name in twin
    ]


found = differences(recorder, TEXT)
for name, worst in found[:13]:
    print(f"{name:22} {worst:.1e}")
print(f"worst of {len(found)}: {max(worst for _, worst in found):.1e}")

# %% [markdown]
# Rounding only: float32 here, float64 in the twin. Step through the pass: the result of each operation, one line per
# token, and beside it how far it lies from the twin.

# %% tags=["varies"]
step_player(played(TEXT))

# %% [markdown]
# The recorder kept the inputs too, so any line that you doubt can be run again by itself:

# %%
step = recorder.find("layer 0 attention norm")
again = recorder.ops.rms_norm(*step.inputs)
print("the same bits again:", bool((again == step.output).all()))

# %% [markdown]
# ## A guard, and what it looks like from here
#
# Query and key turn by the angle of their position, each **once**. A query that is turned twice keeps its shape and its
# length: no operation fails, and the pass still ends in a token.

# %%
card("same-angle/queries-twice")

# %% [markdown]
# ## Take the guard away and look
#
# The first operation that differs is where to look; everything after it is a consequence.


# %%
def first_difference(text):
    import numpy as np
    from one_token import Recorder, twin_pass

    from teachkv.checkpoint.builtin import tiny

    recorder = Recorder(tiny())
    recorder.run(text)
    twin = twin_pass(recorder.loaded, text)
    named = [step for step in recorder.steps if step.name in twin]
    off = [step.name for step in named if np.abs(step.output - twin[step.name]).max() > 1e-3]
    return [off[0] if off else None, len(off), len(named)]


kept, broken = first_difference(TEXT), without("same-angle/queries-twice", first_difference, TEXT)
for name, (first, off, of) in (("with the guard", kept), ("without it", broken)):
    print(f"{name:14} {off:2} of {of} operations differ; the first: {first}")

# %% [markdown]
# The same player on the pass without the guard. Go to the first red bar: its inputs still agree, its result does not.


# %% tags=["varies"]
def broken_pass(text):
    from one_token import played

    scene = played(text)
    return [scene.data, scene.lines]


step_player(Scene(*without("same-angle/queries-twice", broken_pass, TEXT)))

# %%
said = red_run("same-angle/queries-twice", "test_rope")

# %% [markdown]
# ## Exercise
#
# The last line of the pass takes logits at each row's own last token. What if it took the last rows instead?
#
#     .venv/bin/pytest --mutate --mutate-only=last-token
#
# ## What you know now

# %%
assert max(worst for _, worst in found) < 1e-4, "every operation agrees with the twin"
assert len(found) >= 4 * 9
assert np.array_equal(again, step.output)
assert kept[:2] == [None, 0]
assert broken[0] == "layer 0 attention", "the twin names the operation, not the symptom"
