"""Who runs in the next step: policies that read an indexed queue and return a plan."""

from teachkv.schedule.limits import Budget, ColumnBudget, Limits
from teachkv.schedule.plan import Plan, PrefillChunk
from teachkv.schedule.scheduler import Scheduler

__all__ = ["Budget", "ColumnBudget", "Limits", "Plan", "PrefillChunk", "Scheduler"]
