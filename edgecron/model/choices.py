"""The closed choices of schedules and runs, and constants that several rooms share."""

from __future__ import annotations

from enum import IntEnum, StrEnum

ON_TIME_MS = 60_000  # a single fire that is late by up to this is not missed
MAX_CATCH_UP = 100  # runs of one missed range under catch_up=all
COMMAND_QUEUE = "command"
SUSPENDED_MARK = "suspended"  # flag of a run whose processes are stopped; at its end: they were
GAVE_UP_MARK = "gave_up"  # flag of a failed run: its exception is not one to retry
REPLACED_MARK = "replaced"  # flag of a run that is ended for a newer one
MISSED_MARK = "missed:"  # begins a flag of a catch-up: why its time was missed
COVERS_MARK = "covers:"  # begins a flag of a run that covers missed times: count, start
GLOBAL_SCOPE = ("global", "")


class JobKind(StrEnum):
    COMMAND = "command"  # an argv array, started without a shell
    SHELL = "shell"  # one line for /bin/sh -c
    CALLABLE = "callable"  # the name of a function that a Python program registered


class Status(StrEnum):
    QUEUED = "queued"  # waits for a place, its time or a condition
    RUNNING = "running"  # claimed by an engine
    SUCCESS = "success"  # final: ended with an accepted exit code
    FAILED = "failed"  # final: any other end, a timeout, or it could not be started
    SKIPPED = "skipped"  # final: decided not to run. The newest such row of a schedule can grow
    CANCELLED = "cancelled"  # final: on request
    INTERRUPTED = "interrupted"  # final: its end is unknown (crash, reboot)


class OnShutdown(StrEnum):
    LEAVE = "leave"  # runs continue under their supervisor, and the next engine adopts them
    WAIT = "wait"  # wait for the end of runs
    STOP = "stop"  # end runs: TERM, grace, KILL


class OnLost(StrEnum):
    """The fate of runs that other machines took over while their engine was out of reach."""

    END = "end"  # end them: TERM, grace, KILL
    LEAVE = "leave"  # let them continue; their ends are not recorded


class Alert(StrEnum):
    """How the dashboard's terminal announces a new failure."""

    OFF = "off"
    BELL = "bell"
    OSC9 = "osc9"  # a message of the desktop, if the terminal knows this sequence


class Durability(StrEnum):
    """How many records of a schedule a power cut can take. Starts are safe at each level."""

    FULL = "full"  # nothing
    # Ends of the last seconds: these runs are then interrupted; and manual runs not started yet
    NORMAL = "normal"
    VOLATILE = "volatile"  # as normal; the output of successful runs is never stored


ACTIVE = frozenset({Status.QUEUED, Status.RUNNING})


class Reason(StrEnum):
    EXIT = "exit"  # failed: the exit code is not an accepted one
    SIGNAL = "signal"  # failed: ended by a signal that edgecron did not send
    TIMEOUT = "timeout"  # failed: ended because it exceeded its timeout
    STALLED = "stalled"  # failed: ended because it printed nothing for its stall timeout
    EXCEPTION = "exception"  # failed: the callable raised
    SPAWN = "spawn"  # failed: could not be started (missing command, folder, user)
    OVERLAP = "overlap"  # skipped: an earlier fire of the same schedule and scope was active
    MISFIRE = "misfire"  # skipped: missed, and not caught up
    PAUSED = "paused"  # skipped: its time passed while the schedule was paused
    EDITED = "edited"  # skipped: its time had passed when the triggers changed
    RESCHEDULED = "rescheduled"  # skipped: `reschedule` moved the run before it past its time
    JITTER = "jitter"  # skipped: jitter delayed the run before it past its time
    # skipped: its condition was not met before the deadline; cancelled: it was lost during the run
    CONDITION = "condition"
    EXCLUDED = "excluded"  # skipped: it lies outside of the windows of its schedule
    DECLINED = "declined"  # skipped: its function had nothing to do, and raised Skip
    REQUEST = "request"  # cancelled: by a person or a program
    REPLACED = "replaced"  # cancelled: a newer fire of its schedule took its place
    REMOVED = "removed"  # its schedule was removed: cancelled if queued, skipped if undecided
    SHUTDOWN = "shutdown"  # cancelled: the engine stopped it at its own end
    LOST = "lost"  # interrupted: engine and supervisor died before they recorded its end
    RESTORED = "restored"  # cancelled, interrupted: it was active in the restored backup
    REBOOT = "reboot"  # interrupted: the machine rebooted while it was running


