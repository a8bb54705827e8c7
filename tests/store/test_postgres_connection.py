"""One connection to a PostgreSQL server: its transactions, its errors, and a server that goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from edgecron.base.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseUnusable,
    InvalidInput,
    NotFound,
    QueryInterrupted,
    SchemaTooNew,
    Unreadable,
)
from edgecron.model.run import Output, OutputChunk, Stream
from edgecron.store.sql.outbox import find_rules, write_rules
from edgecron.store.sqlite.store import open_store as open_file
from tests.store.store_bench import Bench, OpenStore, outcome_of
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.support.tools import need_packages

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import PostgresServer

need_packages("psycopg")
import psycopg  # noqa: E402

from edgecron.store.postgres.store import Listening, PostgresStore, open_store  # noqa: E402

# Opens a store, which is closed after the test.
Opener = Callable[..., PostgresStore]

NOTE = "UPDATE meta SET trusted_high_at = :at"


def write_and_fail(store: PostgresStore) -> None:
    store.change(NOTE, {"at": 5})
    store.rows("SELECT 1 FROM nowhere")


def write_within_and_fail(store: PostgresStore) -> None:
    with store.transaction():
        store.change(NOTE, {"at": 5})
    store.rows("SELECT 1 FROM nowhere")


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def opened(url: str) -> Iterator[Opener]:
    stores: list[PostgresStore] = []

    def open_one(
        at: str = url, *, seed: bytes | None = None, busy_wait_s: float = 30
    ) -> PostgresStore:
        stores.append(open_store(at, now_ms=0, seed=seed, busy_wait_s=busy_wait_s))
        return stores[-1]

    yield open_one
    for one in stores:
        one.close()


@pytest.fixture
def store(opened: Opener) -> PostgresStore:
    return opened()


# What both kinds of database have, as (table, name) or more, in the words of each kind.
SCHEMAS = {
    "columns": (
        """SELECT table_name, column_name, is_nullable = 'NO'
           FROM information_schema.columns JOIN information_schema.tables
               USING (table_schema, table_name)
           WHERE table_schema = 'edgecron' AND table_type = 'BASE TABLE'
               AND table_name != 'versions'""",
        """SELECT t.name, c.name, c."notnull" OR c.pk
           FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
           WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'""",
    ),
    "columns of views": (
        """SELECT table_name, column_name
           FROM information_schema.columns JOIN information_schema.views
               USING (table_schema, table_name)
           WHERE table_schema = 'edgecron'""",
        """SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
           WHERE t.type = 'view'""",
    ),
    "indexes": (
        """SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'edgecron'
               AND indexname NOT LIKE '%_pkey' AND indexname NOT LIKE '%_key'""",
        """SELECT tbl_name, name FROM sqlite_schema
           WHERE type = 'index' AND name NOT LIKE 'sqlite%'""",
    ),
    "triggers": (
        """SELECT c.relname, t.tgname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
           WHERE c.relnamespace = 'edgecron'::regnamespace AND NOT t.tgisinternal""",
        "SELECT tbl_name, name FROM sqlite_schema WHERE type = 'trigger'",
    ),
    "number of checks": (
        """SELECT c.relname, count(*) FROM pg_constraint AS t JOIN pg_class AS c
               ON c.oid = t.conrelid
           WHERE c.relnamespace = 'edgecron'::regnamespace AND t.contype = 'c'
               AND c.relname != 'versions' GROUP BY c.relname""",
        """SELECT name, (length(sql) - length(replace(sql, 'CHECK (', ''))) / 7
           FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%CHECK (%'""",
    ),
}


# Engines of a file need none.
OF_LEASES = {
    ("engines", "machine"),
    ("engines", "heartbeat_at"),
    ("engines", "stale_after"),
    ("engines", "polls_ms"),
    ("executions", "executions_leased"),
    ("executions", "executions_leased_new"),
    # A file has its log, which shows the writes of all programs.
    ("executions", "executions_foreign"),
    ("schedules", "schedules_foreign"),
}


@pytest.mark.parametrize("what", SCHEMAS)
def test_a_new_database_has_the_schema_that_a_file_has(
    postgres: PostgresServer, opened: Opener, tmp_path: Path, what: str
) -> None:
    of_server, of_file = SCHEMAS[what]
    new = opened(postgres.create_empty())
    file = open_file(tmp_path / "edgecron.db", now_ms=0)

    found = new.rows(of_server)

    assert found
    of_both = {one for one in found if one[:2] not in OF_LEASES}
    assert of_both == set(file.rows(of_file))
    file.close()


