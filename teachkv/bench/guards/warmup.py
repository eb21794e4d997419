"""Was the cell alone with requests of its own kind?"""

from teachkv.bench.cells import Cell
from teachkv.bench.guards.answer import Answer, held, refused
from teachkv.bench.samples import Sample


def probe_purity(sample: Sample, cell: Cell) -> Answer:
    """Warm-up and drain looked like the cell, produced their tokens, and had left when the cell began."""
    # guard[probe-purity]: a drain probe of 40 tokens made a "uniform" control ragged, which was the thing under test
    # mutant[probe-purity/any-shape]:
    #   - foreign = [one for one in sample.probes if (one.prompt, one.out) not in cell.shapes]
    #   + foreign = []
    foreign = [one for one in sample.probes if (one.prompt, one.out) not in cell.shapes]
    if foreign:
        one = foreign[0]
        told = f"a request of {one.prompt} prompt and {one.out} output tokens went before it; the cell has none such"
        return refused("probe purity", told + ragged(sample, cell))
    # guard[warmed-up]: failures are fast, so a dead engine passes a warm-up that counts requests sent
    # origin: NethermindEth/nethermind#12949
    # mutant[warmed-up/counts-requests]:
    #   - cold = [one for one in sample.probes if len(one.times) != one.out]
    #   + cold = [one for one in sample.probes if not one.success]
    cold = [one for one in sample.probes if len(one.times) != one.out]
    if cold:
        got = sum(len(one.times) for one in sample.probes)
        return refused("probe purity", f"the warm-up produced {got} of {sum(one.out for one in sample.probes)} tokens")
    # guard[idle-start]: what still runs from before is measured as the cell's own
    # mutant[idle-start/not-asked]:
    #   - if not sample.idle:
    #   + if sample.failed:
    if not sample.idle:
        return refused("probe purity", "the engine was not idle when the cell began" + ragged(sample, cell))
    return held("probe purity", f"{len(sample.probes)} warm-up requests of the cell's shape")


def ragged(sample: Sample, cell: Cell) -> str:
    """Says so if a cell of one shape was decoded with rows of different lengths."""
    steps = sum(step.ragged for step in sample.steps)
    return f"; {steps} decode steps of a uniform cell were ragged" if len(cell.shapes) == 1 and steps else ""
