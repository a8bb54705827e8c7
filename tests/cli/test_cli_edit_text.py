"""`edit NAME` alone: a schedule as text, in an editor; the text of a person is never lost."""

from __future__ import annotations

import os
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from edgecron.client import Client
from tests.support.cli import Edgecron
from tests.support.clock import FakeClock
from tests.support.program import PROGRAM
from tests.support.specs import make_spec
from tests.support.terminal import on_terminal, read_until

ASKED = "d: drop it [e] "


class Editor:
    """An editor that does what a test tells it: one line of Python for each time it is opened.

    `text` is what it finds, and what it leaves behind. What it was shown is kept in `shown`.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder / "the editor"
        self._folder.mkdir()
        self._script = self._folder / "editor.py"
        monkeypatch.setenv("EDITOR", f"{quote(sys.executable)} {quote(str(self._script))}")
        # Where the folders with the texts are made.
        self.rooms = folder / "rooms"
        self.rooms.mkdir()
        monkeypatch.setenv("TMPDIR", str(self.rooms))
        monkeypatch.setattr("tempfile.tempdir", None)

    def does(self, *acts: str) -> None:
        self._script.write_text(
            f"""\
import os, stat, sys
folder, path, acts = {str(self._folder)!r}, sys.argv[1], {acts!r}
times = len(os.listdir(folder)) - 1
text = open(path).read()
with open(os.path.join(folder, f"{{times}}.seen"), "w") as seen:
    seen.write(text)
with open(os.path.join(folder, f"{{times}}.modes"), "w") as modes:
    for one in (path, os.path.dirname(path)):
        print(oct(stat.S_IMODE(os.stat(one).st_mode)), file=modes)
