"""The layout that the migrations make: of a new database, of an old one, and as it was meant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import apsw
import pytest

from edgecron.store.sqlite.store import open_store
from tests.support.olddatabases import make_unreleased, make_version_1, script

NOW_MS = 1_795_200_000_000
migrate = import_module("edgecron.store.sqlite.migrate")

# Never edited: databases have run these. What is new takes a new file, and a line here.
LANDED = {
    "0001_foundation.sql": "cf05af8f14dc0cf470a3e769619b9627dbdca443d7d536d8c33a87b4c7784715",
    "0002_needs_upstreams.sql": "dcd78e0c34c4ae954d438919ee29106302b240682052c865aab6a41393044afb",
    "0003_retention.sql": "266b153023fb8bd2081d0451deace99145aeb6845ca069bc2a7c662f4f7682d0",
    "0004_leaner_runs.sql": "357aaebb1b6d5fcad392a2f106c8dbe63c0df4480b1da38c920106b71625e356",
    "0005_own_payloads.sql": "8977b30793d9632efd9452a6eecede05daf678820e13f84872b295e24d4266b1",
    "0006_measures.sql": "86df6eaf3e28da638b4f56077fe2c9428c287afc57768e0406babe5b661457c7",
    "0007_offers.sql": "e9ba25a8dc6e86745144aa31b0f351b258edc79200e68d5ce202637eb71e1872",
    "0008_revisions.sql": "fb87f35f926975771aafc8e21c986cff7ff8968c2330a646fd4680e3cf9fc248",
    "0009_sql_edits.sql": "d4427ff9829c8541178002cbcb135868b20df8ae241e3c6f11c65a13763b523e",
    "0010_next_times.sql": "391688a72c01f148ff95c1947756b7b395c60560cdffb4f2ccb5f34e107a8a5d",
    "0011_undo.sql": "ee111bce4558fe9f272f0330867e0d4c6c3093032649f132c718e6ec3ca70181",
    "0012_clock_sets.sql": "e9af82b28773ae5345e8338729f7b321fbbac1d916e5b462dc18a9e183271a58",
    "0013_pending_apply.sql": "7e277a254132f80c5c060e28e542cbbf2a909255c95662c32358e2273f1d56d4",
    "0014_fences.sql": "ab4e22cef2cb06ca2c1aae5e1efab59ef9511af0e033fe506f4d4dfebb86c1de",
    "0015_imports.sql": "68741c21fd8d322d190cd37b3e8a77716820c607cae08dff28cbd46d35ba81fa",
    "0016_presence.sql": "19a8dde4ec6a83e0442fa224bff91e10cc798f313f68c60c166c61e69dc9f012",
    "0017_rare_states.sql": "72077d8014a43e8dee4a148026f8a44665566e712340a7ed0ca8ebc91e47fa5e",
    "0018_places.sql": "08c20d6acf0ad1b1535fd43ba4532c468452ee54d3379649c98c00f721e1d2c4",
    "0019_lock_failures.sql": "d95f63b667c1da8290b9964856359a3a098a96a3bba613b6bb8c586da8240e5f",
    "0020_option_columns.sql": "360b1b3d18047afc315fba79b8a7520b6c4d06d11c3271eafc3567105c2c797a",
    "0021_former_queues.sql": "50a313d22009e940e8906f8f77a83371f4633d7f5ceb5182390e20963901c638",
    "0022_engine_zones.sql": "bd641136d1176c94a556d652ff00e66a3b2f15b4dbbca4042a7b3890da35675f",
    "0023_nice.sql": "22fe3e727b57a65c9753ac3264b8250e76b2b348838b2a9642d5de3e8327e5de",
    "0024_engine_trust.sql": "99384b77866c975c1f50fdb28b02ea13051a01864be5a095773b4955ee9d84f8",
    "0025_max_late.sql": "8fbdd8e2a0719c843ca81d2443c273e9cc690b9cb3958bcf58a440c2f23e86d1",
    "0026_priorities.sql": "6095aeb3e6f505d8908ba3cc4b25973c4d19d763ae9facba39e7bb9773fd1844",
    "0027_notices.sql": "4eba10891f9b9f14bcc1488bb6763ce0196a994382ec9474242359644ba1d27c",
    "0028_watches.sql": "08d0b3f4653394f606cec50ac70471756beea7d80ba458141971dfceaa453eeb",
    "0029_notify.sql": "2fe37b73a2ac36036ba199bfa79acb602d379798acc5b6357e6006fd73558166",
    "0030_changes.sql": "b489417f02ce49d894c28bf3400419d5c96513e223cbec90c7d4ff70a1839bf5",
    "0031_unwell_indexes.sql": "bc331825fd3e1ef06d5f5ca9fdbb037edf360ffd21ff3888cd2f9cffa90546a3",
    "0032_silence.sql": "1f45e2fa3cfe352d692b0d8364625961c49b178eb2bcc1dd9e66d7e978a5f260",
    "0033_run_limits.sql": "9fb5f520d74d6a35c4f00189cfcbf1a9e79e02fa0bcf8424a434f69b029f365c",
    "0034_windows.sql": "a8c1f79080f18bb5eedac59cd04ab11f48127890ba81f19a06d68ccf83f73f81",
    "0035_while.sql": "a9e895d66a101f49b35ef5ae368a53f79ce22b580c5767816f71ff35f00397d2",
    "0036_calendars.sql": "9674bc5c34c2fc0b99d410b49071bf0c1dc447356c17152813f871c126d396dc",
    "0037_noted_again.sql": "150a2fd69d61dbb7d40b33811b9a592eed711d560360793a74a382775f3889ba",
    "0038_whole_rules.sql": "f8923a26d5936069fcbc31cb9771143933b14e67f16c74b26515d1f0e73a7cb4",
    "0039_enqueued.sql": "d6bf82cf48453320093f0f7262e61c26ba70d39290f6fea8f002717b7ef91414",
    "0040_declined.sql": "e8b68e8d15a15bf041a99bc1adf3652073e659eda807c7800e9161def5a1465f",
    "0041_notices_by_rule.sql": "01d737a70ce16d5fe8615ec3fe7156c5e58b8cbc36498df43445e746d63165ce",
    "0042_delayed_runs.sql": "5607ddf1e9914cac893d1e6cb1aeef7461c323a6ec4eae43bed1be49476e1667",
    "0043_placement.sql": "6230146894901f256cd132e8fe9dd693b19668b0afb4c1cd79c10aacbe4a8f0c",
    "0044_drained_engines.sql": "18d660c4d69092de4bde3a1833a24a7cf59fafb54f0d90686dff058a98e30110",
}


def test_no_migration_changes_once_it_has_landed() -> None:
    folder = Path(str(migrate.__file__)).parent / "migrations"

    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.sql")
    }

    assert found == LANDED, "add a new file instead"


def test_every_migration_has_its_number() -> None:
    assert tuple(LANDED) == migrate.SCRIPTS
    assert [int(name[:4]) for name in LANDED] == list(range(1, migrate.SCHEMA_VERSION + 1))


def layout_of(path: Path) -> dict[str, object]:
    """What a database holds, whatever the order of columns, blanks and comments."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    found: dict[str, object] = {}
    for kind, name, table, sql in connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema"
    ).fetchall():
        if kind == "table" and not str(name).startswith("sqlite_"):
            found[f"columns of {name}"] = {
                tuple(row[1:])
                for row in connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
            }
            found[f"references of {name}"] = {
                tuple(row[2:])
                for row in connection.execute(f"PRAGMA foreign_key_list({name})").fetchall()
            }
            found[f"table {name}"] = sorted(definitions(str(sql)))
        elif not str(name).startswith("sqlite_autoindex_"):
            found[f"{kind} {name} of {table}"] = plain(str(sql))
    connection.close()
    return found


