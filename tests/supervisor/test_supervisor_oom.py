"""When memory runs out, what runs is ended before who watches it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgecron.supervisor.start import OOM_SCORE, read_oom_score, unprotected_from_oom
from tests.supervisor.supervisor_bench import Bench
from tests.support.accounts import as_root, identity


@pytest.mark.failure(21)
@pytest.mark.parametrize(("own", "meanwhile"), [(-500, 0), (0, 0), (300, 300)])
def test_only_what_is_spared_itself_sets_that_aside(
    tmp_path: Path, own: int, meanwhile: int
) -> None:
    place = tmp_path / "oom_score_adj"
    place.write_text(f"{own}\n")

    with unprotected_from_oom(read_oom_score(str(place)), str(place)):
        during = int(place.read_text())

    assert during == meanwhile
    assert int(place.read_text()) == own


def test_a_system_that_spares_nobody_is_left_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "none")

    with unprotected_from_oom(read_oom_score(place), place):
        pass

    assert list(tmp_path.iterdir()) == []


@as_root
@pytest.mark.failure(21)
def test_no_command_is_spared_with_its_supervisor(tmp_path: Path) -> None:
    before = Path(OOM_SCORE).read_text()
    # As the service manager does it. In a container this may be refused, and nobody is spared.
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = _commands_are_as_everybody(tmp_path)
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert Path(OOM_SCORE).read_text() == before


def _commands_are_as_everybody(tmp_path: Path) -> int:
    try:
        Path(OOM_SCORE).write_text("-500")
    except PermissionError:
        Path(OOM_SCORE).write_text("0")
    bench = Bench(tmp_path / "state")
    line = "cat /proc/self/oom_score_adj"
    own, other = bench.run_shell(line), bench.run_shell(line, identity=identity())
    watching = Path(f"/proc/{bench.link.pid}/oom_score_adj").read_text()
    bench.close()
    printed = [int(bench.printed(record)) for record in (own, other)]
    return 0 if printed == [0, 0] and watching == Path(OOM_SCORE).read_text() else 1
