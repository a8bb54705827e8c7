"""No room under the database of a real engine: told once, and gone on from without a restart."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.base.errors import DatabaseFull
from tests.support.engines import Place
from tests.support.places import fill, small_disk

pytestmark = pytest.mark.failure(51)


def fill_log(place: Place) -> None:
    """Write until that is refused: the log may have some room of its own left."""
    for _ in range(1000):
        place.client.pause("often")
        place.client.resume("often")


def test_an_engine_on_a_full_disk_goes_on_once_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", kib=1024) as disk, ExitStack() as stack:
        place = Place(disk, stack)
        place.log = tmp_path / "effects.log"
        place.add("often", "every 1s", 'echo "$EDGECRON_PLAN_AT" >>$LOG')
        daemon = place.daemon()
        daemon.wait_for("ended", schedule="often")

        filler = fill(disk)
        trouble = daemon.wait_for("database_trouble")
        with pytest.raises(DatabaseFull, match="no space left"):
            fill_log(place)
        filler.unlink()
        daemon.wait_for("database_well")
        place.client.resume("often")  # The log may have filled up right after a pause.
        daemon.wait_for("ended", schedule="often")
        code = daemon.stop()

        assert code == 0
        assert "no space left" in trouble["error_msg"]
        runs = [run for run in place.runs("often") if run.started_at is not None]
        assert len(place.effects()) == len(set(place.effects())) == len(runs)
        place.client.close()
