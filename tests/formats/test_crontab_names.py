"""Names: what a person would call a line, and always usable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.checks import check_name
from edgecron.formats.crontab_lines import Crontab
from edgecron.formats.crontab_names import suggest_stem, take_name
from tests.support.forms import tried

Read = Callable[..., Crontab]

ODD_WORDS = (
    "sh bash -c -lc ' \" nice -n 5 sudo -u flock env python3 -m -e perl run-parts curl git su"
    " timeout && || ; | { } ( ) > 2>&1 A=b -- - / // ./ .sh -x \\ $( ` command -v cd"
)


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        ("/usr/local/bin/backup.sh --full", "backup"),
        ("cd / && run-parts --report /etc/cron.hourly", "cron.hourly"),
        (
            (
                "if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ];"
                " then /usr/share/mdadm/checkarray --cron --all --idle --quiet; fi"
            ),
            "checkarray",
        ),
        (
            "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
            "cron.daily",
        ),
        ("[ -x /usr/bin/foo ] && foo", "foo"),
        ("if [ ! -d /run/x ]; then /usr/lib/php/sessionclean; fi", "sessionclean"),
        ("command -v debian-sa1 > /dev/null && debian-sa1 1 1", "debian-sa1"),
        ("perl -e 'sleep int(rand(43200))' && certbot -q renew", "certbot-renew"),
        ("sleep 30; /opt/late.py", "late"),
        ("A=1 B='2 3' ./run.rb", "run"),
        ("nice -n 19 ionice -c 3 /opt/run-it.py", "run-it"),
        ("flock -n /tmp/lock -c '/opt/report.sh weekly'", "report"),
        ("/usr/bin/flock -w 5 /tmp/lock /opt/report.sh", "report"),
        ("timeout -k 5 10m rsync -a /a /b", "rsync"),
        ("sudo -u www-data php -f /var/www/cron.php", "cron"),
        ("env -u X A=b /opt/tool", "tool"),
        ("/usr/bin/env python3 /srv/job.py", "job"),
        ("su - bob -c 'cd /srv; ./thing --a'", "thing"),
        ("sh -c 'cd /x && ./foo.sh'", "foo"),
        ('bash -lc "bar baz"', "bar"),
        ("python3 -m pkg.mod --x", "pkg.mod"),
        ("/usr/bin/python3.11 -W error /home/a/job.py", "job"),
        ("$HOME/bin/daily.job >> $HOME/tmp/out 2>&1", "daily.job"),
        (">/dev/null 2>&1 quiet", "quiet"),
        ("cd /srv/app && python3 manage.py send_mail", "manage-send_mail"),
        ("php /srv/shop/artisan schedule:run", "artisan-schedule-run"),
        ("php -f /var/www/shop/public/cron.php", "shop-cron"),
        ("/opt/sync/bin/run --all", "sync-run"),
        ("/home/anna/bin/run.sh", "run"),
        ("git -C /srv pull", "git-pull"),
        ("curl -fsS https://hc.example.com/uuid", "curl-hc.example.com"),
        ("echo hello", "echo"),
        ("echo hello | mail joe", "mail"),
        ("12345", "job-12345"),
        ("/opt/sauvegardé.sh", "sauvegarde"),
        ("it's unbalanced", "it-s"),
        ("../../etc/passwd", "passwd"),
    ],
)
def test_a_command_gives_the_name_that_a_person_would(command: str, stem: str) -> None:
    assert suggest_stem(command) == stem


def test_a_command_without_a_usable_name_gets_one_that_only_it_decides() -> None:
    name = suggest_stem("/opt/备份")

    assert name.startswith("cron-")
    assert name == suggest_stem("/opt/备份")
    assert name != suggest_stem("/opt/报告")


def test_equal_names_are_numbered_in_file_order(read: Read) -> None:
    crontab = read("@daily a x\n@daily a-2\n@daily a y\n@daily a z\n")

    assert [entry.spec.name for entry in crontab.entries] == ["a", "a-2", "a-3", "a-4"]


def test_a_shell_in_a_shell_in_a_shell_ends(read: Read) -> None:
    command = "x"
    for _ in range(8):
        command = f"sh -c {command!r}"

    check_name(suggest_stem(command), what="name")


@pytest.mark.failure(57)
@settings(max_examples=tried(40, 100), deadline=None)
@given(st.text(max_size=200))
def test_every_name_is_usable(command: str) -> None:
    check_name(suggest_stem(command), what="name")


@settings(max_examples=tried(40, 100), deadline=None)
@given(st.lists(st.sampled_from(ODD_WORDS.split()), max_size=12))
def test_every_name_of_odd_shell_text_is_usable(words: list[str]) -> None:
    check_name(suggest_stem(" ".join(words)), what="name")


@settings(max_examples=tried(40, 100), deadline=None)
@given(st.lists(st.sampled_from(["a", "a-2", "a-2-2", "a-3", "b"]), max_size=40))
def test_taken_names_are_never_given_twice(stems: list[str]) -> None:
    taken: dict[str, int] = {}

    names = [take_name(stem, taken=taken) for stem in stems]

    assert len(set(names)) == len(names)