def test_a_database_keeps_its_seed_and_uuid(store: PostgresStore, opened: Opener) -> None:
    again = opened(seed=b"x" * 16)

    assert (again.seed, again.uuid) == (store.seed, store.uuid)


def test_an_error_rolls_back_all_that_a_transaction_wrote(store: PostgresStore) -> None:
    with pytest.raises(DatabaseDamaged), store.transaction():
        write_and_fail(store)

    assert store.row("SELECT trusted_high_at FROM meta") == (None,)


def test_the_change_mark_counts_the_changes_of_others_only(
    store: PostgresStore, opened: Opener
) -> None:
    other = opened()
    mark = store.change_mark
    with store.transaction():
        store.change(NOTE, {"at": 5})
    after_own = store.change_mark
    with other.transaction():
        assert other.change("UPDATE meta SET trusted_high_at = 6 WHERE id = 2") == 0
    after_none = store.change_mark

    with other.transaction():
        other.change(NOTE, {"at": 7})

    assert (after_own, after_none) == (mark, mark)
    assert store.change_mark != mark


def test_a_writer_waits_for_another_only_as_long_as_it_may(
    store: PostgresStore, opened: Opener
) -> None:
    other = opened(busy_wait_s=0.01)

    with (
        store.transaction(),
        pytest.raises(DatabaseBusy, match="is locked by another process"),
        other.transaction(),
    ):
        pass

    with other.transaction():
        assert other.change(NOTE, {"at": 5}) == 1
        assert not other.was_locked


def test_transactions_together_are_one(store: PostgresStore) -> None:
    with pytest.raises(DatabaseDamaged), store.transaction():
        write_within_and_fail(store)

    with store.rehearsal():
        store.change(NOTE, {"at": 6})

    assert store.row("SELECT trusted_high_at FROM meta") == (None,)


def test_a_connection_that_was_lost_while_idle_is_opened_again(
    store: PostgresStore, postgres: PostgresServer
) -> None:
    postgres.end_connections()
    assert store.row("SELECT 1") == (1,)

    postgres.end_connections()
    with store.transaction():
        store.change(NOTE, {"at": 7})

    assert store.row("SELECT trusted_high_at FROM meta") == (7,)


def test_a_connection_that_is_lost_within_a_transaction_ends_it(
    store: PostgresStore, postgres: PostgresServer
) -> None:
    def write_and_lose() -> None:
        store.change(NOTE, {"at": 7})
        postgres.end_connections()
        with suppress(DatabaseUnusable):
            store.row("SELECT 1")
        store.row("SELECT 2")  # never on another connection, outside of the transaction

    with pytest.raises(DatabaseUnusable, match="can't be used"), store.transaction():
        write_and_lose()

    assert store.row("SELECT trusted_high_at FROM meta") == (None,)


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_transaction_that_the_server_gives_up_can_be_repeated(
    store: PostgresStore, state: str
) -> None:
    give_up = f"DO $$ BEGIN RAISE EXCEPTION 'gave up' USING ERRCODE = '{state}'; END $$"

    def write_and_give_up() -> None:
        store.change(NOTE, {"at": 7})
        store.rows(give_up)

    with pytest.raises(DatabaseBusy), store.transaction():
        write_and_give_up()

    assert store.row("SELECT trusted_high_at FROM meta") == (None,)


@pytest.mark.failure(94)
def test_only_one_machine_sends_notices(store: PostgresStore, opened: Opener) -> None:
    other = opened()
    found = []
    with store.sending_alone(wait_s=0.01) as first:
        for _ in range(2):
            with other.sending_alone(wait_s=0.01) as second:
                found += [first, second]
    with other.sending_alone(wait_s=0.01) as after:
        found.append(after)

    assert found == [True, False, True, False, True]


@pytest.mark.failure(94)
def test_a_short_limit_of_statements_does_not_end_the_wait_for_another_sender(
    store: PostgresStore, url: str, opened: Opener
) -> None:
    hasty = opened(f"{url}&options=-c%20statement_timeout%3D400")
    with store.sending_alone(wait_s=0.01), hasty.sending_alone(wait_s=0.5) as is_alone:
        assert not is_alone


