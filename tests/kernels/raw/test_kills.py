"""Each guard of a .cu file holds, and each of its mutants is really killed, in the host and the race lane.

Names of tests follow the mutants. The second half applies the cards itself, so that it does not need `--mutate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_kernels.host.module import HostError
from cuda_kernels.raw import source
from teachkv.mutate.place import SourceFile
from tests.kernels.raw.probes import KILLS, RACES

ALL = KILLS | RACES
FILES = sorted([*source.ROOT.glob("*/*.cu"), *source.ROOT.glob("common/*.cuh")])
SEEN_AS_WRONG = (AssertionError, HostError)


def cards() -> Iterator[tuple[str, str, str]]:
    """(mutant, file below cuda_kernels/, whole mutated text)."""
    for path in FILES:
        file = SourceFile.read(path)
        guards = {guard.id: guard for guard in file.cards.guards}
        for mutant in file.cards.mutants:
            yield mutant.id, str(path.relative_to(source.ROOT)), file.rewrite([(mutant, file.locate(mutant, guards))])


MUTANTS = {mutant: (path, text) for mutant, path, text in cards()}


@pytest.mark.parametrize("mutant", [pytest.param(name, marks=pytest.mark.kills(name), id=name) for name in ALL])
def test_the_kernel_as_written_passes(mutant: str) -> None:
    ALL[mutant]()


@pytest.mark.parametrize("mutant", list(MUTANTS))
def test_the_mutant_is_killed(mutant: str) -> None:
    path, text = MUTANTS[mutant]
    source.override(path, text)
    try:
        with pytest.raises(SEEN_AS_WRONG):
            ALL[mutant]()
    finally:
        source.override(path, None)


def test_every_card_has_a_probe_and_every_probe_a_card() -> None:
    assert set(ALL) == set(MUTANTS)


def test_a_mutant_from_the_environment_is_served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in = tmp_path / "text.cu"
    stand_in.write_text("// other")
    monkeypatch.setenv(source.OVERRIDE, f"embed/raw_kernel.cu={stand_in}")
    assert source.read("embed/raw_kernel.cu") == "// other"
    assert source.read("common/reduce.cuh") != "// other"
