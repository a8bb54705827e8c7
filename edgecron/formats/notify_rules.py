"""Read `[notify.NAME]` tables of a configuration: what a rule wants to hear of, and its channel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidInput
from edgecron.base.units import DAY_MS, MINUTE_MS, format_duration_ms, parse_duration_ms
from edgecron.base.values import NamedTuple
from edgecron.model.notices import (
    RUN_EVENTS,
    USUAL_EVENTS,
    AppriseChannel,
    Channel,
    ChannelKind,
    CommandChannel,
    EmailChannel,
    MailSecurity,
    NoticeEvent,
    NotifyRule,
    PingChannel,
    Secret,
    WebhookChannel,
)
from edgecron.model.options import NO_NOTICES, NONE, RULE_NAME

WEBHOOK_FORMATS = ("json", "slack", "discord")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_COMMON = (
    *("schedules", "groups", "events", "failures", "remind", "most_per_hour", "needs_output"),
    *("late_after", "slow_after"),
)
# By the key that chooses the channel, the keys that it has beside it.
_KEYS: Mapping[ChannelKind, tuple[str, ...]] = {
    ChannelKind.COMMAND: ("command",),
    ChannelKind.EMAIL: (
        *("email", "from", "smtp", "security", "username", "password_file", "password_env"),
    ),
    ChannelKind.WEBHOOK: (
        *("webhook", "webhook_file", "webhook_env", "format", "secret_file", "secret_env"),
    ),
    ChannelKind.APPRISE: ("apprise_file", "apprise_env"),
    ChannelKind.PING: ("ping", "ping_file", "ping_env", "heartbeat"),
}
_CHANNEL_KEYS = [key for kind, keys in _KEYS.items() for key in keys if key.startswith(kind.value)]
_MOST_SPAN_MS = 366 * DAY_MS
_LEAST_BEAT_MS = 10_000  # each heartbeat is a process
_LIMITED_EVENTS = (NoticeEvent.LATE, NoticeEvent.SLOW)  # chosen by their limits
_EVENT_NAMES = tuple(
    event.value for event in NoticeEvent if event not in (NoticeEvent.STARTED, *_LIMITED_EVENTS)
)
# Keys that people write instead.
_OTHER_WORDS = {
    "mail": "email", "to": "email", "url": "webhook", "hook": "webhook", "exec": "command",
    "cmd": "command", "on": "events", "when": "events", "event": "events",
}  # fmt: skip
_EXAMPLE = 'for example: email = "you@example.org"'


class ReadRule(NamedTuple):
    """A rule of a file, and its channel."""

    rule: NotifyRule
    channel: Channel


class RuleProblem(NamedTuple):
    """Something that is wrong with a rule; `key` is that of the file, such as notify.ops.email."""

    key: str
    message: str
    hint: str | None = None


def read_rules(table: object, *, source: str) -> tuple[list[ReadRule], list[RuleProblem]]:
    """Read the table `notify` of a file: its rules, and everything that is wrong with them."""
    if not isinstance(table, dict):
        return [], [RuleProblem("notify", "notify is not a table", "write [notify.NAME]")]
    rules, problems = [], []
    for name, value in table.items():
        reader = _RuleReader(name, value, source)
        rule = reader.read()
        problems += reader.problems
        if rule is not None and not reader.problems:
            rules.append(rule)
    return rules, problems


class _RuleReader:
    """Read one rule. `problems` collects all faults, so that one run reports them."""

    def __init__(self, name: str, value: object, source: str) -> None:
        self.problems: list[RuleProblem] = []
        self._name = name
        self._value = value
        self._source = source
        self._table: dict[str, Any] = {}

    def read(self) -> ReadRule | None:
        if RULE_NAME.fullmatch(self._name) is None:
            self._refuse(
                "", f"rule name {self._name[:70]!r} is not usable", "use letters, digits, _ - ."
            )
            return None
        if self._name in (NO_NOTICES, NONE):
            self._refuse("", f"rule name {self._name!r} is reserved", "use another name")
            return None
        if not isinstance(self._value, dict):
            self._refuse("", f"notify.{self._name} is not a table", f"write [notify.{self._name}]")
            return None
        self._table = self._value
        kind = self._find_kind()
        if kind is None:
            return None
        self._refuse_unknown(kind)
        channel = self._read_channel(kind)
        is_ping = kind is ChannelKind.PING
        if is_ping:
            for key in (*_COMMON[2:],):
                if key in self._table:
                    self._refuse(key, "does not work with ping", f"remove {key}: each run pings")
        beat_ms = self._span_ms("heartbeat", least_ms=_LEAST_BEAT_MS)
        if beat_ms is not None:
            for key in ("schedules", "groups"):
                if key in self._table:
                    self._refuse(key, "does not work with heartbeat", f"remove {key}")
            if isinstance(channel, PingChannel) and "{schedule}" in channel.url.value:
                self._refuse(
                    "heartbeat",
                    "the address contains {schedule}, but a heartbeat has no schedule",
                    "write a second rule with another address for the heartbeat",
                )
        is_usual = self._table.get("slow_after") == "usual"
        rule = NotifyRule(
            name=self._name,
            channel=kind,
            source=self._source,
            schedules=self._patterns("schedules"),
            groups=self._patterns("groups"),
            events=self._events(is_ping=is_ping, is_beat=beat_ms is not None),
            failures=self._count("failures", 1),
            remind_s=self._remind_s(),
            most_per_hour=self._count("most_per_hour", 20),
            needs_output=self._switch("needs_output"),
            late_ms=self._span_ms("late_after"),
            slow_ms=None if is_usual else self._span_ms("slow_after"),
            slow_as_usual=is_usual,
            beat_ms=beat_ms,
        )
        return None if channel is None else ReadRule(rule, channel)

    def _refuse(self, key: str, message: str, hint: str | None = None) -> None:
        full = f"notify.{self._name}.{key}" if key else f"notify.{self._name}"
        where = f"{full}: " if key else ""
        self.problems.append(RuleProblem(full, f"{where}{message}", hint))

    def _find_kind(self) -> ChannelKind | None:
        found = [
            kind
            for kind, keys in _KEYS.items()
            if any(key in self._table for key in keys if key in _CHANNEL_KEYS)
        ]
        if len(found) == 1:
            return found[0]
        names = ", ".join(kind.value for kind in ChannelKind)
        words = " and ".join(kind.value for kind in found) or "no channel"
        meant = None if found else self._find_meant()
        hint = _EXAMPLE if meant is None else f"did you mean {meant}?"
        self._refuse("", f"notify.{self._name} has {words}, expected one of {names}", hint)
        return None

    def _find_meant(self) -> str | None:
        """Find the key of a channel that was probably meant."""
        for key in self._table:
            if key in _COMMON:
                continue
            meant = _OTHER_WORDS.get(key) or suggest(key, [*_CHANNEL_KEYS, *_COMMON])
            if meant in _CHANNEL_KEYS:
                return meant
        return None

    def _refuse_unknown(self, kind: ChannelKind) -> None:
        known = (*_COMMON, *_KEYS[kind])
        for key in self._table:
            if key not in known:
                other = _OTHER_WORDS.get(key)
                meant = other if other in known else suggest(key, known)
                hint = f"did you mean {meant}?" if meant else f"known are: {', '.join(known)}"
                self._refuse(key, f"unknown for the channel {kind}", hint)

    def _read_channel(self, kind: ChannelKind) -> Channel | None:
        if kind is ChannelKind.COMMAND:
            argv = self._texts("command")
            if not argv or not argv[0].strip():
                self._refuse("command", "the command is missing", 'write ["notify-send", "cron"]')
            return CommandChannel(argv=argv)
        if kind is ChannelKind.EMAIL:
            return self._read_email()
        if kind is ChannelKind.APPRISE:
            urls = self._secret("apprise")
            return None if urls is None else AppriseChannel(urls=urls)
        url = self._secret(kind.value, check=self._check_url)
        if url is None:
            return None
        if kind is ChannelKind.PING:
            return PingChannel(url=url)
        return WebhookChannel(
            url=url,
            format=self._choice("format", WEBHOOK_FORMATS, "json"),
            secret=self._secret("secret"),
        )

    def _read_email(self) -> EmailChannel:
        to = self._texts("email")
        for address in to:
            if "@" not in address or any(letter.isspace() for letter in address):
                self._refuse("email", f"{address[:80]!r} is not an address", _EXAMPLE)
        smtp = self._text("smtp")
        security = MailSecurity(
            self._choice("security", tuple(MailSecurity), _usual_security(smtp).value)
        )
        host, port = self._host_and_port(smtp, security)
        password = self._secret("password")
        username = self._text("username")
        if (username is None) != (password is None):
            self._refuse("username", "username and password belong together", "give both or none")
        if host is None:
            for key in ("security", "username", "password_file", "password_env"):
                if key in self._table:
                    self._refuse(key, "needs an SMTP server", 'for example: smtp = "mail.lan:587"')
        return EmailChannel(
            to=to,
            sender=self._text("from"),
            host=host,
            port=port,
            security=security,
            username=username,
            password=password,
        )

    def _host_and_port(self, smtp: str | None, security: MailSecurity) -> tuple[str | None, int]:
        usual = {MailSecurity.TLS: 465, MailSecurity.STARTTLS: 587, MailSecurity.NONE: 25}
        if smtp is None:
            return None, usual[security]
        host, colon, port = smtp.rpartition(":")
        if not colon:
            return smtp, usual[security]
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            self._refuse("smtp", f"{smtp[:80]!r} is not HOST:PORT", 'for example: "mail.lan:587"')
            return host or None, usual[security]
        return host, int(port)

    def _check_url(self, url: str) -> str | None:
        if re.match(r"https?://[^\s/]+", url) is None:
            return "is not an address that begins with http:// or https://"
        return None

    def _secret(
        self, key: str, *, check: Callable[[str], str | None] = lambda text: None
    ) -> Secret | None:
        """Read KEY, KEY_file or KEY_env. A value that is always secret has no plain KEY."""
        given = [name for name in (key, f"{key}_file", f"{key}_env") if name in self._table]
        if len(given) > 1:
            self._refuse(given[1], f"{' and '.join(given)} are both given", "give one of them")
        if not given:
            return None
        name = given[0]
        text = self._text(name)
        if text is None:
            return None
        if name == f"{key}_file":
            if not text.startswith(("/", "~")):
                self._refuse(name, f"{text[:80]!r} is not an absolute path")
            return Secret("file", text)
        if name == f"{key}_env":
            if _VARIABLE.fullmatch(text) is None:
                self._refuse(name, f"{text[:80]!r} is not the name of a variable")
            elif text.startswith("EDGECRON_"):  # Once it is set, no command would run.
                self._refuse(name, f"{text[:80]!r} is reserved", "use a name without EDGECRON_")
            return Secret("env", text)
        wrong = check(text)
        if wrong is not None:
            self._refuse(name, wrong)  # Not quoted: an address can be a secret.
        return Secret("text", text)

    def _events(self, *, is_ping: bool, is_beat: bool) -> tuple[NoticeEvent, ...]:
        if is_ping:
            return () if is_beat else RUN_EVENTS
        if "events" not in self._table:
            return USUAL_EVENTS
        found = []
        for text in self._texts("events"):
            if text in _EVENT_NAMES:
                found.append(NoticeEvent(text))
                continue
            meant = suggest(text, _EVENT_NAMES)
            hint = f"did you mean {meant}?" if meant else None
            names = ", ".join(_EVENT_NAMES)
            self._refuse("events", f"{text[:60]!r} is unknown, expected some of {names}", hint)
        return tuple(found)

    def _remind_s(self) -> float | None:
        if self._table.get("remind") == "none":
            return None
        span_ms = self._span_ms("remind", least_ms=MINUTE_MS, or_else="none")
        return 86_400.0 if span_ms is None else span_ms / 1000

    def _span_ms(self, key: str, *, least_ms: int = 1000, or_else: str = "") -> int | None:
        text = self._text(key)
        if text is None:
            return None
        try:
            span_ms = parse_duration_ms(text)
        except InvalidInput as error:
            self._refuse(key, error.message, error.hint)
            return None
        if not least_ms <= span_ms <= _MOST_SPAN_MS:
            more = f", or {or_else}" if or_else else ""
            self._refuse(key, f"is {text!r}, expected {format_duration_ms(least_ms)} to 1y{more}")
        return span_ms

    def _text(self, key: str) -> str | None:
        value = self._table.get(key)
        if value is None or (isinstance(value, str) and value.strip() and value.isprintable()):
            return value
        self._refuse(key, "expected a text")
        return None

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._table.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(one, str) and one for one in texts):
            return tuple(texts)
        self._refuse(key, "expected a text, or an array of texts")
        return ()

    def _patterns(self, key: str) -> tuple[str, ...] | None:
        return self._texts(key) if key in self._table else None

    def _count(self, key: str, usual: int) -> int:
        value = self._table.get(key, usual)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1000:
            return value
        self._refuse(key, f"is {value!r:.60}, expected a whole number from 1 to 1000")
        return usual

    def _switch(self, key: str) -> bool:
        value = self._table.get(key, False)
        if not isinstance(value, bool):
            self._refuse(key, f"is {value!r:.60}, expected true or false")
        return value is True

    def _choice(self, key: str, known: tuple[str, ...], usual: str) -> str:
        text = self._text(key)
        if text is None:
            return usual
        if text not in known:
            self._refuse(key, f"is {text[:60]!r}, expected {', '.join(known)}")
            return usual
        return str(text)


def _usual_security(smtp: str | None) -> MailSecurity:
    """Return the default of a server: TLS at port 465, none on this machine, else STARTTLS."""
    if smtp is not None and smtp.endswith(":465"):
        return MailSecurity.TLS
    host = "" if smtp is None else smtp.partition(":")[0]
    return MailSecurity.NONE if host in ("localhost", "127.0.0.1") else MailSecurity.STARTTLS


def rule_words(rule: NotifyRule) -> str:
    """Say what a rule hears of, as in 'failed, recovered of backup-*'."""
    if rule.beat_ms is not None:
        return f"every {format_duration_ms(rule.beat_ms)} while an engine is running"
    limits = [
        f"{event} after {format_duration_ms(limit_ms)}"
        for event in _LIMITED_EVENTS
        if (limit_ms := rule.limit_ms(event)) is not None
    ]
    if rule.slow_as_usual:
        limits.append("slow if longer than usual")
    audience = " and ".join(_audience(rule))
    if not audience:
        is_named_only = rule.schedules is not None or rule.groups is not None
        audience = "schedules that name it" if is_named_only else "every schedule"
    return f"{', '.join([*rule.events, *limits])} of {audience}"


def _audience(rule: NotifyRule) -> Iterator[str]:
    if rule.schedules:
        yield ", ".join(rule.schedules)
    if rule.groups:
        yield f"group {', '.join(rule.groups)}"
