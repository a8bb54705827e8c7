"""The machine's own clocks, as far as any machine can show it."""

from __future__ import annotations

import sys
import time

import pytest

from edgecron.base.clock import SystemClock


def test_the_time_since_the_boot_is_never_behind_elapsed_time() -> None:
    clock = SystemClock()

    monotonic_ms = clock.monotonic_ms()
    boottime_ms = clock.boottime_ms()

    assert boottime_ms >= monotonic_ms


@pytest.mark.skipif(sys.platform != "linux", reason="adjtimex is Linux's")
def test_the_kernel_says_whether_it_is_kept_right_or_nothing() -> None:
    answers = {SystemClock().is_synchronised() for _ in range(100)}

    assert len(answers) == 1
    assert answers <= {True, False, None}


def test_asking_the_kernel_costs_next_to_nothing() -> None:
    clock = SystemClock()
    clock.is_synchronised()
    before_ns = time.thread_time_ns()

    for _ in range(1000):
        clock.is_synchronised()

    assert time.thread_time_ns() - before_ns < 200_000_000