@pytest.mark.failure(94)
def test_machines_that_record_their_rules_at_the_same_time_keep_those_of_each_other(
    store: PostgresStore, opened: Opener
) -> None:
    other, empty = opened(), dict.fromkeys(("wants_runs", "late_ms", "slow_ms", "beat_ms", "rule"))
    ours, theirs = (
        {**empty, "name": name, "channel": "command", "wants_runs": 0, "words": "failures"}
        for name in ("ours", "theirs")
    )
    waiting = threading.Thread(
        target=partial(write_rules, other, [theirs], source="f", now_ms=5, kept_ms=10)
    )
    with store.transaction():
        write_rules(store, [ours], source="f", now_ms=4, kept_ms=10)
        waiting.start()
        while store.row("SELECT count(*) FROM pg_locks WHERE NOT granted") == (0,):
            pass
    waiting.join(30)

    found = [(one.name, one.gone_ms) for one in find_rules(store)]
    assert found == [("ours", 5), ("theirs", None)]


@pytest.mark.failure(93)
def test_a_statement_that_the_server_cancels_is_trouble_and_no_wish_of_ours(
    store: PostgresStore,
) -> None:
    cancelled = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)"
    with pytest.raises(DatabaseUnusable, match="the server has ended a statement"):
        store.row(cancelled)
    store.interrupt()
    with pytest.raises(QueryInterrupted):
        store.row(cancelled)

    assert store.row("SELECT 1") == (1,)


@pytest.mark.failure(93)
def test_a_database_that_is_dropped_is_trouble_for_who_had_it_open(
    store: PostgresStore, url: str, postgres: PostgresServer
) -> None:
    postgres.drop_databases()

    with pytest.raises(DatabaseUnusable, match="does not exist"):
        store.row("SELECT 1")
    with pytest.raises(NotFound, match="does not exist"):
        open_store(url, now_ms=0)


def test_a_writer_that_has_waited_sees_what_the_other_has_committed(
    url: str, store: PostgresStore, opened: Opener
) -> None:
    serializable = opened(f"{url}&options=-c%20default_transaction_isolation%3Dserializable")
    found: list[object] = []

    def write_after() -> None:
        with serializable.transaction():
            found.append(serializable.row("SELECT trusted_high_at FROM meta"))
            found.append(serializable.change(NOTE, {"at": 6}))

    waiting = threading.Thread(target=write_after, name="waiting writer")
    with store.transaction():
        waiting.start()
        store.change(NOTE, {"at": 5})
        while store.row("SELECT count(*) FROM pg_locks WHERE NOT granted") == (0,):
            pass
    waiting.join(30)

    assert found == [(5,), 1]


@pytest.mark.failure(86)
def test_a_writer_waits_for_a_row_that_another_program_holds_only_as_long_as_it_may(
    url: str, opened: Opener
) -> None:
    writer = opened(busy_wait_s=0.01)
    with psycopg.connect(url) as foreign:
        foreign.execute("UPDATE edgecron.meta SET trusted_high_at = 6")

        with pytest.raises(DatabaseBusy), writer.transaction():
            writer.change(NOTE, {"at": 7})

        foreign.rollback()
    with writer.transaction():
        assert writer.change(NOTE, {"at": 7}) == 1


def test_a_transaction_that_its_process_leaves_open_is_ended_by_the_server(
    store: PostgresStore,
) -> None:
    with store.transaction():
        assert store.row("SHOW idle_in_transaction_session_timeout") == ("10s",)
    assert store.row("SHOW idle_in_transaction_session_timeout") == ("0",)


def test_each_server_of_a_url_says_why_it_can_not_be_used() -> None:
    with pytest.raises(DatabaseUnusable, match=r"/nonexistent/.* failed: .*/nowhere/.* failed: "):
        open_store("postgresql:///app?host=/nonexistent,/nowhere", now_ms=0)


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(DatabaseUnusable) as raised:
        open_store("postgresql://me:secret@/app?host=/nonexistent&port=5999", now_ms=0)

    assert "postgresql://me@/app?host=/nonexistent&port=5999" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.hint is not None


def test_a_wrong_password_is_refused_and_not_shown(postgres: PostgresServer, url: str) -> None:
    postgres.ask_password("wary", "right")

    with pytest.raises(DatabaseUnusable, match="refuses the password of postgresql://wary") as told:
        open_store(url.replace("postgres@", "wary:wr0ng@"), now_ms=0)

    assert "wr0ng" not in str(told.value)
    assert "~/.pgpass" in (told.value.hint or "")


