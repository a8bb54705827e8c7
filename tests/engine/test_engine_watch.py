"""The end of a peer is seen at once, also where it came before the peer could be watched."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from edgecron.engine.sleep import PeerWatch
from edgecron.model.engine import EngineInfo


def peer(pid: int) -> EngineInfo:
    return EngineInfo(
        id=1,
        key=f"{pid:016x}",
        pid=pid,
        boot_id="boot-1",
        queues=("command",),
        offers=None,
        version="0.1.0",
        supervisor_id=None,
        started_at=datetime(2026, 11, 20, 8, tzinfo=UTC),
        stopped_at=None,
    )


@pytest.mark.failure(19)
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells of ends")
def test_a_peer_that_was_gone_before_it_was_watched_is_told_of_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    watch = PeerWatch()

    watched = watch.watch([peer(os.getpid())])
    before = watch.take_missed()
    with_gone = watch.watch([peer(os.getpid()), peer(gone.pid)])
    told = [watch.take_missed(), watch.take_missed()]
    watch.watch([peer(os.getpid()), peer(gone.pid)])
    told.append(watch.take_missed())
    watch.close()

    assert len(watched) == 1
    assert with_gone == watched
    assert (before, told) == (False, [True, False, False])
