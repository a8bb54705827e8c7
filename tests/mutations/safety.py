"""The file and the terminal: what is synced, who may read, what is shown."""

from __future__ import annotations

from tests.support.edits import Edit

from .hunts import CUTS
from .mutation import Hunt, Mutation

_FILE = "tests/store/test_sqlite_file.py"

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="synchronous",
        guard="a claim is on the disk when its COMMIT returns (synchronous=FULL)",
        proves=("16",),
        edits=(Edit(function="configure", old="FULL'", new="NORMAL'"),),
        hunt=Hunt(
            tests=(CUTS,), says="AssertionError: (lost|less than when a call had last returned)"
        ),
        is_quick=True,
    ),
    Mutation(
        name="rollback",
        guard="a transaction that failed leaves nothing",
        proves=("51", "15"),
        edits=(
            Edit(
                function="Database._new_transaction",
                old="self._connection.execute('ROLLBACK')",
                new="self._connection.execute('COMMIT')",
            ),
        ),
        hunt=Hunt(
            tests=("tests/store/test_sqlite_file.py", "tests/store/test_store_schedules.py"),
            says="test_",
        ),
    ),
    Mutation(
        name="schema-under-the-lock",
        guard="an older edgecron writes nothing once the schema is newer",
        proves=("70",),
        edits=(
            Edit(
                function="Database._new_transaction",
                old=("self.check_version()\n            yield"),
                new="yield",
            ),
        ),
        hunt=Hunt(
            tests=("tests/engine/test_engine_versions.py", _FILE),
            says="test_.*(version|newer|older)",
        ),
    ),
    Mutation(
        name="private-file",
        guard="a database is its owner's alone",
        proves=("I19", "62"),
        edits=(
            Edit(
                function="_create_file",
                old="os.fchmod(descriptor, 384)",
                new="os.fchmod(descriptor, 420)",
            ),
        ),
        hunt=Hunt(tests=(_FILE,), says="test_files_are_for_their_owner_alone"),
    ),
)