class MissedBy(StrEnum):
    """Why a time was missed.

    It is the `error_code` of a row with reason `misfire`, and a flag `missed:...` of a catch-up.
    """

    ASLEEP = "asleep"  # the machine was suspended
    OFF = "off"  # no engine was running: machine off, engine killed or never started
    STOPPED = "stopped"  # a person had stopped or drained the engine
    STALLED = "stalled"  # an engine was running but suspended or too slow
    CLOCK = "clock"  # the clock was not trusted, or was set past the time
    DATABASE = "database"  # an engine was running but could not use the database


class Cause(StrEnum):
    SCHEDULE = "schedule"  # its trigger, on time
    CATCH_UP = "catch_up"  # its trigger, late
    MANUAL = "manual"  # `run`
    RETRY = "retry"  # an earlier attempt failed
    BOOT = "boot"  # `on boot`
    AFTER = "after"  # another schedule's fire ended
    BACKFILL = "backfill"  # `backfill`


class WaitsFor(StrEnum):
    TIME = "time"  # its due time
    RESUME = "resume"  # the end of its schedule's pause
    CONDITION = "condition"  # a condition of its schedule
    WINDOW = "window"  # the next opening of a window of its schedule
    ENGINE = "engine"  # a running engine of its queue
    PROGRAM = "program"  # a running engine of its program that offers the function
    NOBODY = "nobody"  # in vain: no engine of its program offers it
    EARLIER_RUN = "earlier_run"  # the end of a run of its schedule and scope
    REPLACED_RUN = "replaced_run"  # the end of the run that it replaces
    GROUP = "group"  # a place in its group
    PLACE = "place"  # a place in its engine
    LOOK = "look"  # its engine has a place, gets no notices, and looks for changes now and then


class HealthState(StrEnum):
    """What is wrong with a schedule, the worst first."""

    FAILING = "failing"  # its last run failed or was interrupted
    OVERDUE = "overdue"  # a time passed, or a run waits, and nothing started
    NEVER_SUCCEEDED = "never_succeeded"  # its times passed, and no run succeeded


class HealthCause(StrEnum):
    """Why a schedule is not healthy; each cause has its advice."""

    COMMAND_MISSING = "command_missing"  # the command of the job is not in PATH, or is no file
    SHELL_COMMAND_MISSING = "shell_command_missing"  # exit code 127
    NOT_EXECUTABLE = "not_executable"  # permission denied, not a program, or exit code 126
    NOT_IMPORTABLE = "not_importable"  # its program can't import the function
    FOLDER = "folder"  # the job's folder is missing or can't be entered
    ENV_FILE = "env_file"  # the environment file is missing or can't be read
    USER = "user"  # the job can't run as its user
    TIMEOUT = "timeout"  # it ran longer than its timeout
    SILENT = "silent"  # it printed nothing for its stall timeout
    KILLED = "killed"  # SIGKILL by somebody else: often too little memory
    INTERRUPTED = "interrupted"  # the machine restarted, or the supervisor was killed
    FAILED = "failed"  # everything else: the output says more
    NO_ENGINE = "no_engine"  # no engine of its queue is running
    STALLED = "stalled"  # all engines of its queue are stalled
    CLOCK = "clock"  # the clock can't be trusted
    DISK = "disk"  # engines can't record a start
    EARLIER_RUN = "earlier_run"  # another run of the schedule is active
    GROUP = "group"  # no place in its group
    PLACE = "place"  # no place in its engine
    SKIPPED = "skipped"  # each of its times was skipped, or its runs were cancelled
    UNKNOWN = "unknown"  # `why` says more


class CatchUp(StrEnum):
    ONCE = "once"  # run the latest missed time within max-late
    SKIP = "skip"  # run none
    ALL = "all"  # run them all in sequence, at most MAX_CATCH_UP


class Overlap(StrEnum):
    SKIP = "skip"  # skip the new fire
    QUEUE = "queue"  # let one wait
    ALLOW = "allow"  # run beside it
    REPLACE = "replace"  # end the old one, then run


class WhileLost(StrEnum):
    END = "end"  # end the run
    SUSPEND = "suspend"  # stop its processes, and continue them later


class OnInterrupt(StrEnum):
    LEAVE = "leave"  # do not run it again
    RETRY = "retry"  # run it again, with the same idempotency key


class StallAction(StrEnum):
    NOTICE = "notice"  # report it
    END = "end"  # report it, and end the run


class Priority(IntEnum):
    LOW = -10
    NORMAL = 0
    HIGH = 10


class Hold(StrEnum):
    """Which fires wait for a clock that can be trusted."""

    NOTHING = "nothing"  # the clock is trusted
    CALENDAR = "calendar"  # cron and `at`: `clock_wait` is over, so intervals run
    ALL = "all"  # all, during `clock_wait`
