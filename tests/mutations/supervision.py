"""What a supervisor, its guardian and its journal hold to."""

from __future__ import annotations

from tests.support.edits import Edit

from .hunts import TORN_JOURNALS
from .mutation import Hunt, Mutation

_COMMANDS = "tests/supervisor/test_supervisor_commands.py"
_CONTROL = "tests/supervisor/test_supervisor_control.py"
_GUARDIAN = "tests/supervisor/test_supervisor_guardian.py"
_JOURNAL = "tests/supervisor/test_supervisor_journal.py"
_OUTPUT = "tests/supervisor/test_supervisor_output.py"
_PROCESS = "tests/supervisor/test_supervisor_process.py"
_RESERVE = "tests/supervisor/test_supervisor_reserve.py"

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="revocation",
        guard="a supervisor starts no token that was revoked",
        proves=("I3", "17"),
        edits=(
            Edit(
                function="Supervisor._start",
                old=("del fresh[token]\n        self._recorder.refuse([token],"),
                new="self._recorder.refuse([token],",
            ),
        ),
        hunt=Hunt(
            tests=(f"{_CONTROL}::test_a_token_that_was_revoked_never_starts",),
            says="test_a_token_that_was_revoked_never_starts",
        ),
        is_quick=True,
    ),
    Mutation(
        name="revocation-of-what-waits",
        guard="a revocation withdraws what waits to be started",
        proves=("I3", "17"),
        edits=(
            Edit(
                function="Supervisor.revoke",
                old="self._queue.remove(token)]",
                new="token in self._queue]",
            ),
        ),
        hunt=Hunt(
            tests=(f"{_CONTROL}::test_a_token_that_waits_is_withdrawn_by_a_revocation",),
            says="test_a_token_that_waits_is_withdrawn_by_a_revocation",
        ),
    ),
    Mutation(
        name="started-once",
        guard="a token starts once, however often it is asked for",
        proves=("I3",),
        edits=(
            Edit(
                function="Supervisor._start",
                old="requests if not self._is_known(request.token)}",
                new="requests}",
            ),
        ),
        hunt=Hunt(
            tests=(f"{_PROCESS}::test_a_token_starts_once_however_often_it_is_asked_for",),
            says="test_a_token_starts_once_however_often_it_is_asked_for",
        ),
    ),
    Mutation(
        name="token-before-start",
        guard="a token is in the journal before its command starts",
        proves=("I3", "17", "18"),
        edits=(
            Edit(
                function="Journal.write_tokens",
                old=("self.write_backlog()\n    self._append(encode_line(['token',"),
                new="self._backlog.append(encode_line(['token',",
            ),
        ),
        hunt=Hunt(
            tests=(
                f"{_GUARDIAN}::test_no_start_escapes_that_is_not_on_record_yet",
                f"{_OUTPUT}::test_without_space_for_a_token_nothing_is_started_and_that_is_said",
            ),
            says="test_(no_start_escapes|without_space)",
        ),
    ),
    Mutation(
        name="places-of-a-supervisor",
        guard="a supervisor never has more commands than places",
        proves=("I7",),
        edits=(
            Edit(
                function="StartQueue._free_count",
                old="self._places is None",
                new="self._places is not None",
            ),
        ),
        hunt=Hunt(
            tests=(f"{_RESERVE}::test_a_free_place_is_filled_without_the_engine",),
            says="test_a_free_place_is_filled_without_the_engine",
        ),
    ),
    Mutation(
        name="given-back",
        guard="a run that was given back is never started",
        proves=("I3",),
        edits=(
            Edit(
                function="StartQueue.take_overdue",
                old="del self._reserve[token]",
                new="self._reserve[token] = (self._reserve[token][0], self._clock.monotonic_ms())",
            ),
        ),
        hunt=Hunt(
            tests=(f"{_RESERVE}::test_what_waits_too_long_is_given_back_and_never_started",),
            says="test_what_waits_too_long_is_given_back_and_never_started",
        ),
    ),
    Mutation(
        name="token-with-its-place",
        guard="the token of a run without a place is not in the journal",
        proves=("I15",),
        edits=(
            Edit(
                function="StartQueue.add",
                old="now_ms = self._clock.monotonic_ms()",
                new=(
                    "self._recorder.open_tokens([request.token for request in requests])\n    "
                    "now_ms = self._clock.monotonic_ms()"
                ),
            ),
        ),
        hunt=Hunt(
            tests=(f"{_RESERVE}::test_what_waits_for_a_place_was_never_started_if_all_die",),
            says="test_what_waits_for_a_place_was_never_started_if_all_die",
        ),
    ),
    Mutation(
        name="guardian",
        guard="a guardian ends what a dead supervisor ran",
        proves=("I3", "18"),
        edits=(
            Edit(
                function="serve_detached",
                old="_fork_guarded() if become_subreaper() else None",
                new="None",
            ),
        ),
        hunt=Hunt(
            tests=(f"{_GUARDIAN}::test_all_runs_of_a_killed_supervisor_are_ended_and_reaped",),
            says="test_all_runs_of_a_killed_supervisor_are_ended_and_reaped",
        ),
    ),
    Mutation(
        name="lock-closed-in-commands",
        guard="no command inherits its supervisor's lock",
        proves=("38", "18"),
        edits=(Edit(function="_hold_lock", old="fcntl.F_DUPFD_CLOEXEC,", new="fcntl.F_DUPFD,"),),
        hunt=Hunt(
            tests=(f"{_PROCESS}::test_no_command_holds_the_lock",),
            says="test_no_command_holds_the_lock",
        ),
    ),
    Mutation(
        name="session-of-its-own",
        guard="a command has a session and a process group of its own",
        proves=("32", "33", "36"),
        edits=(
            Edit(
                function="Spawner._popen",
                old="start_new_session=True)",
                new="start_new_session=False)",
            ),
        ),
        hunt=Hunt(
            tests=(f"{_COMMANDS}::test_a_command_has_its_own_session_and_group",),
            says="test_a_command_has_its_own_session_and_group",
        ),
    ),
    Mutation(
        name="journal-checksum",
        guard="a line of a journal is believed by its checksum",
        proves=("16",),
        edits=(
            Edit(
                function="decode_line",
                old=("if checksum != b'%08x' % zlib.crc32(text):\n        return None\n    entry"),
                new="entry",
            ),
        ),
        hunt=Hunt(tests=(TORN_JOURNALS, _JOURNAL), says="test_.*journal"),
    ),
    Mutation(
        name="torn-line",
        guard="a journal that ends within a line is not intact",
        proves=("16", "17"),
        edits=(Edit(function="read_journal", old="lines[-1] == b''", new="True"),),
        hunt=Hunt(tests=(_JOURNAL,), says="test_.*"),
    ),
    Mutation(
        name="boot-of-a-journal",
        guard="what a journal of another boot says of processes is not believed",
        proves=("16", "20"),
        edits=(Edit(function="judge", old="journal.boot_id == boot_id", new="True"),),
        hunt=Hunt(tests=(TORN_JOURNALS,), says="test_whatever_is_left_of_a_journal"),
    ),
    Mutation(
        name="same-process",
        guard="a process id in use again is not taken for the run",
        proves=("20",),
        edits=(
            Edit(
                function="find_doomed",
                old="leader is None or leader.start_time == trace.start_time",
                new="True",
            ),
        ),
        hunt=Hunt(
            tests=(
                f"{_GUARDIAN}::test_what_is_doomed_is_told_by_the_journal_and_by_who_is_a_child",
            ),
            says="test_what_is_doomed",
        ),
    ),
)
