"""What other users of this machine do, in processes that are theirs. Needs root."""

from __future__ import annotations

import json
import pwd
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.support.tools import need_tools

NOBODY = pwd.getpwnam("nobody").pw_uid
DAEMON = pwd.getpwnam("daemon").pw_uid
BOUND_S = 20.0


class Heard(NamedTuple):
    """An answer as curl has heard it; status 0 where there was none."""

    status: int
    body: str

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


def run_as(uid: int, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of the system as a user: nothing of this tree can be read by all of them."""
    return subprocess.run(
        argv,
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )


def ask_as(uid: int, url: str, *words: str, body: Mapping[str, Any] | None = None) -> Heard:
    """What curl is answered as a user; `words` are further options of it."""
    need_tools("curl")
    sent = ("-H", "Content-Type: application/json", "-d", json.dumps(body)) if body else ()
    ended = run_as(uid, ["curl", "-qsS", "-g", "-w", "\n%{http_code}", *sent, *words, url])
    content, _, status = ended.stdout.rpartition("\n")
    return Heard(int(status), content)


def say_as(uid: int, port: int, content: bytes, *, hears: bool = True) -> str:
    """What is answered to bytes that a user sends; '' where that one closes at once."""
    # An answer can come, and the connection end, before all is written.
    line = (
        f'trap "" PIPE; exec 3<>/dev/tcp/127.0.0.1/{port}; printf %s "$1" >&3;'
        f" {'cat <&3' if hears else 'exec 3>&-'}"
    )
    ended = run_as(uid, ["bash", "-c", line, "bash", content.decode()])
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@contextmanager
def holding_as(uid: int, port: int, *, count: int) -> Iterator[None]:
    """A user who has opened so many connections and says nothing over them; until the end."""
    line = (
        f"for _ in $(seq {count}); do exec {{link}}<>/dev/tcp/127.0.0.1/{port}; done;"
        " echo held; read -r _"
    )
    with subprocess.Popen(
        ["bash", "-c", line],
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.communicate(timeout=BOUND_S)
