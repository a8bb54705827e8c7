"""A plain cron text is read as croniter reads it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_triggers_oracle import MINUTE_TEXTS, SECOND_TEXTS

from edgecron.triggers.expand import expand_by_croniter, expand_plain
from edgecron.triggers.gate import gate

PLAIN = ["0 2 * * *", "*/15 8-18/2 1,15 * 1-5", "5/10 * * 3/4 0", "59 23 31 12 6", "0 0 * * 5-7"]


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_text_means_what_croniter_says(text: str) -> None:
    gated = gate(text)

    plain = expand_plain(gated.fields)
    assert plain.to_json() == expand_by_croniter(gated, text, hash_id=None).to_json()


@settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(MINUTE_TEXTS, SECOND_TEXTS))
def test_any_plain_text_means_what_croniter_says(text: str) -> None:
    gated = gate(text)
    if any(letter in "".join(gated.fields) for letter in "lw#h"):
        return

    plain = expand_plain(gated.fields)
    assert plain.to_json() == expand_by_croniter(gated, text, hash_id=None).to_json()


def test_a_program_with_plain_texts_never_loads_croniter() -> None:
    code = "import sys; from edgecron import cron; cron('0 2 * * MON-FRI'); print(*sys.modules)"
    command = [sys.executable, "-c", code]

    loaded = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "edgecron.triggers.expand" in loaded.stdout.split()
    assert "croniter" not in loaded.stdout.split()
