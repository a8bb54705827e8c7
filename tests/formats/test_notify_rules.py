"""Rules for notices: what a configuration can say, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from edgecron.base.errors import InvalidConfig
from edgecron.formats.config import load
from edgecron.formats.notify_rules import ReadRule, read_rules, rule_words
from edgecron.model.notices import (
    AppriseChannel,
    ChannelKind,
    CommandChannel,
    EmailChannel,
    MailSecurity,
    NoticeEvent,
    PingChannel,
    Secret,
    WebhookChannel,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def read(file: Path, text: str) -> dict[str, ReadRule]:
    file.write_text(dedent(text))
    file.chmod(0o600)
    return load(str(file)).notify_rules()


def test_each_channel_is_read(file: Path) -> None:
    rules = read(
        file,
        """
        [notify.desktop]
        command = ["notify-send", "edgecron"]

        [notify.mail]
        email = ["a@example.org", "b@example.org"]
        from = "pi@example.org"
        smtp = "mail.example.org:465"
        username = "pi"
        password_file = "/etc/edgecron/password"

        [notify.chat]
        webhook_env = "CHAT_URL"
        format = "slack"
        secret_file = "~/secret"

        [notify.phone]
        apprise_file = "/etc/edgecron/apprise"

        [notify.monitor]
        ping = "https://hc.example.org/key/{schedule}"
        schedules = ["backup-*"]
        """,
    )

    assert [one.channel for one in rules.values()] == [
        CommandChannel(argv=("notify-send", "edgecron")),
        EmailChannel(
            to=("a@example.org", "b@example.org"),
            sender="pi@example.org",
            host="mail.example.org",
            port=465,
            security=MailSecurity.TLS,
            username="pi",
            password=Secret("file", "/etc/edgecron/password"),
        ),
        WebhookChannel(
            url=Secret("env", "CHAT_URL"), format="slack", secret=Secret("file", "~/secret")
        ),
        AppriseChannel(urls=Secret("file", "/etc/edgecron/apprise")),
        PingChannel(url=Secret("text", "https://hc.example.org/key/{schedule}")),
    ]
    assert [one.rule.channel for one in rules.values()] == list(ChannelKind)
    assert rules["monitor"].rule.events == (NoticeEvent.STARTED, NoticeEvent.ENDED)


def test_a_rule_says_what_it_hears_of(file: Path) -> None:
    rules = read(
        file,
        """
        [notify.ops]
        command = ["true"]
        schedules = ["backup-*", "scrub"]
        groups = ["disk"]
        events = ["failed", "recovered"]
        failures = 3
        late_after = "10m"
        remind = "2d"
        most_per_hour = 5
        needs_output = true
        """,
    )

    rule = rules["ops"].rule
    assert (rule.failures, rule.remind_s, rule.most_per_hour) == (3, 172_800, 5)
    assert rule.needs_output
    assert rule.source == str(file)
    assert rule.matches("backup-home", None)
    assert rule.matches("other", "disk")
    assert not rule.matches("other", "cpu")
    assert rule_words(rule) == (
        "failed, recovered, late after 10m of backup-*, scrub and group disk"
    )


@pytest.mark.parametrize(
    ("smtp", "port", "security"),
    [
        ("mail.lan", 587, MailSecurity.STARTTLS),
        ("mail.lan:25", 25, MailSecurity.STARTTLS),
        ("localhost", 25, MailSecurity.NONE),
        ("127.0.0.1:1025", 1025, MailSecurity.NONE),
        ("mail.lan:465", 465, MailSecurity.TLS),
    ],
)
def test_mail_is_protected_unless_its_server_is_here(
    file: Path, smtp: str, port: int, security: MailSecurity
) -> None:
    rules = read(file, f'[notify.m]\nemail = "a@example.org"\nsmtp = "{smtp}"\n')

    channel = rules["m"].channel
    assert isinstance(channel, EmailChannel)
    assert (channel.port, channel.security) == (port, security)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("notify = 3", "notify is not a table"),
        ("[notify]\nops = 3", "notify.ops is not a table"),
        ("[notify.ops]", "notify.ops has no channel, expected one of command, email, webhook"),
        (
            '[notify.ops]\ncommand = ["a"]\nemail = "a@b"',
            "notify.ops has command and email, expected one of",
        ),
        ("[notify.ops]\ncommand = []", "notify.ops.command: the command is missing"),
        (
            '[notify.ops]\ncommand = "a"\nsmtp = "b"',
            "notify.ops.smtp: unknown for the channel command",
        ),
        ('[notify.ops]\nemail = "nobody"', "notify.ops.email: 'nobody' is not an address"),
        (
            '[notify.ops]\nemail = "a@b"\nsmtp = "x:y"',
            "notify.ops.smtp: 'x:y' is not HOST:PORT",
        ),
        (
            '[notify.ops]\nemail = "a@b"\nsmtp = "x"\nusername = "u"',
            "notify.ops.username: username and password belong together",
        ),
        (
            '[notify.ops]\nemail = "a@b"\nsecurity = "tls"',
            "notify.ops.security: needs an SMTP server",
        ),
        ('[notify.ops]\nwebhook = "ftp://x"', "is not an address that begins with http://"),
        ('[notify.ops]\nwebhook_file = "x"', "notify.ops.webhook_file: 'x' is not an absolute"),
        ('[notify.ops]\nwebhook_env = "EDGECRON_URL_OF_CHAT"', "is reserved"),
        ('[notify.ops]\nwebhook_env = "a b"', "'a b' is not the name of a variable"),
        (
            '[notify.ops]\nwebhook = "http://x"\nwebhook_env = "X"',
            "webhook and webhook_env are both given",
        ),
        (
            '[notify.ops]\nwebhook = "http://x"\nformat = "teams"',
            "is 'teams', expected json",
        ),
        ('[notify.ops]\nping = "http://x"\nevents = []', "events: does not work with ping"),
        ('[notify.ops]\napprise = "ntfy://x"', "has no channel"),
        ('[notify.ops]\napprise_file = "x"', "is not an absolute path"),
        ('[notify.ops]\nping = "http://x"\nheartbeat = "1s"', "expected 10s to 1y"),
        ('[notify.ops]\nping = "http://x/{schedule}"\nheartbeat = "1m"', "contains {schedule}"),
        (
            '[notify.ops]\nping = "http://x"\nheartbeat = "1m"\ngroups = ["a"]',
            "does not work with heartbeat",
        ),
        ('[notify.ops]\nwebhook = "http://x"\nheartbeat = "1m"', "unknown for the channel"),
        ('[notify.ops]\ncommand = "a"\nevents = ["fail"]', "'fail' is unknown, expected some of"),
        ('[notify.ops]\ncommand = "a"\nfailures = 0', "failures: is 0, expected a whole number"),
        ('[notify.ops]\ncommand = "a"\nremind = "1M"', "1mo or 1m"),
        ('[notify.ops]\ncommand = "a"\nremind = "1s"', "is '1s', expected 1m to 1y, or none"),
        ('[notify.ops]\ncommand = "a"\nslow_after = "100ms"', "is '100ms', expected 1s to 1y"),
        ('[notify.ops]\ncommand = "a"\nneeds_output = 1', "is 1, expected true or false"),
        ('[notify."a b"]\ncommand = "a"', "rule name 'a b' is not usable"),
        ("[notfy.ops]", "notfy is unknown"),
        ('[notify.ops]\ncomand = ["a"]', "did you mean command?"),
        ('[notify.ops]\nemial = "a@b"\nevents = []', "did you mean email?"),
        ('[notify.ops]\nmail = "a@b"', "did you mean email?"),
        ('[notify.ops]\nwebhok_file = "/x"', "did you mean webhook_file?"),
        ('[notify.ops]\nemail = "a@b"\nsmpt = "x:25"', "did you mean smtp?"),
        ('[notify.ops]\nping = "http://x"\nheartbeet = "1m"', "did you mean heartbeat?"),
    ],
)
def test_a_mistake_is_named_with_its_key(file: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read(file, text)

    assert said in f"{caught.value.message} {caught.value.hint}"
    assert str(file) in caught.value.message


def test_all_mistakes_are_named_with_their_lines(file: Path) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read(
            file,
            """\
            [notify.ops]
            command = "a"
            failures = 0
            evnts = ["failed"]

            [notify.mail]
            email = "nobody"
            """,
        )

    assert [(one["line"], one["key"]) for one in caught.value.problems] == [
        (3, "notify.ops.failures"),
        (4, "notify.ops.evnts"),
        (7, "notify.mail.email"),
    ]
    assert caught.value.problems[1]["hint"] == "did you mean events?"


def test_an_address_is_never_in_a_message() -> None:
    _, problems = read_rules({"a": {"webhook": "hooks.example/T000/secret"}}, source="f")

    assert not any("secret" in f"{one.message}{one.hint}" for one in problems)
