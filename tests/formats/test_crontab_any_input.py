"""Whatever a file holds, reading it gives entries and problems, and no error."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.checks import check_name
from edgecron.formats.crontab import read_crontab
from edgecron.formats.crontab_identity import find_new
from edgecron.formats.crontab_lines import Crontab
from tests.support.forms import tried

FRAGMENTS = [
    "0 5 * * *", "@daily", "@reboot", "*/7", "1-5", "fri-sun", "L", "1#2", "~", "*", "-", "%",
    "\\%", "\\", "root", "alice", "A=", "CRON_TZ=", "Japan", "RANDOM_DELAY=5", "SHELL=", "HOME=",
    "MAILTO=", "'", '"', "#", "# moved to edgecron: ", " ", "\t", "\r", "\n", "\n", "\n", "\0",
    "\ufeff", "é", "\u202e", "\x1b[2J", "x", "/bin/x.sh", "sh -c", "&&", "99", "=",
    "@", "/etc", "\ud800", "SHELL=' '\n", "HOME=' '\n",
]  # fmt: skip


def check(content: bytes | str, *, system: bool | None, importer: str) -> Crontab:
    crontab = read_crontab(
        content,
        system=system,
        importer=importer,
        is_root=importer == "root",
        user_exists={"root", "alice"}.__contains__,
    )
    names = [entry.spec.name for entry in crontab.entries]
    for name in names:
        check_name(name, what="name")
    assert len(set(names)) == len(names)
    assert all(problem.message.isprintable() for problem in crontab.problems)
    assert find_new(crontab.entries, [entry.spec for entry in crontab.entries]).new == ()
    claimed = [entry.line for entry in crontab.entries] + [each.line for each in crontab.problems]
    assert len(set(claimed)) == len(claimed)
    return crontab


@settings(max_examples=tried(40, 100), deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from([None, False, True]),
    st.sampled_from(["root", "alice"]),
)
def test_any_bytes_are_read(content: bytes, system: bool | None, importer: str) -> None:
    check(content, system=system, importer=importer)


@settings(max_examples=tried(40, 100), deadline=None)
@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join),
    st.sampled_from([None, False, True]),
    st.sampled_from(["root", "alice"]),
)
def test_any_mixture_of_crontab_text_is_read(
    content: str, system: bool | None, importer: str
) -> None:
    check(content, system=system, importer=importer)


@settings(max_examples=tried(40, 100), deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="%\\\n\r\0", codec="utf-8"), min_size=1))
def test_a_command_without_percent_signs_is_handed_on_letter_by_letter(command: str) -> None:
    crontab = check(f"0 5 * * * x{command}\n", system=False, importer="alice")

    assert [entry.spec.job.argv for entry in crontab.entries] == [(f"x{command}",)]
    assert crontab.entries[0].spec.job.stdin is None


def test_thousands_of_equal_lines_are_named_in_one_pass() -> None:
    crontab = read_crontab(
        "@daily a\n" * 20_000,
        system=False,
        importer="alice",
        is_root=False,
        user_exists=lambda _name: False,
        validate=lambda _text, _timezone, _name: (),
    )

    assert crontab.entries[-1].spec.name == "a-20000"
