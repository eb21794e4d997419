"""The prefix cache's twin: one list of whole sequences, scanned from end to end. Slow, and plainly right.

A record is the whole beginning of a sequence up to the end of one block, with the rows of that last block. Nothing is
hashed and nothing is linked: every question is answered by comparing tokens with every record.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from teachkv.errors import PrefixCacheError
from teachkv.prefix.block import Hit, LayerRows, LiveRows, ReadRows, bytes_between, cut, keeps_all, require_live
from teachkv.prefix.cache import PrefixStats, check_coverage, check_options
from teachkv.prefix.keys import NO_TAGS, Tags


@dataclass(eq=False, slots=True)
class Record:
    """`tokens` from position 0 on; `layers` are the rows of the last block of them. `used` orders evictions."""

    context: tuple[bytes, Tags]
    tokens: tuple[int, ...]
    layers: tuple[LayerRows, ...]
    nbytes: int
    used: int
    pins: int = 0


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Number of leading tokens that `a` and `b` share."""
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


class NaivePrefixCache:
    """Same interface and same answers as PrefixCache, evictions included; cost grows with everything stored."""

    def __init__(self, block_tokens: int, byte_budget: int, fingerprint: bytes) -> None:
        check_options(block_tokens, byte_budget)
        self.block_tokens, self.byte_budget, self.fingerprint = block_tokens, byte_budget, fingerprint
        self._records: list[Record] = []
        self._open: list[Hit[Record]] = []
        self._clock = self._lookups = self._asked = self._hit = 0
        self._stored = self._evicted = self._compared = 0

    @property
    def version(self) -> int:
        return self._stored + self._evicted

    def match(self, tokens: Sequence[int], tags: Tags = NO_TAGS) -> Hit[Record]:
        """floor(min(longest common prefix, coverage, len - 1) / block) * block positions; pinned.

        Coverage needs no term of its own: a record holds covered positions only.
        """
        shared = max((common_prefix(r.tokens, tokens) for r in self._of(tags)), default=0)
        length = max(min(shared, len(tokens) - 1), 0) // self.block_tokens * self.block_tokens
        path = self._path(tokens[:length], tags)
        hit = Hit(length, tuple(path))
        for record in path:
            record.pins += 1
        if path:
            self._open.append(hit)
        self._lookups, self._asked, self._hit = self._lookups + 1, self._asked + len(tokens), self._hit + length
        return hit

    def release(self, hit: Hit[Record]) -> None:
        if not hit.blocks:
            return
        if all(hit is not held for held in self._open):
            raise PrefixCacheError(f"prefix cache: a hit of {hit.length} tokens was released that is not held")
        self._open = [held for held in self._open if held is not hit]
        self._clock += 1
        for record in self._records:
            if any(record is block for block in hit.blocks):
                record.pins -= 1
                record.used = self._clock

    def publish(
        self,
        tokens: Sequence[int],
        coverage: int,
        read_rows: ReadRows,
        tags: Tags = NO_TAGS,
        *,
        limit: int | None = None,
    ) -> int:
        check_coverage(coverage, len(tokens))
        full = min(coverage, coverage if limit is None else limit) // self.block_tokens * self.block_tokens
        path = self._path(tokens[:full], tags)
        self._clock += 1
        if len(path) * self.block_tokens == full:
            for record in path:
                record.used = self._clock
            return 0
        rows = require_live(read_rows(), coverage)
        return self._grow(path, tuple(tokens[:full]), tags, rows) if keeps_all(rows) else 0

    def set_budget(self, byte_budget: int) -> None:
        check_options(self.block_tokens, byte_budget)
        self.byte_budget = byte_budget
        self._make_room(0)

    def clear(self) -> None:
        while self._evict_coldest():
            pass

    def stats(self) -> PrefixStats:
        return PrefixStats(
            blocks=len(self._records),
            bytes_used=sum(r.nbytes for r in self._records),
            pins=sum(r.pins for r in self._records),
            lookups=self._lookups,
            asked_tokens=self._asked,
            hit_tokens=self._hit,
            stored_blocks=self._stored,
            evicted_blocks=self._evicted,
            compared=self._compared,
        )

    def _of(self, tags: Tags) -> list[Record]:
        self._compared += len(self._records)
        return [r for r in self._records if r.context == (self.fingerprint, tags)]

    def _path(self, tokens: Sequence[int], tags: Tags) -> list[Record]:
        """Every record that is a beginning of `tokens`, shortest first."""
        found = [r for r in self._of(tags) if r.tokens == tuple(tokens[: len(r.tokens)])]
        return sorted(found, key=lambda r: len(r.tokens))

    def _grow(self, path: list[Record], tokens: tuple[int, ...], tags: Tags, rows: LiveRows) -> int:
        new = 0
        for record in path:
            record.pins += 1
        for start in range(len(path) * self.block_tokens, len(tokens), self.block_tokens):
            stop = start + self.block_tokens
            nbytes = bytes_between(rows, start, stop)
            if not self._make_room(nbytes):
                break
            record = Record(
                (self.fingerprint, tags), tokens[:stop], cut(rows, start, stop), nbytes, self._clock, pins=1
            )
            self._records.append(record)
            path.append(record)
            new += 1
        for record in path:
            record.pins -= 1
            record.used = self._clock
        self._stored += new
        return new

    def _make_room(self, nbytes: int) -> bool:
        while sum(r.nbytes for r in self._records) + nbytes > self.byte_budget:
            if not self._evict_coldest():
                return False
        return True

    def _evict_coldest(self) -> bool:
        """Drop the record used longest ago that nobody holds; of equally old ones the longest, so leaves go first."""
        idle = [r for r in self._records if r.pins == 0]
        if not idle:
            return False
        self._records.remove(min(idle, key=lambda r: (r.used, -len(r.tokens))))
        self._evicted += 1
        return True
