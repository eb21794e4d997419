"""Arms on other commits: literal, proven, in a worktree that is gone afterwards."""

import subprocess
from pathlib import Path

import pytest

from teachkv.bench.arms import parse_arm
from teachkv.bench.machine import tree
from teachkv.bench.sources import packages_hash
from teachkv.bench.trees import HERE, Trees, commits, git
from teachkv.errors import OptionError

NOBODY = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]


def commit(home: Path, text: str) -> str:
    (home / "teachkv").mkdir(exist_ok=True)
    (home / "teachkv" / "engine.py").write_text(text)
    subprocess.run(["git", "-C", str(home), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(home), *NOBODY, "commit", "-qm", text.strip()], check=True)
    return git(home, "rev-parse", "HEAD")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path / "home")], check=True)
    return tmp_path / "home"


def test_a_commit_arm_runs_that_commits_files_and_leaves_nothing_behind(home: Path) -> None:
    old = commit(home, "a = 1\n")
    commit(home, "a = 2\n")
    arm = parse_arm(f"old: commit:{old} policy=ragged")
    assert arm.claims["policy"] == "ragged"
    with Trees(home) as trees:
        place = trees.root(arm)
        assert (place / "teachkv" / "engine.py").read_text() == "a = 1\n"
        assert trees.root(arm) == place
        assert trees.root(parse_arm("ragged")) == home
        assert packages_hash(place) != packages_hash(home)
    assert not place.exists()
    assert git(home, "worktree", "list").count("\n") == 0


def test_the_distance_to_head_is_counted(home: Path) -> None:
    old = commit(home, "a = 1\n")
    for number in range(3):
        head = commit(home, f"b = {number}\n")
    found = commits(home, [parse_arm(f"old: commit:{old}"), parse_arm("ragged")])
    assert found == {"old": {"commit": old, "commits_to_head": 3, "head": head}}


@pytest.mark.kills("ancestry/not-proven")
def test_a_commit_off_the_path_to_head_is_refused(home: Path) -> None:
    commit(home, "a = 1\n")
    subprocess.run(["git", "-C", str(home), "checkout", "-qb", "side"], check=True)
    side = commit(home, "side = 1\n")
    subprocess.run(["git", "-C", str(home), "checkout", "-q", "main"], check=True)
    commit(home, "a = 2\n")
    with pytest.raises(OptionError, match="no ancestor of HEAD"):
        commits(home, [parse_arm(f"old: commit:{side}")])


def test_the_fingerprint_tells_a_changed_tree_from_a_clean_one(home: Path) -> None:
    head = commit(home, "a = 1\n")
    clean = tree(home)
    assert (clean["commit"], clean["dirty"]) == (head, None)
    (home / "teachkv" / "engine.py").write_text("a = 3\n")
    changed = tree(home)
    assert changed["dirty"] is not None
    assert changed["sources"] != clean["sources"]
    (home / "teachkv" / "engine.py").write_text("a = 1\n")
    assert tree(home) == clean


def test_a_tree_without_git_is_named_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "teachkv").mkdir()
    (tmp_path / "teachkv" / "x.py").write_text("1\n")
    found = tree(tmp_path)
    assert found["commit"] is None
    assert len(found["sources"]) == 64


def test_mutants_are_laid_over_by_name_and_unknown_ones_named() -> None:
    with Trees() as trees:
        texts = trees.texts(parse_arm("m: policy=ragged mutant=masker/none-at-one-query"))
        ((path, text),) = texts.items()
        assert path == str(HERE / "teachkv" / "masks.py")
        assert text != Path(path).read_text()
        with pytest.raises(OptionError, match="unknown mutant 'masker/no-such'"):
            trees.texts(parse_arm("m: mutant=masker/no-such"))