def test_a_url_that_can_not_be_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match="can't be read"):
        open_store("postgresql://me@host/app?no_such_setting=1", now_ms=0)


def test_errors_of_the_server_say_what_they_mean(store: PostgresStore) -> None:
    with pytest.raises(DatabaseDamaged, match="does not have the tables"):
        store.rows("SELECT 1 FROM nowhere")
    with pytest.raises(Unreadable, match="content that can't be read"), store.transaction():
        store.change("UPDATE meta SET seed = zeroblob(3)")


def test_a_database_of_a_newer_edgecron_is_refused(store: PostgresStore, opened: Opener) -> None:
    with store.transaction():
        store.change("UPDATE versions SET schema = 99")

    with pytest.raises(SchemaTooNew, match="is version 99"):
        opened()
    with (
        pytest.raises(DatabaseUnusable, match="is version 99, this edgecron knows up to"),
        store.transaction(),
    ):
        pass


def test_rows_have_the_types_that_a_file_has(store: PostgresStore) -> None:
    found = store.row(
        """SELECT 1 = 1, 2 IS NULL, :text, :flag, 1.5 * 2, sum(2), json_array('a', 'b'),
               :none IS NULL, :text IS NOT NULL, 'a' IS 'b', 100 % 7, 'a%'""",
        {"text": "x", "flag": True, "none": None},
    )

    assert found == (1, 0, "x", 1, 3.0, 2, '["a","b"]', 1, 1, 0, 2, "a%")


def test_a_large_result_comes_a_few_rows_at_a_time(store: PostgresStore) -> None:
    rows = store.each("SELECT n FROM generate_series(1, 1000) AS n")

    assert next(rows) == (1,)
    assert store.row("SELECT 5") == (5,)
    assert sum(row[0] for row in rows) == 500_499


# Many updates of one row by its id become one statement.
_ADD = """UPDATE schedules SET run_count = run_count + :count, last_error = :error,
    last_run_at = iif(:ran IS NULL, last_run_at, :ran) WHERE id = :id"""


def test_updates_of_many_rows_are_those_of_each_in_their_order(
    opened: Opener, url: str, clock: FakeClock
) -> None:
    bench = Bench(cast("OpenStore", partial(opened, url)), clock)
    for name in ("one", "two"):
        bench.add(make_spec(name))
    sets: list[dict[str, Any]] = [
        {"id": 1, "count": 1, "error": "first", "ran": None},
        {"id": 2, "count": 5, "error": None, "ran": 7},
        {"id": 1, "count": 2, "error": "last", "ran": None},
        {"id": 3, "count": 9, "error": None, "ran": None},
    ]

    with bench.store.transaction():
        bench.store.change_many(_ADD, sets)

    assert bench.store.rows(
        "SELECT id, run_count, last_error, last_run_at FROM schedules ORDER BY id"
    ) == [(1, 3, "last", None), (2, 5, None, 7)]


def test_rows_of_many_updates_come_in_the_order_of_the_updates(
    opened: Opener, url: str, clock: FakeClock
) -> None:
    bench = Bench(cast("OpenStore", partial(opened, url)), clock)
    for name in ("one", "two", "three"):
        bench.add(make_spec(name))

    with bench.store.transaction():
        found = bench.store.returning_each(
            "UPDATE schedules SET fence = :fence WHERE id = :id RETURNING :place, name",
            [{"id": id_, "fence": id_, "place": place} for place, id_ in enumerate((3, 1, 2))],
        )

    assert found == [(0, "three"), (1, "one"), (2, "two")]


def test_behind_a_pooler_a_connection_needs_no_session(
    postgres: PostgresServer, opened: Opener
) -> None:
    name = postgres.create_empty().partition("@/")[2].partition("?")[0]
    with postgres.pooler() as folder:
        url = postgres.url(name, folder=folder)
        store, other = opened(url), opened(url)
        for at_ms in range(8):
            for one in (store, other):
                with one.transaction():
                    assert one.change(NOTE, {"at": at_ms}) == 1
                assert one.row("SELECT trusted_high_at FROM meta") == (at_ms,)
        rows = store.each("SELECT n FROM generate_series(1, 1000) AS n")

        assert sum(row[0] for row in rows) == 500_500
        with psycopg.connect(url) as foreign:
            assert foreign.execute("SHOW search_path").fetchall() == [('"$user", public',)]
            assert foreign.execute("SELECT * FROM pg_prepared_statements").fetchall() == []
        assert store.row("SHOW jit") == ("off",)
        listening = Listening(store, hears_all=True)
        assert listening.arm() == []
        assert listening.poll_ms is not None
        store.close()
        other.close()


