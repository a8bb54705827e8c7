"""Configuration files: every word in them is known, and nobody else has written them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from edgecron.base.errors import InvalidConfig
from edgecron.formats.config_files import read_file
from edgecron.formats.config_settings import SECTIONS, SETTINGS, Text
from tests.support.accounts import as_root


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "config.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o644)
    return path


def refusal(path: Path, *, is_system: bool = False) -> str:
    with pytest.raises(InvalidConfig) as caught:
        read_file(path, is_system=is_system)
    return f"{caught.value.message} ({caught.value.hint})"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[limits]\nburts = 1", 2, "limits.burts is unknown (did you mean limits.burst?)"),
        ("[limit]\nburst = 1", 1, "limit is unknown (did you mean [limits]?)"),
        ("colour = 'never'", 1, "colour is unknown (did you mean color?)"),
        ("timeout = '1h'", 1, "timeout is unknown (did you mean defaults.timeout?)"),
        ("[limits]\n\ntimeout = '1h'", 3, "(did you mean defaults.timeout?)"),
        ("[defaults]\ntz = 'UTC'", 2, "(did you mean defaults.timezone?)"),
        ("[defaults]\nretry-delay = '1m'", 2, "(did you mean defaults.retry_delay?)"),
        ("[dashboard.keys]\nquitt = 'q'", 2, "(did you mean dashboard.keys.quit?)"),
        ("[dashboard]\nkey = {}", 2, "(did you mean dashboard.keys?)"),
        ("limits = {burts = 1}", 1, "limits.burts is unknown"),
        ("limits.burts = 1", 1, "limits.burts is unknown"),
        ("'limits.burst' = 1", 1, "is unknown"),
        ("'a\\u001b[2J' = 1", None, "is unknown"),
        ("zzz = 1", 1, "zzz is unknown (see: edgecron config show)"),
        ("limits = 5", 1, "limits is not a table"),
        ("[[limits]]\nburst = 5", None, "limits is not a table"),
        ("[database]", 1, "database is a table, expected a path"),
        ("[limits]\nburst = true", 2, "limits.burst is true, expected a whole number"),
        ("[limits]\nburst = 0", 2, "limits.burst is '0', expected a whole number from 1"),
        ("[limits]\nburst = 1.5", 2, "limits.burst is 1.5, expected a whole number"),
        ("[limits]\nburst = [1]", 2, "limits.burst is an array"),
        ("[limits]\nburst = 99999999999999999999", 2, "limits.burst is a number out of range"),
        ("[limits]\noutput = '1 parsec'", 2, "limits.output is '1 parsec', expected a size"),
        ("[limits]\noutput = '10B'", 2, "limits.output is '10B', expected 1024 to"),
        ("[limits]\non_shutdown = 'die'", 2, "is 'die', expected leave, wait or stop"),
        ("[limits]\nclock_wait = 10", 2, "limits.clock_wait is 10, expected a duration"),
        ("[limits]\nclock_wait = '10'", 2, "limits.clock_wait: duration '10' has no unit"),
        ("[defaults]\ntimezone = 'Europe/Berlim'", 2, "did you mean Europe/Berlin"),
        ("[defaults]\noverlap = 'supersede'", 2, "defaults.overlap is 'supersede', expected skip"),
        ("[defaults]\ntimeout = 'soon'", 2, "defaults.timeout: duration 'soon'"),
        ("[defaults]\nneeds = ['online', 3]", 2, "defaults.needs is 3"),
        ("[defaults]\nneeds = 'sunshine'", 2, "defaults.needs: "),
        ("[defaults]\nok_codes = [0, 256]", 2, "defaults.ok_codes is '256'"),
        ("[defaults]\ncwd = 'jobs'", 2, "expected an absolute path or one that begins with ~"),
        ("database = 'x.db'", 1, "expected an absolute path or one that begins with ~"),
        ("database = ''", 1, "database is '', expected an absolute path"),
        ("[retention]\noutput_age = '30'", 2, "retention.output_age: duration '30'"),
        ("[retention]\nhistory_count = -1", 2, "retention.history_count is '-1'"),
        ("[dashboard]\ntheme = '../x'", 2, "dashboard.theme is '../x', expected auto or the name"),
        ("[dashboard.keys]\nquit = 'ctrl-q'", 2, "is 'ctrl-q', expected the name of a key"),
        ("[dashboard.keys]\nquit = ['q', '']", 2, "is '', expected the name of a key"),
        ("a = 1979-05-27", 1, "a is unknown"),
        ("color = 1979-05-27", 1, "color is '1979-05-27', expected auto, always or never"),
        ("[limits]\nburst =\n", 2, "not TOML, column 8: a value is missing"),
        ("[limits]\nburst = 1\nburst = 2", 3, "not TOML: a table or key is given twice"),
        ("[limits]\nburst =", 2, "not TOML: a value is missing"),
        ("x = " + "[" * 10_000, 1, "nested more than 8 levels deep"),
        ("x = 1" + "0" * 5000, None, "not TOML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, text: str, line: int | None, said: str
) -> None:
    path = write(tmp_path, text)

    message = refusal(path)

    assert said in message
    assert message.startswith(str(path) if line is None else f"{path}:{line}: ")
    assert message.isprintable()


def test_what_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    assert (
        refusal(write(tmp_path, b"# x\n# \xff"))
        == f"{tmp_path}/config.toml:2: not UTF-8 (save the file as UTF-8)"
    )


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("limits = {burst = 3}", "limits.burst", 3),
        ("limits.burst = '3'", "limits.burst", 3),
        ("limits.output = '1MB'", "limits.output", 1_000_000),
        ("limits.output = '64 KiB'", "limits.output", 65_536),
        ("limits.output = 2048", "limits.output", 2048),
        ("limits.clock_wait = 'forever'", "limits.clock_wait", None),
        ("limits.clock_wait = 'none'", "limits.clock_wait", 0),
        ("retention.history_age = '30d'", "retention.history_age", 30 * 86_400_000),
        ("retention.history_count = 1000", "retention.history_count", 1000),
        ("retention.output_bytes = '1GiB'", "retention.output_bytes", 2**30),
        ("retention.output_bytes = 'none'", "retention.output_bytes", None),
        ("dashboard.theme = 'tokyo-night'", "dashboard.theme", "tokyo-night"),
        ("dashboard.keys.quit = 'ctrl+shift+f5'", "dashboard.keys.quit", ("ctrl+shift+f5",)),
        ("dashboard.keys.quit = ['Q', ',', 'ö']", "dashboard.keys.quit", ("Q", ",", "ö")),
        ("dashboard.keys.quit = 'none'", "dashboard.keys.quit", ()),
        ("dashboard.keys.quit = []", "dashboard.keys.quit", ()),
    ],
)
def test_values_are_read_as_people_write_them(
    tmp_path: Path, text: str, key: str, value: object
) -> None:
    [(found, (shown, _))] = read_file(write(tmp_path, text)).values.items()

    assert found == key
    assert SETTINGS[key].kind.read(shown, key) == value


@pytest.mark.parametrize(("mode", "is_refused"), [(0o602, True), (0o666, True), (0o600, False)])
def test_a_file_that_everybody_may_write_is_refused(
    tmp_path: Path, mode: int, is_refused: bool
) -> None:
    path = write(tmp_path, "[limits]\nburst = 1\n")
    path.chmod(mode)

    if is_refused:
        assert f"has mode {mode:04o}, so that other users can change it (chmod " in refusal(path)
    else:
        assert read_file(path).values["limits.burst"] == ("1", 1)


@pytest.mark.parametrize("euid", [0, 1000])
def test_a_group_may_write_a_user_s_file_but_never_root_s_or_the_system_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, euid: int
) -> None:
    path = write(tmp_path, "[limits]\nburst = 1\n")
    path.chmod(0o664)
    monkeypatch.setattr("edgecron.formats.config_files.ROOT_UID", path.stat().st_uid)
    monkeypatch.setattr(os, "geteuid", lambda: euid)

    assert "chmod go-w" in refusal(path, is_system=True)
    if euid == 0:
        assert "chmod go-w" in refusal(path)
    else:
        assert read_file(path).values


@as_root
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    os.chown(path, 1234, 0)

    assert "belongs to user 1234, expected root" in refusal(path)


@as_root
def test_a_user_may_have_a_file_of_their_own_or_of_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    read_file(path)
    os.chown(path, 1000, 0)
    read_file(path)
    assert "belongs to user 1000, expected root" in refusal(path, is_system=True)
    os.chown(path, 1001, 0)
    assert "belongs to user 1001, expected you or root" in refusal(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    fifo, loop = tmp_path / "fifo", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)

    assert "is not a file" in refusal(fifo)
    assert "is not a file" in refusal(tmp_path)
    assert "can't be read" in refusal(loop)
    assert "does not exist" in refusal(tmp_path / "missing")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.chmod(0)

    assert "can't be read: permission denied" in refusal(path)


def test_a_file_of_megabytes_is_refused(tmp_path: Path) -> None:
    assert "larger than 1 MiB" in refusal(write(tmp_path, "#" * (1024 * 1024 + 1)))


_WORDS = st.sampled_from(
    sorted({part for key in (*SETTINGS, *SECTIONS) for part in key.split(".") if part})
)
_NAMES = _WORDS | st.text(min_size=1, max_size=8)
_SCALARS = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["none", "auto", "1h", "5", "256KiB", "local", "~", "/x", "q", "0,2"])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_quick = examples(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {as_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def values_or_refusal(path: Path) -> Mapping[str, tuple[Text, Any]]:
    """The values of a file; none where it is refused, in words that name it."""
    try:
        return read_file(path).values
    except InvalidConfig as error:
        told = error.message
    assert str(path) in told
    return {}


@_quick
@given(document=st.dictionaries(_NAMES, _VALUES, max_size=4))
def test_any_document_gives_values_or_a_refusal(
    tmp_path: Path, document: dict[str, object]
) -> None:
    text = "\n".join(f"{json.dumps(key)} = {as_toml(value)}" for key, value in document.items())
    path = write(tmp_path, text.encode("utf-8", "surrogatepass"))

    values = values_or_refusal(path)

    for key, (shown, _) in values.items():
        SETTINGS[key].kind.read(shown, key)


@_quick
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_values_or_a_refusal(tmp_path: Path, content: bytes) -> None:
    values = values_or_refusal(write(tmp_path, content))

    assert set(values) <= set(SETTINGS)
