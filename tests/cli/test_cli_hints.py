"""Errors of bad input have a hint: the option, value or command to try, and never a wrong one."""

from __future__ import annotations

import pytest

from tests.support.cli import Edgecron

ADD = ("add", "x", "--every", "1h")
COMMAND = ("--", "true")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((*ADD, "--overlap", "skp", *COMMAND), "did you mean --overlap skip?"),
        ((*ADD, "--overlap", "SKIP", *COMMAND), "did you mean --overlap skip?"),
        ((*ADD, "--overlap", "foo", *COMMAND), "for example: --overlap skip"),
        ((*ADD, "--retries", "foo", *COMMAND), "for example: --retries 3"),
        ((*ADD, "--retries", "2x", *COMMAND), "for example: --retries 2"),
        ((*ADD, "--retries", "-1", *COMMAND), "for example: --retries 0"),
        ((*ADD, "--retries", "9999999", *COMMAND), "for example: --retries 1000000"),
        ((*ADD, "--max-running", "0", *COMMAND), "for example: --max-running 1"),
        ((*ADD, "--ok-codes", "0,256", *COMMAND), "for example: --ok-codes 255"),
        ((*ADD, "--priority", "hi", *COMMAND), "did you mean --priority high?"),
        ((*ADD, "--priority", "urgent", *COMMAND), "for example: --priority low"),
        ((*ADD, "--group", "disk:many", *COMMAND), "for example: --group disk:2"),
        ((*ADD, "--payload", "{a:1}", *COMMAND), "for example: --payload '{\"size\": 3}'"),
        ((*ADD, "--env", "A", *COMMAND), "for example: --env LANG=C"),
        (("run", "backup", "--payload", "{a:1}"), "for example: --payload '{\"size\": 3}'"),
        (("history", "--status", "faild"), "did you mean --status failed?"),
        (("history", "-n", "all"), "for example: -n 3"),
        (("cancel", "0"), "list the runs: edgecron history"),
        (("doctor", "--take-over", "abc"), "see the PID of each engine: edgecron status"),
    ],
)
def test_a_wrong_value_gets_one_to_try(
    edgecron: Edgecron, backup: str, words: tuple[str, ...], hint: str
) -> None:
    said = edgecron(*words)

    assert (said.code, said.out) == (2, "")
    assert said.is_plain_error
    assert said.err.endswith(f"\nhint: {hint}\n")