exec(acts[times // 2])
open(path, "w").write(text)
"""
        )

    @property
    def shown(self) -> list[str]:
        """What it was shown, each time."""
        return [path.read_text() for path in sorted(self._folder.glob("*.seen"))]

    @property
    def modes(self) -> list[str]:
        return sorted(self._folder.glob("*.modes"))[0].read_text().split()

    def kept(self) -> list[Path]:
        """The texts that were left behind."""
        return list(self.rooms.rglob("*.toml"))


@pytest.fixture
def editor(tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    return Editor(tmp_path, monkeypatch)


def shown(edgecron: Edgecron, name: str = "backup") -> dict[str, Any]:
    [found] = edgecron("show", name, "--json").json
    return dict(found)


def replaced(old: str, new: str) -> str:
    return f"text = text.replace({old!r}, {new!r}, 1)"


def at_terminal(*answers: str) -> str:
    """What a person sees who edits backup on a terminal, and answers what they are asked."""
    with on_terminal(dict(os.environ), "edit", "backup") as outer:
        seen = ""
        for answer in answers:
            seen += read_until(outer, ASKED)
            os.write(outer, f"{answer}\n".encode())
        return seen + read_until(outer, None)


def test_what_is_changed_in_the_text_is_changed_in_the_schedule(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(replaced('# timeout = "1h"', 'timeout = "2h"'))

    said = edgecron("edit", backup)

    assert said.code == 0
    assert said.out.splitlines()[0].startswith("changed backup; next ")
    assert said.out.splitlines()[1:] == ["    + timeout: none -> 2h"]
    assert shown(edgecron)["timeout_s"] == 7200
    assert editor.kept() == []


def test_the_text_says_what_the_schedule_is_and_what_else_there_is(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    edgecron("edit", backup, "--retries", "3")
    editor.does("pass")

    edgecron("edit", backup)

    [text] = editor.shown
    lines = text.splitlines()
    table = lines.index("[schedules.backup]")
    assert lines[table + 1 : table + 4] == [
        'every = "1h"',
        'shell = "echo good; echo bad >&2"',
        "retries = 3",
    ]
    assert '# retry_delay = "1m"' in text
    assert "(default: 10s)" in text
    assert all(line.startswith("#") for line in lines[:table] if line)
    assert editor.modes == [oct(0o600), oct(0o700)]


@pytest.mark.parametrize("act", ["pass", "text = ''", "text += '\\n# a remark'", "os.unlink(path)"])
def test_what_means_the_same_changes_nothing(
    edgecron: Edgecron, backup: str, editor: Editor, act: str
) -> None:
    editor.does(act)
    before = shown(edgecron)

    said = edgecron("edit", backup)

    assert (said.code, said.out) == (0, "")
    assert "nothing is changed" in said.err
    assert shown(edgecron)["revision"] == before["revision"]
    assert editor.kept() == []


def test_another_edit_than_of_times_keeps_the_next_time(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    edgecron("reschedule", backup, "in 3h")
    before = shown(edgecron)
    editor.does(replaced("echo good", "echo better"))

    edgecron("edit", backup)

    after = shown(edgecron)
    assert after["job"].startswith("echo better")
    assert after["next_run_at"] == before["next_run_at"]


def test_times_may_be_told_by_their_distance(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(replaced('every = "1h"', 'at = "tomorrow 09:00"'))

    said = edgecron("edit", backup)

    assert said.code == 0
    assert shown(edgecron)["triggers"][0].endswith("T09:00:00Z")


def test_a_time_that_has_passed_meanwhile_does_not_keep_the_rest_from_being_changed(
    edgecron: Edgecron, database: Path, editor: Editor
) -> None:
    with Client(database, clock=FakeClock(datetime(2021, 3, 1, tzinfo=UTC))) as past:
        past.add(make_spec("bins", "at 2021-03-02T08:00:00Z"))
    editor.does(replaced('# description = "nightly backup"', 'description = "it is over"'))

    edited = edgecron("edit", "bins")

    assert edited.code == 0, edited.err
    assert shown(edgecron, "bins")["description"] == "it is over"


def test_another_name_renames(edgecron: Edgecron, backup: str, editor: Editor) -> None:
    editor.does(replaced("\n[schedules.backup]", "\n[schedules.nightly]"))

    said = edgecron("edit", backup)

    assert said.out.splitlines()[1:] == ["    ~ name: backup -> nightly"]
    assert [one["name"] for one in edgecron("list", "--json").json] == ["nightly"]


def test_a_name_that_others_use_stays(edgecron: Edgecron, backup: str, editor: Editor) -> None:
    edgecron("add", "report", "--after", backup, "--", "true")
    editor.does(replaced("\n[schedules.backup]", "\n[schedules.nightly]"))

    said = edgecron("edit", backup)

    assert said.code == 1
    assert "other schedules follow or need 'backup': report" in said.err
    assert len(editor.kept()) == 1


def test_a_name_that_is_taken_is_refused(edgecron: Edgecron, backup: str, editor: Editor) -> None:
    edgecron("add", "nightly", "--every", "1h", "--", "true")
    editor.does(replaced("\n[schedules.backup]", "\n[schedules.nightly]"))

    said = edgecron("edit", backup)

    assert said.code == 4
    assert "'nightly' exists already" in said.err
    assert [one["name"] for one in edgecron("list", "--json").json] == ["backup", "nightly"]


def test_a_text_with_another_name_is_not_sent_to_apply_which_would_change_that_other_schedule(
    edgecron: Edgecron, backup: str, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    edgecron("add", "other", "--every", "1h", "--", "true")
    editor.does(replaced("\n[schedules.backup]", "\n[schedules.other]"))

    said = edgecron("edit", backup)

    [kept] = editor.kept()
    assert "edgecron apply" not in said.err
    assert f"after you fix it: VISUAL='cp {kept}' edgecron edit backup\n" in said.err
    kept.write_text(kept.read_text().replace("schedules.other", "schedules.third"))
    monkeypatch.setenv("VISUAL", f"cp {kept}")
    assert edgecron("edit", backup).code == 0
    assert [one["name"] for one in edgecron("list", "--json").json] == ["other", "third"]


def test_a_pause_that_the_text_no_longer_says_ends(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    edgecron("pause", backup)
    editor.does(replaced("enabled = false\n", ""))

    said = edgecron("edit", backup)

    assert said.out.splitlines()[1:] == ["    ~ enabled: false -> true"]
    assert shown(edgecron)["enabled"] is True


def test_with_no_terminal_a_wrong_text_is_kept_and_told_of(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(replaced('every = "1h"', 'every = "5 parsecs"'))

    said = edgecron("edit", backup)

    assert said.code == 2
    [kept] = editor.kept()
    assert 'every = "5 parsecs"' in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "schedule 'backup': every: duration '5 parsecs' is not understood" in said.err
    assert f"your text is kept in {kept}" in said.err
    assert shown(edgecron)["triggers"] == ["every 1h"]
    # And it can be taken over when it was mended.
    kept.write_text(kept.read_text().replace("5 parsecs", "2h"))
    assert edgecron("apply", str(kept)).code == 0
    assert shown(edgecron)["triggers"] == ["every 2h"]


@pytest.mark.parametrize("text", ["[schedules.a\n", "# nothing left but this\n", "[schedules]\n"])
def test_a_text_without_the_schedule_is_refused(
    edgecron: Edgecron, backup: str, editor: Editor, text: str
) -> None:
    editor.does(f"text = {text!r}")

    said = edgecron("edit", backup)

    assert said.code == 2
    assert len(editor.kept()) == 1


def test_an_editor_that_fails_changes_nothing_and_loses_nothing(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(f"{replaced('1h', '2h')}; open(path, 'w').write(text); sys.exit(3)")

    said = edgecron("edit", backup)

    assert said.code == 2
    assert "failed with exit code 3, nothing is changed" in said.err
    assert len(editor.kept()) == 1
    assert shown(edgecron)["triggers"] == ["every 1h"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no-such-editor --wait", "'no-such-editor' of $EDITOR can't be started"),
        ("vi 'unclosed", "expected a command"),
    ],
)
def test_an_editor_that_is_not_there_is_named(
    edgecron: Edgecron, backup: str, editor: Editor, monkeypatch: pytest.MonkeyPatch,
    value: str, message: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("EDITOR", value)

    said = edgecron("edit", backup)

    assert said.code == 2
    assert message in said.err
    assert editor.kept() == []


def test_visual_comes_before_editor(
    edgecron: Edgecron, backup: str, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", os.environ["EDITOR"])
    monkeypatch.setenv("EDITOR", "false")
    editor.does(replaced("1h", "2h"))

    assert edgecron("edit", backup).code == 0


def test_with_neither_terminal_nor_editor_it_says_what_to_do(
    edgecron: Edgecron, backup: str
) -> None:
    said = edgecron("edit", backup)

    assert said.code == 2
    assert "an editor needs a terminal" in said.err
    assert "--timeout 1h" in said.err
    assert "edgecron export backup" in said.err


def test_a_schedule_that_is_not_there_opens_no_editor(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does("pass")

    assert edgecron("edit", "bakup").code == 3
    assert editor.shown == []


def test_json_shows_the_schedule_that_came_of_it(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(replaced("1h", "2h"), "pass")

    first, second = edgecron("edit", backup, "--json"), edgecron("edit", backup, "--json")

    assert [one["triggers"] for one in first.json] == [["every 2h"]]
    assert second.json == []


def test_a_person_mends_what_is_wrong(edgecron: Edgecron, backup: str, editor: Editor) -> None:
    editor.does(replaced('"1h"', '"5 parsecs"'), replaced('"5 parsecs"', '"2h"'))

    seen = at_terminal("e")

    assert "every: duration '5 parsecs' is not understood" in seen
    assert "every: 1h -> 2h" in seen
    _, second = editor.shown
    assert second.startswith("# ! line 7: every: duration '5 parsecs' is not understood")
    assert second.splitlines()[6] == 'every = "5 parsecs"'
    assert 'every = "5 parsecs"' in second
    assert shown(edgecron)["triggers"] == ["every 2h"]
    assert editor.kept() == []


def test_the_place_of_a_slip_in_the_toml_is_that_in_the_text(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(replaced('every = "1h"', "every = 1h"), replaced("every = 1h", 'every = "2h"'))

    seen = at_terminal("e")

    assert "not TOML, line 6, column 10" in seen
    _, second = editor.shown
    assert "not TOML, line 7, column 10" in second.splitlines()[0]
    assert second.splitlines()[6] == "every = 1h"
    assert "every: 1h -> 2h" in seen


def test_a_person_keeps_the_text_for_later(edgecron: Edgecron, backup: str, editor: Editor) -> None:
    editor.does(replaced('"1h"', '"5 parsecs"'))

    seen = at_terminal("s")

    [kept] = editor.kept()
    assert 'every = "5 parsecs"' in kept.read_text()
    assert "your text is kept in" in seen


def test_a_person_drops_the_text(edgecron: Edgecron, backup: str, editor: Editor) -> None:
    editor.does(replaced('"1h"', '"5 parsecs"'))

    seen = at_terminal("what?", "d")

    assert seen.count(ASKED) == 2
    assert editor.kept() == []
    assert shown(edgecron)["triggers"] == ["every 1h"]


def meanwhile(*words: str) -> str:
    """Another person changes schedules while the editor is open."""
    command = [*PROGRAM, *words]
    return f"import subprocess; subprocess.run({command!r}, check=True, capture_output=True)"


def test_what_others_changed_meanwhile_is_not_overwritten(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(f"{meanwhile('edit', 'backup', '--timeout', '9m')}; {replaced('1h', '2h')}")

    said = edgecron("edit", backup)

    assert said.code == 1
    assert "another program changed schedule 'backup' since you opened it: timeout" in said.err
    found = shown(edgecron)
    assert (found["timeout_s"], found["triggers"]) == (540, ["every 1h"])
    assert len(editor.kept()) == 1


def test_what_others_changed_meanwhile_is_replaced_if_a_person_wants_that(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    act = f"{meanwhile('edit', 'backup', '--timeout', '9m')}; {replaced('1h', '2h')}"
    editor.does(act, "pass")

    seen = at_terminal("e")

    assert "since you opened it: timeout" in seen
    found = shown(edgecron)
    assert (found["timeout_s"], found["triggers"]) == (None, ["every 2h"])


def test_what_was_removed_meanwhile_does_not_come_back(
    edgecron: Edgecron, backup: str, editor: Editor
) -> None:
    editor.does(f"{meanwhile('rm', 'backup')}; {replaced('1h', '2h')}")

    said = edgecron("edit", backup)

    assert said.code == 3
    assert len(editor.kept()) == 1


def test_options_show_what_they_change_too(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("edit", backup, "--timeout", "2h", "--env", "A=b", "--env", "TOKEN=hunter2")

    assert said.out.splitlines()[1:] == [
        "    + env.A: none -> b",
        "    + env.TOKEN: none -> ***",
        "    + timeout: none -> 2h",
    ]