def test_the_server_compiles_no_statement(store: PostgresStore) -> None:
    assert store.row("SHOW jit") == ("off",)


def test_an_edit_by_a_psql_that_does_not_search_our_schema(url: str, store: PostgresStore) -> None:
    bench = Bench(lambda: store, FakeClock())  # type: ignore[arg-type, return-value]
    bench.add(make_spec("sync", "every 1h"))

    with psycopg.connect(url, autocommit=True) as anyone:
        anyone.execute("UPDATE edgecron.schedules SET priority = 5")
    edited = store.get_schedule("sync")
    with psycopg.connect(url, autocommit=True) as anyone:
        anyone.execute("UPDATE edgecron.schedules SET enabled = 0")

    assert (edited.revision, edited.spec.policies.priority) == (2, 5)
    assert not store.get_schedule("sync").enabled


def test_own_changes_are_no_news_under_another_name(opened: Opener, url: str) -> None:
    store = opened(f"{url}{'&' if '?' in url else '?'}application_name=office")
    bench = Bench(lambda: cast("Any", store), FakeClock())
    before = store.change_mark

    bench.add(make_spec())

    assert store.change_mark == before


def test_due_schedules_are_left_to_an_engine_that_claims_from_their_queue(
    store: PostgresStore, url: str
) -> None:
    other = open_store(url, now_ms=0, busy_wait_s=0)
    clock = FakeClock()
    bench = Bench(lambda: other, clock)  # type: ignore[arg-type, return-value]
    bench.add(make_spec("sync", "* * * * *"))
    clock.advance_ms(60_000)
    seen = bench.decide(bench.look())

    with store.taking_turns("command"), store.transaction():
        lost = bench.claim(seen)
    with store.taking_turns("command on web1"), store.transaction(), pytest.raises(DatabaseBusy):
        bench.claim(seen)  # It waits for a writer of another kind.
    won = bench.claim(seen)
    other.close()

    assert (lost.advanced, lost.granted, lost.decided) == (0, (), ())
    assert (won.advanced, len(won.granted)) == (1, 1)


def test_output_for_followers_never_replaces_that_of_an_end(
    store: PostgresStore, opened: Opener
) -> None:
    clock = FakeClock()
    bench = Bench(lambda: store, clock)  # type: ignore[arg-type, return-value]
    bench.add(make_spec("sync", "* * * * *"))
    clock.advance_ms(60_000)
    [grant] = bench.fire().granted
    part, whole = (
        Output(
            chunks=(OutputChunk(stream=Stream.STDOUT, at_ms=1, content=content),),
            stdout_bytes=len(content),
        )
        for content in (b"a", b"ab")
    )
    late = opened()
    late.rows("SET lock_timeout = 100")
    run_id, engine_id = grant.execution_id, bench.claimant.engine_id

    late.store_printed(run_id, part, engine_id=engine_id)
    so_far = late.find_output(run_id)
    with store.transaction():
        store.finish([outcome_of(grant, bench.now)._replace(output=whole)], now_ms=bench.now)
        late.store_printed(run_id, part, engine_id=engine_id)  # It does not wait.
    late.store_printed(run_id, part, engine_id=engine_id)

    assert (so_far, late.find_output(run_id)) == (part, whole)


@pytest.mark.parametrize("places", [1, 2])
def test_a_claim_wakes_engines_only_if_it_leaves_a_run_to_them(
    store: PostgresStore, url: str, places: int
) -> None:
    other = open_store(url, now_ms=0)
    clock = FakeClock()
    bench = Bench(lambda: other, clock, places=places)  # type: ignore[arg-type, return-value]
    for name in ("one", "two"):
        bench.add(make_spec(name, "* * * * *"))
    clock.advance_ms(60_000)
    engine, follower = (Listening(store, hears_all=hears_all) for hears_all in (False, True))
    for one in (engine, follower):
        one.arm()
        one.take_news()

    batch = bench.fire()
    other.note_presence(bench.claimant.engine_id, now_ms=clock.now_ms())
    store.row("SELECT 1")  # The notice can come with an answer.
    engine.clear()
    other.close()

    assert len(batch.granted) == places
    assert (engine.take_news(), follower.take_news()) == (places == 1, True)
