"""Whether a file is its owner's alone, all the way down to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from edgecron.base.files import ROOT_ALONE, find_weakness, has_other_users, judge
from tests.support.accounts import as_root

US = frozenset({0, os.geteuid()})


def status(mode: int, *, uid: int = 0, links: int = 1) -> os.stat_result:
    return os.stat_result((mode, 1, 1, links, uid, 0, 0, 0, 0, 0))


@pytest.mark.failure(63)
@pytest.mark.parametrize(
    ("seen", "may_be_shared", "why"),
    [
        (status(stat.S_IFREG | 0o600), False, None),
        (status(stat.S_IFREG | 0o644), False, None),
        (status(stat.S_IFREG | 0o600, uid=7), False, "belongs to user 7, expected root"),
        (status(stat.S_IFREG | 0o620), False, "has mode 0620, so that other users can change it"),
        (status(stat.S_IFREG | 0o602), False, "has mode 0602, so that other users can change it"),
        (status(stat.S_IFREG | 0o600, links=2), False, "has 2 names (hard links)"),
        (status(stat.S_IFDIR | 0o755, links=9), True, None),
        (status(stat.S_IFDIR | 0o775), True, "has mode 0775, so that other users can change it"),
        (status(stat.S_IFDIR | 0o1777), True, None),  # /tmp: nobody renames what is another's
        (status(stat.S_IFDIR | 0o1777), False, "has mode 1777, so that other users can change it"),
        (status(stat.S_IFDIR | 0o755, uid=7), True, "belongs to user 7, expected root"),
        (status(stat.S_IFLNK | 0o777), True, None),
        (status(stat.S_IFLNK | 0o777, uid=7), True, "belongs to user 7, expected root"),
    ],
)
def test_what_is_root_s_alone(seen: os.stat_result, may_be_shared: bool, why: str | None) -> None:
    found = judge(Path("/x"), seen, owners=ROOT_ALONE, may_be_shared=may_be_shared)

    assert (found.why if found else None) == why


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which nothing is wrong, from the root on."""
    made = tmp_path / "inner"
    made.mkdir(mode=0o700)
    if (weakness := find_weakness(made, owners=US)) is not None:
        pytest.fail(f"tests run in a folder that others can change: {weakness.words}")
    return made


def test_every_folder_on_the_way_counts(folder: Path) -> None:
    file = folder / "db"
    file.touch(mode=0o600)
    good = find_weakness(file, owners=US)
    folder.chmod(0o770)
    bad = find_weakness(file, owners=US)

    assert good is None
    assert bad is not None
    assert bad.words == f"{folder} has mode 0770, so that other users can change it"
    assert bad.mend == f"chmod go-w {folder}"


@pytest.mark.failure(63)
def test_where_a_link_leads_to_counts_too(folder: Path) -> None:
    weak = folder / "weak"
    weak.mkdir()
    weak.chmod(0o777)
    (weak / "db").touch(mode=0o600)
    (folder / "link").symlink_to("weak/../weak")
    (folder / "absolute").symlink_to(weak)
    (folder / "loop").symlink_to("loop")

    found = [find_weakness(folder / name / "db", owners=US) for name in ("link", "absolute")]

    assert [weakness.path for weakness in found if weakness] == [weak, weak]
    assert find_weakness(folder / "loop" / "db", owners=US) is None  # it leads nowhere


def test_what_is_not_there_yet_is_judged_by_its_folders(folder: Path) -> None:
    good = find_weakness(folder / "new" / "db", owners=US)
    folder.chmod(0o777)

    assert good is None
    assert find_weakness(folder / "new" / "db", owners=US) is not None


def test_what_must_be_there_is_not_trusted_where_it_is_missing(folder: Path) -> None:
    """Whoever can may put it there a moment later."""
    found = find_weakness(folder / "new" / "db", owners=US, must_exist=True)

    assert found is not None
    assert found.words == f"{folder / 'new' / 'db'} is not there"
    assert find_weakness(folder, owners=US, must_exist=True) is None


def test_a_folder_of_everybody_s_may_be_above_but_not_around_a_file(folder: Path) -> None:
    """There anybody could lay a log beside a database."""
    folder.chmod(0o1777)
    (folder / "own").mkdir(mode=0o700)
    for place in (folder / "db", folder / "own" / "db"):
        place.touch(mode=0o600)

    around = find_weakness(folder / "db", owners=US)

    assert around is not None
    assert around.words == f"{folder} has mode 1777, so that other users can change it"
    assert find_weakness(folder / "own" / "db", owners=US) is None


@as_root
def test_a_link_of_another_user_leads_root_where_that_one_wants(folder: Path) -> None:
    (folder / "link").symlink_to("/etc")
    os.lchown(folder / "link", 65534, 65534)

    found = find_weakness(folder / "link" / "passwd")

    assert found is not None
    assert found.words == f"{folder / 'link'} belongs to user 65534, expected root"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0 0 4294967295\n", True), ("0 1000 1\n", False), ("0 1000 1\n1 100000 65536\n", True)],
)
def test_a_root_of_its_own_may_be_alone(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "uid_map").write_text(text)

    assert has_other_users(tmp_path / "uid_map") is expected
    assert has_other_users(tmp_path / "none") is True
