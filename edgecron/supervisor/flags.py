"""What is noted of a run besides its end."""

from __future__ import annotations

from enum import StrEnum


class Flag(StrEnum):
    PIPE_HELD = "pipe_held"  # another process kept stdout or stderr open when the main one ended
    LEFT_BEHIND = "left_behind"  # its group or session had processes when the main one ended
    # Checked at a bounded cost: among many short runs, some escaped processes go unnoticed.
    ESCAPED = "escaped"  # it left processes in sessions of their own when it ended
    OUTPUT_LOST = "output_lost"  # part of the output could not be kept (no space), beyond the cap
    SPAWN_RETRIED = "spawn_retried"  # the system had no process or descriptor left at first
    NOT_STARTED = "not_started"  # surely never started: it may be queued again
    KILLED = "killed"  # it did not end on TERM within its grace
    RESULT_TOO_BIG = "result_too_big"  # it left a result of more than 64 KiB
    RESULT_INVALID = "result_invalid"  # what it left as its result is no file of JSON
    CORE_DUMPED = "core_dumped"  # the system wrote a core file
