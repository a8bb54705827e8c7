"""All mutations."""

from __future__ import annotations

from . import claims, ends, events, limits, notices, recoveries, safety, supervision, times
from .mutation import Mutation

ALL: tuple[Mutation, ...] = (
    *claims.ALL,
    *ends.ALL,
    *events.ALL,
    *recoveries.ALL,
    *limits.ALL,
    *times.ALL,
    *supervision.ALL,
    *safety.ALL,
    *notices.ALL,
)
