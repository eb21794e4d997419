"""What an engine can do when everything comes at once: the whole that a load is a share of."""

from statistics import median

from teachkv.bench import workloads
from teachkv.bench.metrics import duration
from teachkv.bench.record import Record
from teachkv.bench.samples import Sample
from teachkv.errors import OptionError


def samples(record: Record, cell: str) -> list[Sample]:
    """Those that measured the capacity for this cell, whatever its load."""
    # guard[capacity-shared]: with a capacity for each load, 50 % of one was less than a tenth of 80 % of the other
    # mutant[capacity-shared/by-load]:
    #   - name = workloads.at_once(cell)
    #   + name = workloads.at_rate(cell, 0.0)
    name = workloads.at_once(cell)
    return [s for s in record.samples if (s.kind, s.cell) == ("capacity", name) and s.failed is None]


def with_rate(record: Record, cell: str) -> str:
    """The cell's name with the rate that its load comes to: requests per second, the median of the samples, times the
    load. Raises OptionError if there is none."""
    found = [len(sample.served) / duration(sample) for sample in samples(record, cell)]
    rate = median(found) if found else 0.0
    if rate <= 0:
        raise OptionError(f"{cell}: the capacity could not be measured, so there is no share of it")
    return workloads.at_rate(cell, rate * workloads.load_of(cell))
