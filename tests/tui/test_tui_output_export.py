"""Output taken away: which programs take it, and what becomes of files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.base.errors import AlreadyExists, EdgecronError, InvalidInput
from edgecron.client import Client
from edgecron.tui.output_export import clipboard_command, copy_with, fits_sequence, save_output
from tests.support.engines import Place
from tests.support.standins import found, script

XCLIP = ("xclip", "-selection", "clipboard")


@pytest.mark.parametrize(
    ("environ", "platform", "command"),
    [
        ({}, "linux", None),
        ({"DISPLAY": ":0"}, "linux", XCLIP),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, "linux", ("wl-copy",)),
        ({}, "darwin", ("pbcopy",)),
    ],
)
def test_the_clipboard_of_where_we_are_is_found(
    environ: dict[str, str], platform: str, command: tuple[str, ...] | None
) -> None:
    assert clipboard_command(environ, platform=platform, which=found) == command


def test_a_clipboard_program_that_is_not_there_is_not_called() -> None:
    environ = {"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}

    assert clipboard_command(environ, platform="linux", which=lambda name: None) is None
    assert (
        clipboard_command(
            environ, platform="linux", which=lambda name: None if name == "wl-copy" else "/x"
        )
        == XCLIP
    )


def test_a_clipboard_program_gets_the_text(tmp_path: Path) -> None:
    program = script(tmp_path, f"cat >{tmp_path}/got")

    assert copy_with((program,), "häß\n")
    assert (tmp_path / "got").read_text(encoding="utf-8") == "häß\n"


def test_a_clipboard_program_that_fails_is_told(tmp_path: Path) -> None:
    assert not copy_with((script(tmp_path, "exit 1"),), "text")
    assert not copy_with((str(tmp_path / "missing"),), "text")


def test_a_text_that_no_terminal_takes_is_known() -> None:
    assert fits_sequence("x" * 50_000)
    assert not fits_sequence("x" * 60_000)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, int]]:
    """A run that has printed bytes of all kinds, more than are kept."""
    with ExitStack() as stack:
        place = Place(tmp_path_factory.mktemp("ended"), stack)
        place.add("job", "@yearly", "printf 'a\\033[1m\\377\\n'; head -c 400000 /dev/zero")
        daemon = place.daemon()
        [run] = place.client.run_now("job")
        daemon.wait_for("ended")
        daemon.stop()
        yield place.client, run.id


def test_a_file_gets_the_very_bytes_and_a_word_on_those_that_were_not_kept(
    ended: tuple[Client, int], tmp_path: Path
) -> None:
    client, run_id = ended

    path, size_bytes = save_output(client, run_id, str(tmp_path), name="job-1.log")

    content = path.read_bytes()
    assert path == tmp_path / "job-1.log"
    assert len(content) == size_bytes
    assert content.startswith(b"a\x1b[1m\xff\n\0\0")
    assert content.count(b"bytes dropped ...]\n") == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["job-1.log"]


def test_a_file_that_is_there_is_replaced_only_where_that_was_said(
    ended: tuple[Client, int], tmp_path: Path
) -> None:
    client, run_id = ended
    path = tmp_path / "mine"
    path.write_text("mine", encoding="utf-8")

    with pytest.raises(AlreadyExists, match="already exists"):
        save_output(client, run_id, str(path), name="x")
    assert path.read_text(encoding="utf-8") == "mine"

    save_output(client, run_id, str(path), name="x", may_replace=True)
    assert path.read_bytes().startswith(b"a\x1b")


def test_neither_the_database_nor_what_is_no_file_is_ever_written(
    ended: tuple[Client, int], tmp_path: Path
) -> None:
    client, run_id = ended
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(client.path)
    places = {
        str(client.path): "the database itself",
        f"{client.path}-wal": "the database itself",
        str(tmp_path / "link"): "the database itself",
        str(tmp_path / "pipe"): "not a regular file",
        str(tmp_path / "missing" / "file"): "does not exist",
        "a\0b": "NUL",
    }

    for given, why in places.items():
        with pytest.raises(InvalidInput, match=why):
            save_output(client, run_id, given, name="x", may_replace=True)


def test_a_folder_that_takes_nothing_is_told(ended: tuple[Client, int]) -> None:
    client, run_id = ended

    with pytest.raises(EdgecronError):
        save_output(client, run_id, "/proc/none", name="x")
