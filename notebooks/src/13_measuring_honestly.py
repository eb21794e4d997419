# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 13. Measuring honestly
#
# **The question.** A benchmark says: 12 % faster, no errors, exit code 0. What must have been true for that sentence to
# mean anything?
#
# Each way to be wrong below has happened to somebody. For each of them the harness has a guard that does not warn but
# **refuses**: no figure is printed.

# %%
from bench_example import CELL, held, outputs, whole
from lesson import card, red_run, without

from teachkv.bench import guards
from teachkv.bench.arms import parse_arm

# %% [markdown]
# ## See it happen: four refusals
#
# **1. Tokens that never came.** Eight requests of 64 tokens. Nobody reports an error; the engine just stopped early, as
# in the seed document: 433 of 512.

# %%
fine = whole()
short = whole(outs=[64, 64, 64, 64, 64, 64, 40, 9])
print(guards.completeness(fine, CELL))
print(guards.completeness(short, CELL))

# %% [markdown]
# **2. The code that did not run.** The arm claims the ragged policy. What did the engine itself say?

# %%
arm = parse_arm("ragged: policy=ragged backend=reference")
for policy in ("ragged", "bucketed"):
    print(guards.path_gate(whole(policy=policy), arm))

# %% [markdown]
# **3. Eight equal answers.** "8/8 identical" proves nothing if all eight prompts have the same answer.

# %%
print(guards.identity(outputs(distinct=8), outputs(distinct=8)))
print(guards.identity(outputs(distinct=1), outputs(distinct=1)))

# %% [markdown]
# **4. Noise told as gain.** Six rounds; the arm is 4 % faster. But the base arm, run twice in the same call, differs from
# itself by 5 %.

# %%
base, arm_speed = [100, 101, 99, 100, 102, 98], [104, 105, 103, 104, 106, 102]
quiet = [(100, 100.5), (101, 100.2), (99, 99.4), (100, 100.1), (102, 101.5), (98, 98.3)]
noisy = [(100, 105), (101, 98), (99, 102), (100, 96), (102, 104), (98, 100)]
for null in (quiet, noisy, []):
    print(guards.claim(base, arm_speed, null, ladder=False))

# %% [markdown]
# ## The guard that prevents the first one

# %%
card("completeness/not-checked")

# %% [markdown]
# ## Take the guard away and look


# %%
def judged(outs):
    from bench_example import CELL, whole

    from teachkv.bench import guards

    return str(guards.completeness(whole(outs=outs), CELL))


SHORT = [64, 64, 64, 64, 64, 64, 40, 9]
kept, broken = judged(SHORT), without("completeness/not-checked", judged, SHORT)
print("with the guard:   ", kept)
print("without the guard:", broken)

# %% [markdown]
# "Held", with the missing tokens in plain sight. A number that nobody compares protects nobody.

# %%
said = red_run("completeness/not-checked")

# %% [markdown]
# ## Exercise
#
# What does the harness say of two arms whose totals agree while one request came back too long and one too short?
#
#     .venv/bin/pytest --mutate --mutate-only=completeness
#
# ## What you know now

# %%
assert held(guards.completeness(fine, CELL))
assert "REFUSED: 433 of 512" in kept
assert guards.path_gate(whole(policy="bucketed"), arm).failed
assert guards.identity(outputs(distinct=1), outputs(distinct=1)).status == "cannot-answer"
assert guards.claim(base, arm_speed, quiet, ladder=False).status == "resolved"
assert guards.claim(base, arm_speed, noisy, ladder=False).status == "unresolved"
assert guards.claim(base, arm_speed, [], ladder=False).status == "refused", "without A against A nobody knows"
assert broken.startswith("completeness: held")
