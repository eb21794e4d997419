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
from itertools import pairwise

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
# Steps are not seconds: a step takes the longer, the more tokens it computes. So the price is counted in tokens, and those
# who pay it are the requests that came first. How much is computed until the first answer is complete, and how much at
# most between two tokens of one answer?


# %%
def prices(run):
    """(tokens computed until the first answer ends, most tokens computed between two tokens of one answer)."""
    computed = [0]
    for step in run.steps:
        computed.append(computed[-1] + step.plan.tokens)
    first = min(life.tokens[-1] for life in run.lives.values())
    pauses = [computed[b + 1] - computed[a + 1] for life in run.lives.values() for a, b in pairwise(life.tokens)]
    return computed[first + 1], max(pauses)


until_first, pause = ({name: prices(run)[i] for name, run in runs.items()} for i in range(2))
bars_picture("tokens computed until the first answer is complete", list(until_first.items()))

# %%
bars_picture("tokens computed in the longest pause within an answer", list(pause.items()))

# %% [markdown]
# - a **floor** forces a prompt in after so many steps without one. Newcomers wait less; the first answer takes more than
#   twice the work, since others' prompts come in between;
# - a **cap** limits how many come in together: each pause is half as long, and there are twice as many;
# - a **budget** (`packed`) puts decoders and a piece of a prompt into the *same* step: an answer never stands still, and
#   no step is larger than the budget and the decoders together.
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
#     .venv/bin/pytest --mutate --mutate-only=ageing
#
# ## What you know now

# %%
assert kept <= 20 + 8 + 1, "patience, plus the seats of others who have waited as long"
assert broken > 500, "it starves as long as newcomers come"
waits = {name: run.waits[-1] for name, run in runs.items()}
assert waits["floor 4: one prompt step in five"] < waits["floor 16"] < waits["no cure"]
assert pause["packed: budget of 512 prompt tokens"] <= 512 + 128
assert pause["floor 4, at most 8 prompts at once"] < 0.6 * pause["floor 4: one prompt step in five"]
assert until_first["floor 4: one prompt step in five"] > 2 * until_first["no cure"], "newcomers gain, the first pay"
