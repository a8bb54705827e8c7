"""The closed choices of schedules and runs, and the constants that several rooms share."""

from __future__ import annotations

from enum import IntEnum, StrEnum

MINUTE_MS = 60_000
DAY_MS = 86_400_000
ON_TIME_MS = 60_000  # a single fire that is no later than this after its due time is no misfire
MAX_CATCH_UP = 100  # fires of one misfire that catch_up=all runs at most
COMMAND_QUEUE = "command"
REPLACED_MARK = "replaced"  # among the flags of a run that is ended for a newer one
MISSED_MARK = "missed:"  # begins the flag of a run that catches up: why its time was missed
COVERS_MARK = "covers:"  # begins the flag of a run that covers missed times: count, start
GLOBAL_SCOPE = ("global", "")


class JobKind(StrEnum):
    COMMAND = "command"  # an argv array, started without a shell
    SHELL = "shell"  # one line for /bin/sh -c
    CALLABLE = "callable"  # the name of a function that a Python program registered


class Status(StrEnum):
    QUEUED = "queued"  # decided and waiting for a place; left by a claim, a cancel or a removal
    RUNNING = "running"  # claimed by an engine; left by its one end
    SUCCESS = "success"  # ended with an accepted exit code; final
    FAILED = "failed"  # ended otherwise, timed out or could not be started; final
    SKIPPED = "skipped"  # decided not to run; final, but the newest of a schedule may grow
    CANCELLED = "cancelled"  # stopped or withdrawn on request; final
    INTERRUPTED = "interrupted"  # its end is not known (crash, reboot); final


class OnShutdown(StrEnum):
    LEAVE = "leave"  # what runs goes on under its supervisor, and the next engine adopts it
    WAIT = "wait"  # what runs is waited for
    STOP = "stop"  # what runs is ended: TERM, its grace, KILL


ACTIVE = frozenset({Status.QUEUED, Status.RUNNING})


class Reason(StrEnum):
    EXIT = "exit"  # failed: the exit code is not an accepted one
    SIGNAL = "signal"  # failed: ended by a signal that we did not send
    TIMEOUT = "timeout"  # failed: ran longer than its timeout, and was ended
    EXCEPTION = "exception"  # failed: the callable raised
    SPAWN = "spawn"  # failed: could not be started (missing command, folder, user)
    OVERLAP = "overlap"  # skipped: an earlier fire of the same schedule and scope was active
    MISFIRE = "misfire"  # skipped: nothing could run it at its time, and catch_up gave it up
    PAUSED = "paused"  # skipped: its time passed while the schedule was paused
    EDITED = "edited"  # skipped: its time had passed when the triggers were changed
    RESCHEDULED = "rescheduled"  # skipped: `reschedule` moved the run before it past its time
    JITTER = "jitter"  # skipped: jitter delayed the run before it past its time
    CONDITION = "condition"  # skipped: what it needed did not come true before its deadline
    REQUEST = "request"  # cancelled: a person or a program asked for it
    REPLACED = "replaced"  # cancelled: a newer fire of its schedule took its place
    REMOVED = "removed"  # its schedule was removed: cancelled if queued, skipped if undecided
    SHUTDOWN = "shutdown"  # cancelled: stopped with the engine, as asked
    LOST = "lost"  # interrupted: engine and supervisor died, and its end is not on record
    RESTORED = "restored"  # cancelled, interrupted: it was active in the backup that was restored
    REBOOT = "reboot"  # interrupted: the machine started anew while it ran


class MissedBy(StrEnum):
    """Why nothing ran a time that was missed: `error_code` of a row of reason `misfire`, and a
    flag `missed:...` of a run that catches up."""

    ASLEEP = "asleep"  # the machine was suspended
    OFF = "off"  # no engine ran: the machine was off, or the engine was killed or never started
    STOPPED = "stopped"  # somebody had stopped the engine
    STALLED = "stalled"  # an engine ran, and did not get to it: it was stopped, or too slow
    CLOCK = "clock"  # the clock could not be trusted, or was set past the time


class Cause(StrEnum):
    SCHEDULE = "schedule"  # its trigger, in time
    CATCH_UP = "catch_up"  # its trigger, late
    MANUAL = "manual"  # `run`
    RETRY = "retry"  # an earlier attempt failed
    BOOT = "boot"  # `on boot`
    AFTER = "after"  # another schedule's fire ended
    BACKFILL = "backfill"  # `backfill`


class WaitsFor(StrEnum):
    TIME = "time"  # its due time, which is still to come
    RESUME = "resume"  # the end of its schedule's pause
    CONDITION = "condition"  # what its schedule needs
    ENGINE = "engine"  # one of its queue that is alive and at work
    PROGRAM = "program"  # the same of a function: its program is not at work, or without it
    NOBODY = "nobody"  # nothing that will come: no engine of its program offers it
    EARLIER_RUN = "earlier_run"  # the end of one of its schedule and scope
    REPLACED_RUN = "replaced_run"  # the end, which was asked for, of the one whose place it takes
    GROUP = "group"  # a place among the runs of its group
    PLACE = "place"  # one of its engine's


class CatchUp(StrEnum):
    ONCE = "once"  # run the latest missed time within grace
    SKIP = "skip"  # run none
    ALL = "all"  # run them all in sequence, at most MAX_CATCH_UP


class Overlap(StrEnum):
    SKIP = "skip"  # leave the new fire out
    QUEUE = "queue"  # let one wait
    ALLOW = "allow"  # run beside it
    REPLACE = "replace"  # end the old one, then run


class OnInterrupt(StrEnum):
    LEAVE = "leave"  # an ambiguous end is not run again
    RETRY = "retry"  # it is, with the same idempotency key


class Priority(IntEnum):
    LOW = -10
    NORMAL = 0
    HIGH = 10


class Hold(StrEnum):
    """How much is held."""

    NOTHING = "nothing"  # the clock is trusted
    CALENDAR = "calendar"  # the wait is over: what counts elapsed time runs, cron and `at` do not
    ALL = "all"  # the wait lasts, or has no end
