# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10. Starvation
#
# **The question.** A scheduler always takes the choice that is best for throughput. Can a request wait for ever? And what
# does each cure cost?

# %%
from lesson import card, red_run, without
from pictures import bars_picture

from teachkv.schedule import Scheduler
from teachkv.schedule.report import spread
from teachkv.schedule.simulate import simulate

# %% [markdown]
# ## See it happen
#
# Decoders that run are worth much: many tokens per step. A new prompt stops all of them for one long step. So the
# `ragged` policy tends to let decoders run on. 128 requests of eight lengths; how long does the last one wait for its
# first token?

# %%
arms = {
    "no cure": {},
    "floor 4: one prompt step in five": {"prefill_floor_steps": 4},
    "floor 16": {"prefill_floor_steps": 16},
    "floor 4, at most 8 prompts at once": {"prefill_floor_steps": 4, "prefill_max_seqs": 8},
}
runs = {name: simulate(Scheduler("ragged", max_num_seqs=128, **options), spread()) for name, options in arms.items()}
runs["packed: budget of 512 prompt tokens"] = simulate(
    Scheduler("packed", max_num_seqs=128, max_num_batched_tokens=512), spread()
)
bars_picture("worst wait for a first token, in steps", [(name, run.waits[-1]) for name, run in runs.items()])

# %% [markdown]
# Steps are not seconds. The price of each cure is the largest step, during which nobody gets a token:

# %%
largest = {name: max(step.plan.tokens for step in run.steps) for name, run in runs.items()}
bars_picture("largest step, in tokens", list(largest.items()))

# %% [markdown]
# - a **floor** forces a prompt in after so many steps without one;
# - a **cap** limits how many come in together, so the step is shorter and admission slower;
# - a **budget** (`packed`) puts decoders and a piece of a prompt into the *same* step: nobody is held up by the choice.
#
# ## The guard that prevents it
#
# A floor bounds prompts. The last line of defence bounds everybody: who has had a seat for `patience_steps` steps without
# running goes first, whatever it costs.

# %%
card("overdue/removed")

# %% [markdown]
# ## Take the guard away and look
#
# One request of 100 tokens, and in every step a newcomer of five that leaves at once. Shortest first is the best choice
# every single time.


# %%
def wait_of_the_long_one():
    from teachkv.schedule import Scheduler
    from teachkv.schedule.simulate import Job, simulate

    newcomers = [Job(i, 5, 1, at=i - 1) for i in range(1, 601)]
    run = simulate(Scheduler("bucketed", max_num_seqs=8, patience_steps=20), [Job(0, 100, 20), *newcomers])
    return run.lives[0].wait


kept, broken = wait_of_the_long_one(), without("overdue/removed", wait_of_the_long_one)
print(f"the long request waits {kept} steps with the guard, {broken} without; newcomers come for 600")

# %%
said = red_run("overdue/removed", "cannot_outrun")

# %% [markdown]
# ## Exercise
#
# Ageing is the gentler cure: a bucket that keeps losing gains weight. Who notices when it is gone?
#
#     pytest --mutate --mutate-only=ageing
#
# ## What you know now

# %%
assert kept <= 20 + 8 + 1, "patience, plus the seats of others who have waited as long"
assert broken > 500, "it starves as long as newcomers come"
waits = {name: run.waits[-1] for name, run in runs.items()}
assert waits["floor 4: one prompt step in five"] < waits["floor 16"] < waits["no cure"]
assert largest["packed: budget of 512 prompt tokens"] < largest["floor 4: one prompt step in five"] / 4
