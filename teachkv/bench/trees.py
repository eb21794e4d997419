"""Where an arm's code comes from: this tree, another commit's worktree, a mutant of either."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from teachkv.bench.arms import Arm
from teachkv.errors import OptionError

HERE = Path(__file__).resolve().parents[2]


class Trees:
    """The trees of a run. Worktrees are made when asked for, and gone when the run ends."""

    def __init__(self, home: Path = HERE) -> None:
        self.home = home
        self.made: dict[str, Path] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> "Trees":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self.made.values():
            git(self.home, "worktree", "remove", "--force", str(path))
        if self._folder is not None:
            self._folder.cleanup()

    def root(self, arm: Arm) -> Path:
        """The folder that holds `teachkv` and `cuda_kernels` for this arm."""
        if arm.commit is None:
            return self.home
        if arm.commit not in self.made:
            prove(self.home, arm)
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="teachkv-trees-")
            path = Path(self._folder.name) / arm.commit[:12]
            git(self.home, "worktree", "add", "--detach", "--quiet", str(path), arm.commit)
            self.made[arm.commit] = path
        return self.made[arm.commit]

    def texts(self, arm: Arm) -> dict[str, str]:
        """Path -> source text of the files that the arm's mutants change. Raises OptionError for an unknown mutant."""
        if not arm.mutants:
            return {}
        from teachkv.mutate.errors import MutateError
        from teachkv.mutate.registry import Registry
        from teachkv.mutate.settings import Settings

        root = self.root(arm)
        registry = Registry.load(Settings(root, (root / "teachkv", root / "cuda_kernels")))
        try:
            rewritten = registry.rewrite(registry.mutant(name) for name in arm.mutants)
        except MutateError as error:
            raise OptionError(f"arm {arm.label!r}: {error}") from error
        return {str(path): text for path, text in rewritten.items()}


def prove(home: Path, arm: Arm) -> int:
    """How many commits lie between the arm's commit and HEAD. Raises OptionError unless it is an ancestor of HEAD."""
    commit = arm.commit or ""
    # guard[ancestry]: two arms that do not share their history differ in more than the change under test
    # mutant[ancestry/not-proven]:
    #   - if not is_ancestor(home, commit):
    #   + if not commit:
    if not is_ancestor(home, commit):
        raise OptionError(f"arm {arm.label!r}: {commit} is no ancestor of HEAD in {home}, so it is no baseline for it")
    return int(git(home, "rev-list", "--count", f"{commit}..HEAD"))


def is_ancestor(home: Path, commit: str) -> bool:
    asked = ["git", "-C", str(home), "merge-base", "--is-ancestor", commit, "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except OSError as error:
        raise OptionError(f"commit arms need git: {error}") from error


def git(home: Path, *words: str) -> str:
    """git's answer. Raises OptionError with its complaint."""
    try:
        done = subprocess.run(["git", "-C", str(home), *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise OptionError(f"git cannot be run: {error}") from error
    if done.returncode != 0:
        raise OptionError(f"git {words[0]} in {home}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def commits(home: Path, arms: Sequence[Arm]) -> dict[str, dict[str, object]]:
    """Label -> commit and its distance from HEAD, for the record and for the eye."""
    return {
        arm.label: {"commit": arm.commit, "commits_to_head": prove(home, arm), "head": git(home, "rev-parse", "HEAD")}
        for arm in arms
        if arm.commit is not None
    }
