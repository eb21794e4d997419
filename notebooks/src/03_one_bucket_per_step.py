# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 3. One bucket per step
#
# **The question.** A server has 128 seats, 128 requests sit in them, and memory to spare. Its log says "16 running, 112
# waiting", throughout. Why?

# %%
from lesson import card, red_run, without
from pictures import Drawing

from teachkv.schedule import Scheduler
from teachkv.schedule.report import spread
from teachkv.schedule.simulate import simulate
from teachkv.schedule.timeline import timeline

# %% [markdown]
# ## See it happen
#
# A scheduler alone, with a fake model: 16 prompts of each length 64, 128 ... 512, 64 tokens out. *Running* are those in
# the step's plan; *waiting* are all others, whether or not they hold memory.


# %%
arms = {"bucketed": {}, "ragged": {"coalesce": False}, "packed": {"max_num_batched_tokens": 2048}}
runs = {policy: simulate(Scheduler(policy, max_num_seqs=128, **options), spread()) for policy, options in arms.items()}
TITLE = "128 requests of eight lengths: blue runs, orange waits"
Drawing(TITLE, timeline(TITLE, list(runs.items()), 520))

# %%
for policy, run in runs.items():
    later = run.steps[12]
    print(
        f"{policy:9} {len(run.steps):4} steps; in step 12: {later.plan.running:3} running, {later.plan.waiting:3} waiting"
    )

# %% [markdown]
# `bucketed` puts only sequences of *equal* length into one step. Eight lengths make eight buckets, and one bucket runs
# per step: 16 of 128. The others are not short of memory or of compute; they are short of company of their own length.
# Prompts 64 apart never meet within 64 tokens.
#
# ## The guard that prevents it
#
# The `ragged` policy gives all decoders one key, whatever their lengths. One line decides it:

# %%
card("key/decode-not-pinned")

# %% [markdown]
# ## Take the guard away and look


# %%
def most_running(policy, options):
    from teachkv.schedule import Scheduler
    from teachkv.schedule.report import spread
    from teachkv.schedule.simulate import simulate

    run = simulate(Scheduler(policy, max_num_seqs=128, **options), spread())
    return [run.run_max, len(run.steps)]


kept = most_running("ragged", {"coalesce": False})
broken = without("key/decode-not-pinned", most_running, "ragged", {"coalesce": False})
print(f"with the key: at most {kept[0]} at once, {kept[1]} steps; without: {broken[0]}, {broken[1]} steps")

# %% [markdown]
# The engine still answers every request correctly. Nothing fails; it is only slow, which is why the test counts running
# sequences and not answers.

# %%
said = red_run("key/decode-not-pinned", "share_a_step")

# %% [markdown]
# ## Exercise
#
# The opposite mistake is to give *prompts* one key too, though prompts of one step must be equally long here. Which test
# sees it?
#
#     .venv/bin/pytest --mutate --mutate-only=key/prompt
#
# ## What you know now

# %%
bucketed = runs["bucketed"]
assert {(s.plan.running, s.plan.waiting) for s in bucketed.steps[:400]} == {(16, 112)}
assert runs["ragged"].run_max == runs["packed"].run_max == 128
assert kept[0] == 128
assert broken[0] < 128
