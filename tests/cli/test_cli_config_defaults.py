"""[defaults]: what new schedules have, and what there is already keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Edgecron
from tests.support.settings import Settings

FILE = """
[defaults]
timezone = "Europe/Berlin"
timeout = "1h"
retries = 2
retry_factor = 1.5
ok_codes = [0, 3]
overlap = "queue"
jitter = "5m"
cwd = "/"
"""


@pytest.fixture
def settings(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return Settings(tmp_path, monkeypatch)


def test_a_new_schedule_takes_what_it_does_not_say(edgecron: Edgecron, settings: Settings) -> None:
    settings.write_user(FILE)

    edgecron("add", "x", "--every", "1h", "--timeout", "5m", "--ok-codes", "none", "--", "true")

    [shown] = edgecron("show", "x", "--json").json
    assert shown["timezone"] == "Europe/Berlin"
    assert shown["timeout_s"] == 300
    assert (shown["retries"], shown["retry_factor"]) == (2, 1.5)
    assert shown["ok_codes"] == [0]
    assert shown["overlap"] == "queue"
    assert shown["cwd"] == "/"


def test_an_edit_takes_nothing_from_the_defaults(edgecron: Edgecron, settings: Settings) -> None:
    edgecron("add", "x", "--every", "1h", "--retries", "9", "--", "true")
    settings.write_user(FILE)

    edgecron("edit", "x", "--description", "a note")
    edgecron("edit", "x", "--retries", "none")

    [shown] = edgecron("show", "x", "--json").json
    assert (shown["timeout_s"], shown["retries"], shown["overlap"]) == (None, 0, "skip")
    assert (shown["timezone"], shown["cwd"]) == ("local", None)


def test_an_edit_clears_what_a_default_gave(edgecron: Edgecron, settings: Settings) -> None:
    settings.write_user(FILE)
    edgecron("add", "x", "--every", "1h", "--", "true")

    edgecron("edit", "x", "--timeout", "none")

    [shown] = edgecron("show", "x", "--json").json
    assert (shown["timeout_s"], shown["retries"]) == (None, 2)


def test_conditions_of_the_defaults_are_replaced_or_cleared(
    edgecron: Edgecron, settings: Settings
) -> None:
    edgecron("add", "backup", "--every", "1h", "--", "true")
    settings.write_user('[defaults]\nneeds = ["success:backup:8h"]\n')

    edgecron("add", "x", "--every", "1h", "--", "true")
    edgecron("add", "y", "--every", "1h", "--needs", "none", "--", "true")

    shown = {each["name"]: each["needs"] for each in edgecron("list", "--json").json}
    assert shown == {"backup": [], "x": ["success:backup:8h"], "y": []}


def test_a_variable_of_a_default_that_can_not_be_read_is_named(
    edgecron: Edgecron, settings: Settings, backup: str
) -> None:
    settings.set("EDGECRON_DEFAULTS_TIMEOUT", "soon")

    refused = edgecron("add", "x", "--every", "1h", "--", "true")
    listed = edgecron("list")

    assert refused.code == 2
    assert "EDGECRON_DEFAULTS_TIMEOUT: duration 'soon' is not understood" in refused.err
    assert listed.code == 0


def test_an_import_takes_policies_and_leaves_the_rest_to_the_crontab(
    edgecron: Edgecron, settings: Settings, tmp_path: Path
) -> None:
    settings.write_user(FILE)
    crontab = tmp_path / "crontab"
    crontab.write_text("0 2 * * * /usr/bin/backup\nRANDOM_DELAY=7\n0 3 * * * /usr/bin/report\n")

    imported = edgecron("import", "crontab", str(crontab), "--user-format", "--json")
    again = edgecron("import", "crontab", str(crontab), "--user-format", "--json")

    assert imported.code == 0, imported.err
    backup, report = imported.json
    assert (backup["timeout_s"], backup["retries"], backup["overlap"]) == (3600, 2, "queue")
    assert backup["timezone"] == "local"
    assert (backup["jitter_s"], report["jitter_s"]) == (300, 420)
    [shown] = edgecron("show", backup["name"], "--json").json
    assert shown["cwd"] is None
    assert again.json == []


NEVER = "warning: schedule noon has no more times within its windows\n"


def test_each_way_to_write_a_schedule_says_that_its_windows_exclude_all_times(
    edgecron: Edgecron, settings: Settings, tmp_path: Path
) -> None:
    noon = ("noon", "--cron", "0 12 * * *")
    night = ("--between", "21:00-05:00")
    file = tmp_path / "file"
    file.write_text(
        '[schedules.noon]\ncron = "0 12 * * *"\nnot_between = "9:00-17:00"\nshell = "x"\n'
    )
    edgecron("add", *noon, "--shell", "date")
    edited = edgecron("edit", "noon", *night)
    same = edgecron("edit", "noon", "--timeout", "1h")
    applied = edgecron("apply", str(file))
    edgecron("rm", "noon")

    with_boot = edgecron("add", *noon, "--on-boot", *night, "--shell", "date")
    edgecron("rm", "noon")

    for said in (edited, applied, with_boot):
        assert (said.code, said.err.count(NEVER)) == (0, 1), said
    assert NEVER not in same.err

    settings.write_user('[defaults]\nbetween = "21:00-05:00"\n')
    file.write_text("0 12 * * * noon\n")
    refused = [
        edgecron("add", *noon, "--shell", "date"),
        edgecron("import", "crontab", str(file), "--again"),
    ]
    for said in refused:
        assert "schedule 'noon' would never run: its windows exclude all its times" in said.err
