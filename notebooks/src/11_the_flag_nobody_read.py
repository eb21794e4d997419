# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11. The flag nobody read
#
# **The question.** A model's config says `"sliding_window": 4096`. Does the model slide?
#
# It depends: on a second key, on a third one, and on the family. Published configs carry the number with the flag set to
# false. Whoever reads the number alone gives the model a window that it was never trained with, and short prompts show
# nothing.

# %%
from collections import Counter

from lesson import card, red_run, without

# %% [markdown]
# ## See it happen
#
# One config, with the flag on, off, and absent, and with the threshold moved. What is in effect, layer by layer:


# %%
def windows(changes):
    from teachkv.checkpoint.builtin import TINY_CONFIG
    from teachkv.config import ModelConfig

    config = ModelConfig.from_dict({**TINY_CONFIG, "sliding_window": 4, **changes}, source="a config")
    return [list(config.windows), [note for note in config.notes if "window" in note]]


CASES = {
    "flag false": {"use_sliding_window": False, "max_window_layers": 2},
    "flag absent": {"max_window_layers": 2},
    "flag true, from layer 2 on": {"use_sliding_window": True, "max_window_layers": 2},
    "flag true, no threshold": {"use_sliding_window": True},
}
for name, changes in CASES.items():
    layers, notes = windows(changes)
    print(f"{name:28} {layers}   {'; '.join(notes)}")

# %% [markdown]
# The engine computes this **once**, when the config is read, to one value per layer, and says in words why. Nothing else
# reads a window key. `teachkv inspect` prints the same lines.
#
# ## The guard that prevents the fault

# %%
card("window-flag/removed")

# %%
card("window-threshold/other-side")

# %% [markdown]
# ## Take the guard away and look

# %%
flagless = without("window-flag/removed", windows, CASES["flag false"])
swapped = without("window-threshold/other-side", windows, CASES["flag true, from layer 2 on"])
print("flag not read:       ", flagless[0])
print("threshold turned over:", swapped[0])

# %% [markdown]
# What does a window do to an answer? The glass model counts. Nine letters and a dot; a layer with a window of 4 sees the
# last four keys, its own among them.


# %%
def seen(window):
    from room import Room, counted

    from teachkv.checkpoint.glass import glass

    room = Room(glass(1, windows=[window]))
    return counted(room.prefill({0: "abcabcaab."})[0])


print("no window:  ", seen(None))
print("window of 4:", seen(4))
print("with the window one too wide:", without("window-keys/one-too-wide", seen, 4))

# %%
said = red_run("window-flag/removed")

# %% [markdown]
# ## Exercise
#
# A list of layer types may contradict all of this. What happens then is written down, and guarded:
#
#     .venv/bin/pytest --mutate --mutate-only="window-threshold or layer-types"
#
# ## What you know now

# %%
assert windows(CASES["flag false"])[0] == [None] * 4
assert windows(CASES["flag absent"])[0] == [None] * 4
assert windows(CASES["flag true, from layer 2 on"])[0] == [None, None, 4, 4], "layers at and above the threshold slide"
assert windows(CASES["flag true, no threshold"])[0] == [None] * 4, "the default threshold lies above these four layers"
assert flagless[0] == [None, None, 4, 4]
assert swapped[0] == [4, 4, None, None]
assert seen(None) == dict(Counter("abcabcaab."))
assert seen(4) == dict(Counter("aab."))