def plain(sql: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql)).strip()


def definitions(sql: str) -> list[str]:
    """The columns and constraints of a CREATE TABLE, and what comes after them."""
    text = plain(sql)
    body, after = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 1 :]
    parts, depth = [""], 0
    for letter in body:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [*(part.strip() for part in parts), after.strip()]


def test_the_second_migration_makes_the_layout_that_was_meant(tmp_path: Path) -> None:
    path, meant = tmp_path / "old.db", tmp_path / "meant.db"
    make_version_1(path)
    make_unreleased(meant)

    connection = apsw.Connection(str(path))
    connection.execute(script(2))
    connection.close()

    assert layout_of(path) == layout_of(meant)


@pytest.mark.failure(68)
@pytest.mark.parametrize("make", [make_version_1, make_unreleased])
def test_an_old_database_gets_the_layout_of_a_new_one(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    make(old)

    for path in (old, new):
        open_store(path, now_ms=NOW_MS).close()

    assert layout_of(old) == layout_of(new)


def test_a_layout_that_lacks_a_check_is_told_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    for path, check in ((one, "x >= 0"), (other, "x > 0")):
        connection = apsw.Connection(str(path))
        connection.execute(f"CREATE TABLE t (y TEXT, x INTEGER CHECK ({check}))")
        connection.close()

    assert layout_of(one) != layout_of(other)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE schedules SET needs_deadline_s = NULL",
        "UPDATE schedules SET needs_deadline_s = -1",
        "UPDATE schedules SET after_end_ms = 0",
        "UPDATE executions SET waiting_for = 'success:x:1h' WHERE status = 'running'",
        "UPDATE executions SET waiting_for = 'x', wait_until = 1 WHERE status = 'running'",
        "UPDATE executions SET wait_until = 1 WHERE status = 'running'",
        "UPDATE executions SET lease_token = NULL WHERE status = 'running'",
        "UPDATE executions SET error_msg = 'x' WHERE status = 'success'",
        "INSERT INTO schedule_upstreams (schedule_id, upstream, ends) VALUES (1, 'x', 'never')",
        "INSERT INTO schedule_upstreams (schedule_id, upstream, ends) VALUES (999, 'x', 'any')",
        "INSERT INTO schedules SELECT * FROM schedules WHERE id = 1",
        "DELETE FROM schedules WHERE id = 4",
    ],
)
def test_what_may_not_be_is_refused_after_a_migration(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "old.db"
    make_version_1(path)
    open_store(path, now_ms=NOW_MS).close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = ON")

    with pytest.raises(apsw.ConstraintError):
        connection.execute(statement)

    connection.close()


def test_the_scripts_are_what_is_run() -> None:
    steps = range(1, migrate.SCHEMA_VERSION + 1)

    assert [migrate.read_sql("migrations", name) for name in migrate.SCRIPTS] == [
        script(step) for step in steps
    ]


def test_the_scripts_make_the_triggers_that_are_allowed_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    open_store(path, now_ms=NOW_MS).close()
    connection = apsw.Connection(str(path))

    made = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()

    assert sorted(str(sql) for (sql,) in made) == sorted(migrate.own_triggers())
    connection.close()
