"""Notices: the wishes of a rule, the content of a notice, and its delivery.

A rule is a table `[notify.NAME]` of the configuration. The database keeps a mark of the rule,
without its channel, so that no secret gets into the database.
"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase

from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.options import NO_NOTICES


class NoticeEvent(StrEnum):
    """The subject of a notice."""

    FAILED = "failed"  # a fire failed or was interrupted, after its last attempt
    RECOVERED = "recovered"  # it succeeded, after a notice that it failed
    MISSED = "missed"  # a time was missed, or its condition was not met before the deadline
    LATE = "late"  # a fire has not started so long after its due time, or started so late
    SLOW = "slow"  # a run takes longer than it may
    STALLED = "stalled"  # a run printed nothing for its stall timeout
    ENGINE_STOPPED = "engine_stopped"  # an engine stopped, or was killed
    ENGINE_STALLED = "engine_stalled"  # an engine makes no progress, as another one noticed
    STARTED = "started"  # each run, only for the channel ping
    ENDED = "ended"  # each run, however it ended


class ChannelKind(StrEnum):
    COMMAND = "command"  # a program that gets the notice as JSON on stdin
    EMAIL = "email"
    WEBHOOK = "webhook"  # an HTTP POST
    APPRISE = "apprise"  # one of the services of the library Apprise, an extra
    PING = "ping"  # the protocol of healthchecks: a request at each start and end of a run


class Secret(NamedTuple):
    """A text that edgecron reads when it needs it, and never stores."""

    kind: str  # text, file or env
    value: str  # the text itself, the path of a file, or the name of a variable


class MailSecurity(StrEnum):
    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandChannel:
    """A program that gets the message as JSON on stdin."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailChannel:
    """Mail through an SMTP server, or through the program sendmail if `host` is None."""

    to: tuple[str, ...]
    sender: str | None = None
    host: str | None = None
    port: int = 587
    security: MailSecurity = MailSecurity.STARTTLS
    username: str | None = None
    password: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChannel:
    """A POST of JSON: the message itself, or the form of a chat service.

    With `secret`, the header X-Edgecron-Signature has the HMAC-SHA256 of the body.
    """

    url: Secret
    format: str = "json"
    secret: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PingChannel:
    """A request to URL/start at each start, to URL/CODE at each end.

    `{schedule}` in the URL stands for the name of the schedule.
    """

    url: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AppriseChannel:
    """The addresses of services, as the library Apprise has them: one a line."""

    urls: Secret


Channel = CommandChannel | EmailChannel | WebhookChannel | PingChannel | AppriseChannel


class NoticeStatus(StrEnum):
    WAITING = "waiting"  # for its time, or for the next try
    HELD = "held"  # its rule has sent its notices of this hour
    SENT = "sent"
    GIVEN_UP = "given_up"  # it could not be sent for days


