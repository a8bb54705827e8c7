"""Lines, variables and commands: what cron reads, and what it does not."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest

from edgecron.formats.crontab_lines import Crontab, mail_rule_text
from edgecron.formats.notify_rules import read_rules
from edgecron.model.choices import JobKind
from edgecron.model.notices import EmailChannel

Read = Callable[..., Crontab]


def test_blank_lines_and_comments_are_no_entries(read: Read) -> None:
    crontab = read("\n  \t\n# a comment\n   # another\n")

    assert crontab == Crontab()


def test_an_entry_is_a_shell_job_in_local_time(read: Read) -> None:
    (entry,) = read("  5\t0 * *  mon-fri\t /usr/bin/thing -x  \n").entries

    assert entry.line == 1
    assert entry.raw == "  5\t0 * *  mon-fri\t /usr/bin/thing -x  "
    assert entry.spec.triggers == ("5 0 * * mon-fri",)
    assert entry.spec.timezone == "local"
    assert entry.spec.job.kind is JobKind.SHELL
    assert entry.spec.job.argv == ("/usr/bin/thing -x  ",)
    assert entry.spec.job.user is None
    assert entry.spec.job.stdin is None
    assert entry.spec.job.cwd is None


@pytest.mark.failure(61)
def test_without_a_path_or_a_shell_a_job_sees_those_of_cron(read: Read) -> None:
    (entry,) = read("@daily thing\n").entries

    assert entry.spec.job.env == {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}


@pytest.mark.failure(61)
def test_variables_hold_for_the_lines_that_follow(read: Read) -> None:
    crontab = read("@daily a\nPATH=/opt/bin\nLANG=C\n@daily b\nLANG=de_DE.UTF-8\n@daily c\n")

    first, second, third = (entry.spec.job.env for entry in crontab.entries)
    assert first == {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    assert second == {"SHELL": "/bin/sh", "PATH": "/opt/bin", "LANG": "C"}
    assert third == {"SHELL": "/bin/sh", "PATH": "/opt/bin", "LANG": "de_DE.UTF-8"}


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("  A  =\t b c  ", "A", "b c"),
        ('A=" b "', "A", " b "),
        ("A=' b '  ", "A", " b "),
        ('A=""', "A", ""),
        ("A=b\"c'", "A", "b\"c'"),
        ('A="b\'c"', "A", "b'c"),
        ("A=$HOME/bin:~/x # no comment", "A", "$HOME/bin:~/x # no comment"),
        ("'A' = b=c", "A", "b=c"),
        ('"A B"=c', "A B", "c"),
    ],
)
def test_an_assignment_is_read_as_cron_reads_it(
    read: Read, line: str, name: str, value: str
) -> None:
    crontab = read(f"{line}\n@daily x\n")

    assert crontab.problems == ()
    assert crontab.entries[0].spec.job.env[name] == value


@pytest.mark.parametrize(
    "line", ["A=", "A = ", "MAILTO=", 'A="b" c', 'A="b', "A='b\"", "=b", "A B=c", '"A=b', "A"]
)
def test_what_cron_refuses_as_an_assignment_is_a_problem(read: Read, line: str) -> None:
    crontab = read(f"@daily x\n{line}\n")

    assert [problem.line for problem in crontab.problems] == [2]
    assert crontab.problems[0].raw == line


def test_an_entry_that_holds_an_equal_sign_is_an_entry(read: Read) -> None:
    (entry,) = read("0 5 * * * X=1 run y=2\n").entries

    assert entry.spec.job.argv == ("X=1 run y=2",)


def test_another_shell_is_started_as_cron_starts_it(read: Read) -> None:
    (entry,) = read("SHELL=/bin/bash\n@daily [[ -e /x ]] && run\n").entries

    assert entry.spec.job.kind is JobKind.COMMAND
    assert entry.spec.job.argv == ("/bin/bash", "-c", "[[ -e /x ]] && run")
    assert entry.spec.job.env["SHELL"] == "/bin/bash"
    assert entry.spec.name == "run"


def test_home_is_the_folder_too(read: Read) -> None:
    (entry,) = read("HOME=/srv/app\n@daily ./run\n").entries

    assert entry.spec.job.cwd == "/srv/app"
    assert entry.spec.job.env["HOME"] == "/srv/app"


@pytest.mark.parametrize("line", ['SHELL=""', "SHELL=' '", 'HOME=""', "MLS_LEVEL=SystemHigh"])
def test_a_variable_that_no_job_could_run_with_is_a_problem(read: Read, line: str) -> None:
    assert [str(problem.line) for problem in read(f"{line}\n").problems] == ["1"]


@pytest.mark.parametrize(
    "line", ["MAILTO=a b|c", "MAILFROM=joe", "CONTENT_TYPE=text/html", "START_HOURS_RANGE=3-22"]
)
def test_mail_and_anacron_variables_are_warned_of_and_left_out(read: Read, line: str) -> None:
    crontab = read(f"{line}\n@daily x\n")

    assert [warning.line for warning in crontab.warnings] == [1]
    assert crontab.problems == ()
    assert set(crontab.entries[0].spec.job.env) == {"SHELL", "PATH"}


def test_mailto_becomes_a_rule_that_the_lines_after_it_name(read: Read) -> None:
    crontab = read('@daily a\nMAILTO="joe@example.org, root"\n@daily b\nMAILTO=""\n@daily c\n')

    assert crontab.warnings == ()
    assert [one.spec.policies.notify for one in crontab.entries] == [
        (),
        ("mailto-joe-example.org-root",),
        ("off",),
    ]
    assert crontab.mail_rules == {"mailto-joe-example.org-root": ("joe@example.org", "root")}
    assert "MAILTO" not in crontab.entries[1].spec.job.env


def test_the_rule_of_a_mailto_mails_what_a_run_printed(read: Read) -> None:
    [(name, addresses)] = read("MAILTO=joe@example.org,root\n@daily a\n").mail_rules.items()

    table = tomllib.loads(mail_rule_text(name, addresses))["notify"]
    [one], problems = read_rules(table, source="f")

    assert problems == []
    assert (one.rule.events, one.rule.needs_output, one.rule.schedules) == (("ended",), True, ())
    assert one.channel == EmailChannel(to=("joe@example.org", "root@localhost"))


def test_logname_can_not_be_set(read: Read) -> None:
    crontab = read("LOGNAME=bob\n@daily x\n")

    assert [warning.line for warning in crontab.warnings] == [1]
    assert "LOGNAME" not in crontab.entries[0].spec.job.env


def test_cron_tz_sets_the_zone_of_the_lines_that_follow_and_not_the_jobs_own(read: Read) -> None:
    crontab = read('0 1 * * * a\nCRON_TZ=Europe/Paris\n0 1 * * * b\nCRON_TZ=""\n0 1 * * * c\n')

    assert [entry.spec.timezone for entry in crontab.entries] == ["local", "Europe/Paris", "local"]
    assert set(crontab.entries[1].spec.job.env) == {"SHELL", "PATH"}
    assert [warning.line for warning in crontab.warnings] == [2]


def test_tz_is_the_jobs_own_and_not_the_schedules(read: Read) -> None:
    (entry,) = read("TZ=Asia/Tokyo\n0 1 * * * a\n").entries

    assert entry.spec.timezone == "local"
    assert entry.spec.job.env["TZ"] == "Asia/Tokyo"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "local", "../../etc/passwd", "UTC+3x"])
def test_an_unknown_zone_is_a_problem_of_its_own_line(read: Read, zone: str) -> None:
    crontab = read(f"@daily x\nCRON_TZ={zone}\n0 5 * * * y\n")

    assert [problem.line for problem in crontab.problems] == [2]
    assert zone in crontab.problems[0].message


def test_random_delay_becomes_jitter_in_seconds(read: Read) -> None:
    crontab = read("RANDOM_DELAY=45\n0 5 * * * a\n@reboot b\nRANDOM_DELAY=0\n0 5 * * * c\n")

    assert [entry.spec.policies.jitter_s for entry in crontab.entries] == [2700.0, 0.0, 0.0]


@pytest.mark.parametrize("minutes", ["-1", "ten", "1441", "1.5", "٣"])
def test_a_random_delay_that_cronie_refuses_is_a_problem(read: Read, minutes: str) -> None:
    assert [problem.line for problem in read(f"RANDOM_DELAY={minutes}\n").problems] == [1]


@pytest.mark.failure(61)
@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        ("a", "a", None),
        ("a%b", "a", "b\n"),
        ("mail joe%Joe,%%Where?%", "mail joe", "Joe,\n\nWhere?\n"),
        ("date +\\%F", "date +%F", None),
        ("a%50\\% b", "a", "50% b\n"),
        ("a%", "a", None),
        ("a%%", "a", "\n"),
        ("a \\n\\\\ b", "a \\n\\\\ b", None),
        ("a\\\\%b", "a\\\\", "b\n"),
        ("a%b\\\\%c", "a", "b\\%c\n"),
        ("a%b\\c\\", "a", "b\\c\\\n"),
        ("a \\", "a \\", None),
        ("a '%' b", "a '", "' b\n"),
    ],
)
def test_the_first_plain_percent_sign_ends_the_command(
    read: Read, written: str, command: str, stdin: str | None
) -> None:
    (entry,) = read(f"@daily {written}\n").entries

    assert (entry.spec.job.argv, entry.spec.job.stdin) == ((command,), stdin)


@pytest.mark.failure(60)
def test_a_command_is_handed_on_as_it_stands(read: Read) -> None:
    line = "$(touch x) `touch y`; echo \"$HOME\" 'it''s' \\$ # not a comment"

    (entry,) = read(f"@daily {line}\n").entries

    assert entry.spec.job.argv == (line,)


def test_crlf_lines_lose_their_cr_with_one_warning(read: Read) -> None:
    crontab = read(b'# x\r\nA="b"\r\n\r\n0 5 * * * run\r\n0 6 * * * other\r\n')

    assert crontab.problems == ()
    assert [entry.spec.job.argv for entry in crontab.entries] == [("run",), ("other",)]
    assert crontab.entries[0].spec.job.env["A"] == "b"
    assert [warning.line for warning in crontab.warnings] == [1]


def test_a_byte_order_mark_is_left_out_with_a_warning(read: Read) -> None:
    crontab = read(b"\xef\xbb\xbf0 5 * * * run\n")

    assert [entry.spec.triggers for entry in crontab.entries] == [("0 5 * * *",)]
    assert [warning.line for warning in crontab.warnings] == [1]


@pytest.mark.failure(57)
@pytest.mark.parametrize("line", [b"0 5 * * * a\0b", b"0 5 * * * caf\xe9", b"A=\xff"])
def test_nul_and_bytes_that_are_not_utf8_are_problems(read: Read, line: bytes) -> None:
    crontab = read(b"@daily x\n" + line + b"\n")

    assert [problem.line for problem in crontab.problems] == [2]


def test_a_comment_that_is_not_utf8_is_only_warned_of(read: Read) -> None:
    crontab = read(b"# caf\xe9\n@daily x\n")

    assert crontab.problems == ()
    assert crontab.entries[0].spec.description is None
    assert [warning.line for warning in crontab.warnings] == [1]


@pytest.mark.failure(61)
def test_a_last_line_without_a_newline_is_imported_with_a_warning(read: Read) -> None:
    crontab = read("@daily a\n@daily b")

    assert len(crontab.entries) == 2
    assert [warning.line for warning in crontab.warnings] == [2]
    assert read("@daily a\n# the end").warnings == ()


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("tar czf /b/$(date +%F).tgz /home", 1),
        ("echo `date +%H`", 1),
        ("echo '50%'", 1),
        ("date +%F", 1),
        ("tar czf /b/$(date +\\%F).tgz /home", 0),
        ("mail -s 'for $(whoami)' ada%Ada,%hello", 0),
    ],
)
def test_a_command_that_a_percent_sign_cuts_is_warned_of(
    read: Read, command: str, count: int
) -> None:
    crontab = read(f"@daily {command}\n")

    assert len(crontab.entries) == 1
    assert [r"to keep a %, write \%" in one.message for one in crontab.warnings] == [True] * count


def test_a_command_longer_than_debian_takes_is_warned_of(read: Read) -> None:
    crontab = read(f"@daily {'x' * 999}\n@daily {'y' * 998}\n")

    assert len(crontab.entries) == 2
    assert [warning.line for warning in crontab.warnings] == [1]


def test_a_line_longer_than_any_program_takes_is_a_problem(read: Read) -> None:
    crontab = read(f"@daily a\n@daily {'x' * 131_072}\n")

    assert [problem.line for problem in crontab.problems] == [2]


@pytest.mark.parametrize("line", ["@daily", "0 5 * * *", "0 5 * * *  ", "@daily %in", "0 5 * *"])
def test_a_line_without_a_command_is_a_problem(read: Read, line: str) -> None:
    assert [problem.line for problem in read(f"{line}\n").problems] == [1]


@pytest.mark.failure(59)
def test_every_line_that_can_not_be_carried_over_is_named(read: Read) -> None:
    crontab = read("nonsense\n0 5 * * * fine\n61 * * * * x\n@often y\n")

    assert [str(problem).partition(":")[0] for problem in crontab.problems] == [
        "line 1",
        "line 3",
        "line 4",
    ]


@pytest.mark.failure(72)
def test_messages_hold_no_control_characters(read: Read) -> None:
    crontab = read("\x1b[2Jx y\n@\x1b]0;t\x07 y\n\x1b * * * * z\nA\x1b=\nCRON_TZ=\x1b[1m\n")

    assert len(crontab.problems) == 5
    assert all(problem.message.isprintable() for problem in crontab.problems)
    assert all((problem.hint or "").isprintable() for problem in crontab.problems)


def test_a_minus_before_the_minute_is_for_root_alone(read: Read) -> None:
    line = "-*/5 * * * * run\n"

    assert read(line, importer="root").entries[0].spec.triggers == ("*/5 * * * *",)
    assert [problem.line for problem in read(line).problems] == [1]
