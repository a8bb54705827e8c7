"""The journal and what is read from it: torn, damaged, missing, of another boot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edgecron.model.choices import Reason
from edgecron.supervisor.journal import (
    Exit,
    Interrupted,
    Journal,
    JournalState,
    NeverStarted,
    encode_line,
    find_dead,
    forget,
    read_journal,
)
from edgecron.supervisor.protocol import EndCause, ExitRecord
from edgecron.supervisor.state_files import (
    journal_path,
    lock_path,
    result_name,
    spool_name,
    take_lock,
)
from tests.supervisor.supervisor_bench import Bench
from tests.support.verdicts import verdict

KEY = "0123456789abcdef"
BOOT = "boot-1"


def record(token: str, **changes: object) -> ExitRecord:
    values: dict[str, object] = {"cause": EndCause.EXIT, "finished_ms": 5, "exit_code": 0}
    return ExitRecord(token=token, **(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path, KEY, boot_id=BOOT)) as made:
        yield made


def test_a_journal_is_read_as_it_was_written(journal: Journal, tmp_path: Path) -> None:
    ended = record("c", exit_code=None, error_code="ENOENT", error_msg="é\udcff", flags=("f",))

    journal.write_tokens(["a", "b", "c"])
    journal.add_start("b", pid=12, start_time=34, started_ms=56)
    journal.add_exit(ended.to_json())
    journal.write_backlog()
    state = read_journal(tmp_path, KEY)

    assert state.is_intact
    assert state.boot_id == BOOT
    assert list(state.traces) == ["a", "b", "c"]
    assert (state.traces["a"].pid, state.traces["a"].exit) == (None, None)
    assert (state.traces["b"].pid, state.traces["b"].start_time) == (12, 34)
    assert state.traces["c"].exit == ended
    assert journal_path(tmp_path, KEY).stat().st_mode & 0o777 == 0o600


@pytest.mark.failure(17)
def test_each_torn_tail_is_noticed_and_what_is_before_it_is_used(
    journal: Journal, tmp_path: Path
) -> None:
    path = journal_path(tmp_path, KEY)
    header = path.stat().st_size
    journal.write_tokens(["a"])
    journal.add_exit(record("a").to_json())
    journal.write_backlog()
    whole = path.read_bytes()
    first = whole.index(b"\n", header) + 1

    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        state = read_journal(tmp_path, KEY)

        assert state.is_intact == (size in (header, first))
        assert ("a" in state.traces) == (size >= first)
        assert all(trace.exit is None for trace in state.traces.values())


def test_each_damaged_byte_is_noticed(journal: Journal, tmp_path: Path) -> None:
    path = journal_path(tmp_path, KEY)
    journal.write_tokens(["a"])
    journal.add_exit(record("a").to_json())
    journal.write_backlog()
    whole = path.read_bytes()

    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)

        assert not read_journal(tmp_path, KEY).is_intact


@pytest.mark.failure(63)
@pytest.mark.parametrize("kind", ["token", "start", "exit"])
def test_a_token_that_would_name_a_file_elsewhere_is_not_believed(
    tmp_path: Path, kind: str
) -> None:
    outside = tmp_path / "dear.out"
    outside.touch()
    state_dir = tmp_path / "state"
    (state_dir / "run-").mkdir(parents=True)
    token = "/../../dear"
    entries: dict[str, list[object]] = {
        "token": ["token", [token]],
        "start": ["start", token, 1, 2, 3],
        "exit": ["exit", record(token).to_json()],
    }
    journal_path(state_dir, KEY).write_bytes(written(KEY, entries[kind], version=1))

    state = read_journal(state_dir, KEY)
    forget(state_dir, KEY)

    assert (state.is_intact, state.traces) == (False, {})
    assert outside.exists()


def test_the_journal_of_another_supervisor_is_not_taken_for_ours(tmp_path: Path) -> None:
    Journal(tmp_path, "f" * 16, boot_id=BOOT).close()
    os.rename(journal_path(tmp_path, "f" * 16), journal_path(tmp_path, KEY))

    assert not read_journal(tmp_path, KEY).is_intact


@pytest.mark.failure(17)
def test_the_verdicts_of_the_table(journal: Journal, tmp_path: Path) -> None:
    journal.write_tokens(["token", "start", "exit"])
    journal.add_start("start", pid=12, start_time=34, started_ms=56)
    journal.add_exit(record("exit").to_json())
    journal.write_backlog()

    def judge(token: str, boot_id: str = BOOT) -> object:
        return verdict(tmp_path, KEY, token, boot_id=boot_id)

    assert judge("exit") == Exit(record=record("exit"))
    assert judge("other") == NeverStarted()
    assert judge("token") == Interrupted(reason=Reason.LOST)
    assert judge("start") == Interrupted(reason=Reason.LOST, pid=12, start_time=34)


@pytest.mark.failure(17)
def test_what_was_revoked_may_be_queued_again(journal: Journal, tmp_path: Path) -> None:
    journal.write_tokens(["revoked", "token"])
    journal.add_revoked(["revoked"])
    journal.write_backlog()
    before = [verdict(tmp_path, KEY, token, boot_id=BOOT) for token in ("revoked", "token")]

    # A shorter journal must not bring it back.
    journal.write_tokens(["x" * 60 for _ in range(20_000)])
    journal.shrink({"revoked", "token"})
    after = [verdict(tmp_path, KEY, token, boot_id=BOOT) for token in ("revoked", "token")]

    assert before == after == [NeverStarted(), Interrupted(reason=Reason.LOST)]
    assert journal_path(tmp_path, KEY).stat().st_size < 1000


@pytest.mark.failure(20)
def test_after_another_boot_only_an_exit_is_believed(journal: Journal, tmp_path: Path) -> None:
    journal.write_tokens(["token", "start", "exit"])
    journal.add_start("start", pid=12, start_time=34, started_ms=56)
    journal.add_exit(record("exit").to_json())
    journal.write_backlog()

    verdicts = [
        verdict(tmp_path, KEY, token, boot_id="boot-2")
        for token in ("exit", "other", "token", "start")
    ]

    # No process id: whatever has it now is not what had it then.
    assert verdicts == [Exit(record=record("exit")), *[Interrupted(reason=Reason.REBOOT)] * 3]


def test_without_an_intact_journal_nothing_is_taken_for_never_started(
    journal: Journal, tmp_path: Path
) -> None:
    journal.write_tokens(["a"])
    journal.add_exit(record("a").to_json())
    journal.write_backlog()
    with journal_path(tmp_path, KEY).open("ab") as file:
        file.write(b"torn")

    assert verdict(tmp_path, KEY, "a", boot_id=BOOT) == Exit(record=record("a"))
    assert verdict(tmp_path, KEY, "b", boot_id=BOOT) == Interrupted(reason=Reason.LOST)
    assert verdict(tmp_path, "f" * 16, "b", boot_id=BOOT) == Interrupted(reason=Reason.LOST)


def test_an_empty_journal_is_not_intact(tmp_path: Path) -> None:
    journal_path(tmp_path, KEY).touch()

    assert not read_journal(tmp_path, KEY).is_intact


def test_a_journal_that_grew_is_rewritten_with_what_is_needed(
    journal: Journal, tmp_path: Path
) -> None:
    journal.write_tokens(["live", *(f"t{number}" for number in range(200))])
    journal.add_start("live", pid=1, start_time=2, started_ms=3)
    for number in range(200):
        journal.add_exit(record(f"t{number}", error_msg="x" * 6000).to_json())
        journal.write_backlog()
    before = read_journal(tmp_path, KEY)

    journal.shrink({"live", "t7"})
    journal.add_exit(record("live").to_json())
    journal.write_backlog()
    after = read_journal(tmp_path, KEY)

    assert after.is_intact
    assert set(after.traces) == {"live", "t7"}
    assert after.traces["t7"] == before.traces["t7"]
    assert after.traces["live"].pid == 1
    assert after.traces["live"].exit == record("live")
    assert os.listdir(tmp_path) == [journal_path(tmp_path, KEY).name]


def test_a_journal_that_nobody_needs_is_emptied_and_stays_intact(
    journal: Journal, tmp_path: Path
) -> None:
    journal.write_tokens(["a"])
    journal.add_exit(record("a", error_msg="x" * 20_000).to_json())
    journal.write_backlog()

    journal.shrink(set())
    journal.write_tokens(["b"])
    state = read_journal(tmp_path, KEY)

    assert state.is_intact
    assert list(state.traces) == ["b"]


def test_a_supervisor_keeps_its_journal_short_as_ends_are_acknowledged(bench: Bench) -> None:
    keeper = bench.shell("exec sleep 60")
    size = 0
    for _ in range(100):
        record = bench.run_shell("head -c 15000 /dev/zero")
        bench.link.acknowledge([record.token])
        size = max(size, journal_path(bench.state_dir, bench.link.supervisor_id).stat().st_size)

    bench.run("/bin/true")

    state = bench.journal()
    # Two megabytes were written; those that were acknowledged first are gone.
    assert size < 1_200_000
    assert len(state.traces) < 70
    assert state.is_intact
    assert state.traces[keeper].pid == bench.started(keeper).pid


def test_forget_removes_what_a_dead_supervisor_left_and_spares_a_living_one(
    tmp_path: Path, journal: Journal
) -> None:
    journal.write_tokens(["a"])
    (tmp_path / "run-a.out").touch()
    (tmp_path / "run-b.out").touch()
    lock_fd = take_lock(lock_path(tmp_path, KEY))

    spared = forget(tmp_path, KEY)
    there = sorted(os.listdir(tmp_path))
    os.close(lock_fd)
    removed = forget(tmp_path, KEY)

    assert (spared, removed) == (False, True)
    assert len(there) == 4
    assert os.listdir(tmp_path) == ["run-b.out"]


def written(key: str, *entries: list[object], version: int = 2) -> bytes:
    header = ["edgecron-journal", version, BOOT, key]
    return b"".join(encode_line(list(entry)) for entry in (header, *entries))


TOKENS: list[object] = ["token", ["theirs"]]


@pytest.mark.failure(70)
@pytest.mark.parametrize(
    "theirs",
    [
        written("f" * 16, TOKENS, version=3),  # of a later version, as far as can be told
        written("f" * 16, ["news", 1], TOKENS),
        written("f" * 16, TOKENS)[:-5],  # as while it is being written
        None,
    ],
    ids=["later", "news", "torn", "missing"],
)
def test_nothing_is_swept_while_another_journal_may_know_more_than_can_be_read(
    tmp_path: Path, theirs: bytes | None
) -> None:
    other, spool = "f" * 16, tmp_path / spool_name("theirs")
    other_lock = take_lock(lock_path(tmp_path, other))
    if theirs is not None:
        journal_path(tmp_path, other).write_bytes(theirs)
    spool.touch()
    os.close(take_lock(lock_path(tmp_path, KEY)))  # It died before it had a journal.

    is_forgotten = forget(tmp_path, KEY)
    was_there = spool.exists()
    journal_path(tmp_path, other).write_bytes(written(other, TOKENS))
    is_forgotten_then = forget(tmp_path, KEY)
    os.close(other_lock)

    assert (is_forgotten, was_there) == (False, True)
    assert (is_forgotten_then, spool.exists()) == (True, True)
    assert find_dead(tmp_path) == [other]


@pytest.mark.failure(70)
def test_nothing_is_swept_that_only_a_later_version_can_take_over(tmp_path: Path) -> None:
    other = "f" * 16
    journal_path(tmp_path, other).write_bytes(written(other, TOKENS, version=3))
    journal_path(tmp_path, KEY).touch()
    (tmp_path / spool_name("theirs")).touch()

    assert not forget(tmp_path, KEY)
    assert (tmp_path / spool_name("theirs")).exists()


@pytest.mark.failure(16)
def test_two_journals_that_were_torn_at_once_do_not_keep_each_other(tmp_path: Path) -> None:
    for key in (KEY, "f" * 16):
        journal_path(tmp_path, key).write_bytes(written(key, TOKENS)[:-5])
    (tmp_path / spool_name("theirs")).touch()

    assert [forget(tmp_path, key) for key in find_dead(tmp_path)] == [True, True]
    assert os.listdir(tmp_path) == []


@pytest.mark.failure(70)
def test_the_journal_of_a_first_version_is_read_and_that_of_a_later_one_is_not(
    tmp_path: Path,
) -> None:
    path = journal_path(tmp_path, KEY)

    path.write_bytes(written(KEY, TOKENS, version=1))
    first = read_journal(tmp_path, KEY)
    path.write_bytes(written(KEY, TOKENS, version=3))
    later = read_journal(tmp_path, KEY)

    assert (first.is_intact, first.is_foreign, list(first.traces)) == (True, False, ["theirs"])
    assert later == JournalState(is_intact=False, is_foreign=True)


@pytest.mark.failure(16)
def test_what_a_damaged_journal_knew_is_cleared_away_and_what_others_know_is_not(
    journal: Journal, tmp_path: Path
) -> None:
    other = Journal(tmp_path, "f" * 16, boot_id=BOOT)
    other.write_tokens(["theirs"])
    other.close()
    journal.write_tokens(["ours"])
    for token in ("ours", "theirs"):
        (tmp_path / spool_name(token)).touch()
        (tmp_path / result_name(token)).touch()
    path = journal_path(tmp_path, KEY)
    path.write_bytes(path.read_bytes()[:-5])

    # Their lock names were lost with the power; the journals are found all the same.
    dead = find_dead(tmp_path)
    forget(tmp_path, KEY)

    assert dead == [KEY, "f" * 16]
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "run-theirs.out",
        "run-theirs.result",
        f"supervisor-{'f' * 16}.journal",
    ]
