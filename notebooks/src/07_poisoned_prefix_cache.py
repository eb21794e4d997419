# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 7. The answer that outlives its request
#
# **The question.** A request is answered, correctly, and gone. An hour later another request gets a wrong answer because
# of it. How?
#
# In a ragged batch a short row begins with dead columns. Cutting them off after every step would cost a copy per row and
# token, so it waits until somebody needs the row: stripping is *deferred*. For a request that has ended, "somebody" is
# the prefix cache. It keeps the rows for the next prompt that begins alike.

# %%
from lesson import card, red_run, without

# %% [markdown]
# ## See it happen
#
# With the glass model, so that we can count. Two requests decode together: one with a prompt of 16 tokens, one with 12,
# hence a lead pad of 4. The short one reads twelve *b*, writes forty-nine *d*, and ends. Then its user comes back: same
# text, plus *e* and a dot. What does the dot see?


# %%
def conversation():
    import numpy as np
    from room import counted, ids

    from teachkv import LLM, SamplingParams

    def always(letter, n):
        bias = {ids(letter)[0]: 100.0}
        return SamplingParams(temperature=0, max_tokens=n, logit_bias=bias, logprobs=-1, logprobs_mode="raw_logits")

    with LLM("glass", batch_cache="rebuild", seed=0, trace=True, poison=False) as llm:
        answers = llm.generate([ids("a" * 16), ids("b" * 12)], [always("c", 60), always("d", 49)])
        again = [*ids("b" * 12), *answers[1].outputs[0].token_ids, *ids("e.")]
        (answer,) = llm.generate([again], always("f", 1))
        logits = np.zeros(64)
        for token, entry in answer.outputs[0].logprobs[0].items():
            logits[token] = entry.logprob
        events = [event for record in llm.trace.records for event in record.events]
    told = [event for event in events if event.startswith(("prefix-hit", "store-refused"))]
    return {"seen": counted(logits, once="e"), "told": told}


kept = conversation()
print(kept["told"], kept["seen"], sep="\n")

# %% [markdown]
# Forty-eight tokens came out of the cache (blocks of sixteen), and the dot sees 12 b, 49 d, one e and itself.
#
# ## The guard that prevents the fault
#
# Two guards stand behind one another. The reader strips the dead prefix when it reads the rows:

# %%
card("reader-strip/removed")

# %% [markdown]
# ... and the cache counts what it is given before it keeps it:

# %%
card("prefix-strip/removed")

# %% [markdown]
# ## Take the guard away and look
#
# First the reader's strip alone. The second guard catches it, with the very numbers of the report that the
# guard comes from: 64 rows offered where 60 are real. Nothing wrong is stored; only the hit is shorter.

# %%
first_only = without("reader-strip/removed", conversation)
print(first_only["told"], first_only["seen"], sep="\n")

# %% [markdown]
# Now both:

# %%
poisoned = without(["reader-strip/removed", "prefix-strip/removed"], conversation)
print(poisoned["told"], poisoned["seen"], sep="\n")

# %% [markdown]
# Four columns of nothing are in the cache as if they were the start of the text, and four real tokens fell off the end.
# They will answer every later prompt that begins this way, with no error, until the entry is evicted. The request that
# did it had a perfect answer.

# %%
said = red_run("prefix-strip/removed")

# %% [markdown]
# ## Exercise
#
# The cache has a second way to be wrong here: to see the fault and store all the same. Find the mutant and its test:
#
#     .venv/bin/pytest --mutate --mutate-only=prefix-strip
#
# ## What you know now

# %%
assert kept["told"] == ["prefix-hit id=2 tokens=48"]
assert kept["seen"] == first_only["seen"] == {"b": 12, "d": 49, "e": 1, ".": 1}
assert any("[64] rows where 60 are real" in event for event in first_only["told"])
assert poisoned["seen"]["nothing"] == 4, "the dead prefix outlived its request"
assert poisoned["seen"]["d"] == 49 - 4