STALLED = NoticeEvent.STALLED.value  # the status of such a happening, and the flag of such a run
LEAST_USUAL_MS = 60_000  # no shorter run is slow, unless a rule has a limit of its own
RUN_EVENTS = (NoticeEvent.STARTED, NoticeEvent.ENDED)
# What a rule hears of if it does not say so itself.
USUAL_EVENTS = (
    NoticeEvent.FAILED,
    NoticeEvent.RECOVERED,
    NoticeEvent.MISSED,
    NoticeEvent.STALLED,
    NoticeEvent.ENGINE_STOPPED,
    NoticeEvent.ENGINE_STALLED,
)
# Of an engine's happening, by its status.
ENGINE_EVENTS = {
    "stopped": NoticeEvent.ENGINE_STOPPED,
    "died": NoticeEvent.ENGINE_STOPPED,
    STALLED: NoticeEvent.ENGINE_STALLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyRule:
    """A rule: the events and schedules that it covers, and how often it sends.

    `schedules` and `groups` are patterns, as `backup-*`. If both are None, every schedule matches.
    Schedules that name the rule match, too. A schedule with `off` never matches. The first notice
    of a failing schedule comes after `failures` failed fires in a row. `remind_s` None sends no
    reminders. `late_ms` and `slow_ms`: how late a fire is, and how long a run takes, for a notice;
    None: no such notice. With `beat_ms`, the rule only pings, this often, while an engine is
    running. `source` names the file with the rule.
    """

    name: str
    channel: ChannelKind
    source: str = ""
    schedules: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    events: tuple[NoticeEvent, ...] = USUAL_EVENTS
    failures: int = 1
    remind_s: float | None = 86_400.0
    most_per_hour: int = 20
    needs_output: bool = False  # only runs that printed something
    late_ms: int | None = None
    slow_ms: int | None = None
    beat_ms: int | None = None
    slow_as_usual: bool = False  # the limit follows the schedule's past runs

    @property
    def wants_runs(self) -> bool:
        """Whether it hears of each start or end of a run."""
        return any(event in RUN_EVENTS for event in self.events)

    def limit_ms(self, event: NoticeEvent, *, usual_ms: int | None = None) -> int | None:
        """Return the limit of an event that has one; None: no such notice.

        `usual_ms` is the limit that follows from the past runs of the schedule; None: unknown.
        """
        if event is NoticeEvent.LATE:
            return self.late_ms
        return usual_ms if self.slow_as_usual else self.slow_ms

    def matches(self, schedule: str, group: str | None, *, notify: tuple[str, ...] = ()) -> bool:
        """Whether the rule covers a schedule, whose option `notify` has these names."""
        if NO_NOTICES in notify:
            return False
        if self.name in notify or (self.schedules is None and self.groups is None):
            return True
        if any(fnmatchcase(schedule, pattern) for pattern in self.schedules or ()):
            return True
        return group is not None and any(fnmatchcase(group, one) for one in self.groups or ())


class Happening(NamedTuple):
    """Something that a transaction recorded for notices. `id` orders them.

    About a run: its schedule and the end of its row. `is_final` unless a retry follows, or a
    catch-up runs in place of the missed times. About an engine: only `engine_id`.
    """

    id: int
    at_ms: int
    status: str  # of the run, or stalled; or an engine's: stopped, died, stalled
    schedule_id: int | None = None
    schedule: str = ""
    group: str | None = None
    execution_id: int | None = None
    is_final: bool = True
    has_output: bool = False
    late_ms: int | None = None  # from its due time to its start
    took_ms: int | None = None
    engine_id: int | None = None
    notify: tuple[str, ...] = ()  # the rules that the schedule names
    usual_ms: int | None = None  # how long its runs take at most, as usual; None: unknown
    has_stalled: bool = False  # the run printed nothing for its stall timeout, at least once


class Watched(NamedTuple):
    """A run that was due to be checked at `at_ms`: it is late, or takes long.

    `from_ms` is its due time, or its start. `until_ms` is when it started, or ended; None: it has
    not.
    """

    event: NoticeEvent
    at_ms: int
    execution_id: int
    schedule_id: int
    schedule: str
    group: str | None
    from_ms: int
    until_ms: int | None
    notify: tuple[str, ...] = ()
    usual_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A trouble of a schedule that a rule follows until it is over.

    `count` fires failed or were missed. `noticed_ms` is when the last notice was due; None before
    the first. `remind_ms`: when the next reminder is due; None: with the next run in this trouble.
    """

    rule: str
    schedule_id: int
    event: NoticeEvent
    since_ms: int
    count: int = 0
    noticed_ms: int | None = None
    remind_ms: int | None = None
    execution_id: int | None = None  # the newest
    is_lasting: bool = True  # a reminder is true now: that run still waits, or runs


class NewNotice(NamedTuple):
    """A notice to write for a rule."""

    rule: str
    event: NoticeEvent
    at_ms: int
    schedule_id: int | None = None
    execution_id: int | None = None
    engine_id: int | None = None
    fire_count: int = 1  # fires of this trouble so far
    since_ms: int | None = None  # when the trouble began
    is_reminder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notice as the outbox has it. `detail` says what happened, for people and programs.

    Notices with the same `message` were sent together. `tries` counts the attempts to send it, and
    `error` is the failure of the last one. `due_ms` is None if it is final.
    """

    id: int
    rule: str
    event: NoticeEvent
    at_ms: int
    status: NoticeStatus
    schedule: str | None
    execution_id: int | None
    is_reminder: bool
    detail: dict[str, object]
    due_ms: int | None
    tries: int
    sent_ms: int | None
    message: str | None
    error: str | None
