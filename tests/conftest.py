"""What all tests start from, whoever has started them."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from types import FunctionType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import edgecron
from edgecron.cli.tui import hasten_keys
from tests.support.forkserver import begin_forking, end_forking, fork_programs
from tests.support.sharing import begin_sharing, end_sharing
from tests.support.tools import need_packages, need_postgres, need_tools

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

# Clocks that nobody keeps are judged by it, and those of tests say a day that stays the same: to
# them this tree was released before that, however late its next release is. Here, before anything
# reads it.
edgecron.__built__ = "2026-05-01"

_MANY_OPEN = 500  # descriptors; select() takes 1,024


def pytest_configure(config: pytest.Config) -> None:
    """Nothing of this machine's reaches a test: neither its configuration nor ignored signals.

    Programs that tests start hear signals, although nohup or a script has ignored them.
    """
    os.environ["EDGECRON_CONFIG"] = "none"
    # Containers often forbid Python to keep what it compiles. Each program that a test starts would
    # compile the package again, which takes it longer than all else.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Each worker holds a large heap, and a search through all of it takes a tenth of the time.
    gc.set_threshold(100_000, 20, 100)
    # What hypothesis tries is the same on each machine and at each time, however slow that is.
    # Whoever wants other examples runs the long forms, which say so.
    settings.register_profile(
        "edgecron",
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("edgecron")
    hasten_keys()  # Textual reads its rate once. At its own, each key waits for two frames.
    for number, default in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)
    if not hasattr(config, "workerinput"):
        begin_sharing()
    begin_forking()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the server of this process, and remove what the workers shared."""
    end_forking()
    if not hasattr(config, "workerinput"):
        end_sharing()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of a test: skip it if its tool is missing; choose how programs start."""
    fork_programs(item.get_closest_marker("real_starts") is None)
    for mark in item.iter_markers("needs"):
        need_tools(*mark.args)
    for mark in item.iter_markers("needs_package"):
        need_packages(*mark.args)


def pytest_runtest_logfinish() -> None:
    """Close what only a search for garbage closes, before select() can't take the numbers."""
    newest = os.dup(0)
    os.close(newest)
    if newest > _MANY_OPEN:
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Import the modules of a folder, each worker from another one on.

    pytest rewrites a new module when it is first imported, which takes longer than all else of it.
    Workers that begin with the same module would all do that.
    """
    report = yield
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None and isinstance(collector, pytest.Dir):
        modules = [node for node in report.result if isinstance(node, pytest.Module)]
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        first = len(modules) * int(worker.removeprefix("gw")) // count
        for module in modules[first:] + modules[:first]:
            # Collecting the module imports it again, and reports why that is impossible.
            with suppress(Exception, pytest.skip.Exception):
                _ = module.obj
    return report


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no items of slow tests that do not run: each worker would make thousands of them."""
    selected = collector.config.getoption("markexpr").split(" and ")
    if not isinstance(obj, FunctionType) or "not slow" not in selected:
        return None
    marks = [_without_slow(mark) for mark in getattr(obj, "pytestmark", ())]
    if None in marks:
        return []
    if marks:
        obj.pytestmark = marks  # type: ignore[attr-defined]
    return None


def _without_slow(mark: pytest.Mark) -> pytest.Mark | None:
    """A mark, without slow cases if it is `parametrize`; None if nothing of its test is left."""
    if mark.name == "slow":
        return None
    if mark.name != "parametrize" or len(mark.args) != 2 or not mark.kwargs.keys() <= {"indirect"}:
        return mark
    names, cases = mark.args[0], list(mark.args[1])
    left = [one for one in cases if not any(m.name == "slow" for m in getattr(one, "marks", ()))]
    if not left and cases:
        return None
    return pytest.mark.parametrize(names, left, **mark.kwargs).mark


def pytest_collection_finish() -> None:
    """Leave all that collecting has made out of each later search for garbage."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let slow tests run as long as they take."""
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.timeout(0))


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_auto_num_workers() -> int:
    """Two for each processor: for half of the time a test waits for what it has started."""
    if sys.platform == "linux":
        return 2 * len(os.sched_getaffinity(0))
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of a process."""
    need_postgres()
    from tests.support.postgres import private_server  # its driver is an extra

    with private_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """The same server; the databases that the test creates on it are dropped at its end."""
    yield postgres_server
    postgres_server.drop_databases()
