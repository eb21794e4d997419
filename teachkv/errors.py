"""Every error a caller can meet: one line that says what, where and what to do."""

from collections.abc import Sequence
from functools import partial
from typing import Any


class TeachKVError(Exception):
    """Root of all errors raised on purpose. The command line prints it as one line and exits with 2."""


class ConfigError(TeachKVError):
    """A model's config.json is contradictory, incomplete or of an unknown kind."""


class CheckpointError(TeachKVError):
    """A weight file is missing, damaged or does not fit the config; nothing has been loaded."""


class TokenizerError(TeachKVError):
    """A tokenizer or chat template is missing or damaged."""


class TemplateError(TokenizerError):
    """A chat template refused the conversation, or ran past its limits."""


class PullError(TeachKVError):
    """A model could not be fetched or stored; what was there before is untouched."""


class OptionError(TeachKVError):
    """An argument is unknown, out of range, or cannot be honoured by the chosen backend."""


class UnknownOption(OptionError, TypeError):
    """An argument has a name that nothing knows; a `TypeError` too, as Python raises for plain functions."""


class RequestError(TeachKVError):
    """One request cannot be served (too long, empty, larger than the pool); others are not affected."""


class NonFiniteLogits(RequestError):
    """The model produced NaN or infinity for this request."""


class GeometryError(TeachKVError):
    """Rows of a cache disagree about where their live columns are. A fault of the engine, never of the caller."""


class PlanRefused(TeachKVError):
    """A batch cannot be formed; every row is as it was before.

    `layer` and `row` name the first slot that stands in the way, `lengths` the lengths of all rows in that layer.
    """

    def __init__(self, reason: str, *, layer: int, row: int, lengths: Sequence[int]) -> None:
        self.reason, self.layer, self.row, self.lengths = reason, layer, row, tuple(lengths)
        super().__init__(f"{reason} (layer {layer}, row {row}, lengths {list(self.lengths)})")

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is built again from its message alone otherwise, and a process pool that does so hangs.
        return partial(type(self), self.reason, layer=self.layer, row=self.row, lengths=self.lengths), ()


class UnsupportedMask(TeachKVError):
    """A backend was handed a mask that it would have to drop; it refuses instead."""


class BackendError(TeachKVError):
    """A backend is not available on this machine, or cannot honour what was asked of it."""


class SlotError(TeachKVError):
    """A slot was asked for what it does not hold: columns past its maximum, or positions it has dropped."""


class RowAtMaximum(PlanRefused):
    """One row has no position left for another token. It is illegal in itself; the others may go on without it."""


class SchedulerError(TeachKVError):
    """The engine and the scheduler disagree about a request. Always a fault of the engine, never of the caller."""


class PrefixCacheError(TeachKVError):
    """The engine and the prefix cache disagree about a hit or about coverage. Always a fault of the engine."""
