"""The OpenAPI document is true: schemathesis asks all that it allows, and much that it does not.

The long form, `-m slow`, prints its figures; TESTS_SEED has it try other examples.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.http.document_schema import DOCUMENT, PATCH
from edgecron.model.options import OPTIONS
from tests.support.http import Api, serving
from tests.support.specs import make_spec

TOKEN = "a-word-that-nobody-guesses"
OPENAPI = "/api/v1/openapi.json"
# 422 is what a value of the right shape means nothing for: no shape could say it. What is asked
# under a condition, or as things stand, may be refused for that.
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2XX", "304", "404", "409", "412", "422"]
negative_data_rejection.expected-statuses = ["4XX"]

# These also answer for a removed schedule.
[[operations]]
include-path-regex = "/(removals|removed-at|dependents)$"
checks.use_after_free.enabled = false
"""


def filled(folder: Path) -> Path:
    """A database with schedules and runs. No engine: what is made up is never run."""
    with Client(folder / "edge.db") as client:
        client.add_all([make_spec("backup"), make_spec("report")])
        for _ in range(3):
            client.cancel(client.run_now("backup")[0].id)
    return folder / "edge.db"


def ask_everything(api: Api, folder: Path, *words: str) -> str:
    """What schemathesis has found, as text; it fails where that is anything."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    given = () if api.token is None else ("-H", f"Authorization: Bearer {api.token}")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            f"http://127.0.0.1:{api.port}{OPENAPI}",
            *("--no-color", "--seed", os.environ.get("TESTS_SEED", "1")),
            *("--generation-database", "none", *given, *words),
        ],
        cwd=folder,
        env=os.environ
        | {
            "SCHEMATHESIS_HOOKS": "contract_hooks",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.needs_package("schemathesis")
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with serving(filled(tmp_path)) as api:
        found = ask_everything(api, tmp_path, "--phases", "fuzzing,stateful", "-n", "2")

    assert "83 selected / 83 total" in found


@pytest.mark.slow
@pytest.mark.needs_package("schemathesis")
@pytest.mark.parametrize("token", [None, TOKEN])
def test_schemathesis_finds_nothing_in_the_long_run(tmp_path: Path, token: str | None) -> None:
    with serving(filled(tmp_path), token=token) as api:
        found = ask_everything(api, tmp_path, "-n", "300")

    print(*[line for line in found.splitlines() if "generated" in line or "passed" in line])


def test_the_document_is_open_to_who_has_the_token_and_says_that_it_is_needed(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "edge.db", token=TOKEN) as api:
        refused = Api(api.port).get(OPENAPI)
        document = api.get(OPENAPI).json

    assert refused.status == 401
    assert document["security"] == [{"token": []}]
    assert document["paths"]["/healthz"]["get"]["security"] == []


def test_every_key_of_a_document_has_a_shape() -> None:
    assert DOCUMENT["properties"].keys() == PATCH["properties"].keys() == OPTIONS.keys()


def test_the_document_names_every_zone_once(tmp_path: Path) -> None:
    with serving(tmp_path / "edge.db") as api:
        content = api.get(OPENAPI).body

    assert content.count(b'"Europe/Berlin"') == 1
    assert json.loads(content)["components"]["schemas"]["TimeZone"]["enum"][0] == "local"
