# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 14. Your first mutant
#
# **The question.** All tests are green and every line is covered. How do you know that a test would notice if somebody
# took one check out?
#
# You take it out and run the tests. `pytest --mutate` does this for every *card*: a small edit, declared beside the code
# it changes, with a name. If some test goes red, the mutant is *killed*. If none does, it *survived*, and you have found
# a hole.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

# %% [markdown]
# ## See it happen
#
# A project of two files, in a folder of its own. It splits a prompt into chunks of at most `budget` tokens. One guard,
# two cards, one test.

# %%
folder = Path(tempfile.mkdtemp())
(folder / "pyproject.toml").write_text('[tool.teachkv-mutate]\npackages = ["shop"]\n')
(folder / "shop").mkdir()
(folder / "shop" / "__init__.py").write_text("")
(folder / "shop" / "chunks.py").write_text('''\
def chunks(length, budget):
    """Cut `length` tokens into (start, count) pairs of at most `budget`."""
    found, start = [], 0
    while start < length:
        # guard[budget]: a step that computes more than its budget makes everybody wait
        # mutant[budget/ignored]:
        #   - count = min(budget, length - start)
        #   + count = length - start
        # mutant[budget/last-too-long]:
        #   - count = min(budget, length - start)
        #   + count = budget
        count = min(budget, length - start)
        found.append((start, count))
        start += count
    return found
''')
TEST = """\
import pytest
from shop.chunks import chunks


@pytest.mark.kills("budget/ignored", "budget/last-too-long")
def test_everything_is_cut():
    assert [start for start, _ in chunks(8, 4)] == [0, 4]
"""
(folder / "test_chunks.py").write_text(TEST)


def pytest_in_folder(*options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout


code, said = pytest_in_folder()
print(said.splitlines()[-1].split(" in ")[0])

# %% [markdown]
# Green. (One is the test; the others look at each file of the package for cards that no longer fit it.) Now with each
# mutant in turn:


# %%
def verdicts(said):
    return [line.split(" seconds")[0] for line in said.splitlines() if line.startswith(("  budget/", "      "))]


code, said = pytest_in_folder("--mutate")
first = code
print(*verdicts(said), sep="\n")

# %% [markdown]
# `budget/ignored` was killed: the whole prompt came as one piece, and the test noticed. `budget/last-too-long` survived,
# **although the test claims to kill it**; a claim that does not hold is a failure of its own.
#
# ## The guard, without and with a witness
#
# The survivor asks for more tokens than are left. With 8 tokens and pieces of 4 the last piece is exactly full, so right
# and wrong give the same answer: the test never visits the case that the guard is for. And it looks at the starts only.
#
# ## Take the guard away and look
#
# `--mutate-with` runs plain pytest under one mutant; `--pdb` works too. A test for the missing case, run like that:

# %%
(folder / "test_chunks.py").write_text(
    TEST
    + """

@pytest.mark.kills("budget/last-too-long")
def test_the_last_piece_ends_where_the_prompt_ends():
    assert chunks(10, 4) == [(0, 4), (4, 4), (8, 2)]
"""
)
under, said = pytest_in_folder("--mutate-with=budget/last-too-long", "--tb=short")
print(*(line for line in said.splitlines() if line.startswith("E  ")), sep="\n")

# %% [markdown]
# Red under the mutant. The first test gives up its false claim, and all is well:

# %%
text = (folder / "test_chunks.py").read_text()
(folder / "test_chunks.py").write_text(text.replace('"budget/ignored", "budget/last-too-long"', '"budget/ignored"'))
code, said = pytest_in_folder("--mutate")
print(*verdicts(said), sep="\n")

# %% [markdown]
# A good killer has a number in it that nobody would compute by accident, and it asserts the whole answer.
#
# ## Exercise
#
# The engine has some hundreds of such mutants. Pick one, look at it, and see it killed:
#
#     .venv/bin/pytest --mutate-show=prefix-leaves-one/removed
#     .venv/bin/pytest --mutate --mutate-only=prefix-leaves-one
#
# ## What you know now

# %%
assert first == 6, "survivors and false claims have an exit code of their own"
assert under == 1, "red under the mutant"
assert code == 0, "every card holds"
