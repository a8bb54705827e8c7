"""The graph of a schedule: what it waits for, what waits for it, and which paths are blocked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.values import replace
from edgecron.client import Client
from edgecron.model.choices import Status
from edgecron.tui.graph_screen import GraphScreen, links_to, read_graph, why_blocked
from edgecron.tui.home import HomeScreen
from edgecron.tui.schedule_screen import ScheduleScreen
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_sizes


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    """A dump, then a backup, then three schedules that follow it or need it."""
    with Client(tmp_path / "edgecron.db", clock=clock) as opened:
        opened.add(make_spec("dump", "0 2 * * *"))
        opened.add(make_spec("backup", "after dump", needs=("online",)))
        opened.add(make_spec("verify", "after backup"))
        opened.add(make_spec("alert", "after backup:failure"))
        opened.add(make_spec("upload", "0 6 * * *", needs=("success:backup:1d",)))
        opened.add(make_spec("report", "after verify:any", needs=("success:verify",)))
        yield opened


def test_both_trees_have_each_link_with_its_words(client: Client) -> None:
    graph = read_graph(client, "backup")

    assert [(node.name, node.words) for node in graph.upstream] == [("dump", "after it succeeds")]
    assert [(node.branch + node.name, node.words) for node in graph.downstream] == [
        ("├─ alert", "after it fails"),
        ("├─ upload", "needs success within 1d"),
        ("└─ verify", "after it succeeds"),
        ("   ├─ report", "after it ends"),
        ("   └─ report", "needs its success"),
    ]
    assert not any(node.blocked for node in (*graph.upstream, *graph.downstream))


def test_a_paused_schedule_blocks_all_paths_through_it(client: Client) -> None:
    client.pause("backup")

    graph = read_graph(client, "dump")

    assert {node.name: node.blocked for node in graph.downstream} == {
        "backup": "",
        "alert": "backup is paused",
        "upload": "backup is paused",
        "verify": "backup is paused",
        "report": "backup is paused",
    }


@pytest.mark.parametrize(
    ("status", "blocked"),
    [
        (Status.FAILED, "backup failed"),
        (Status.INTERRUPTED, "backup was interrupted"),
        (Status.SUCCESS, ""),
        (None, ""),
    ],
)
def test_a_failure_blocks_what_needs_a_past_success_only(
    client: Client, clock: FakeClock, status: Status | None, blocked: str
) -> None:
    backup = replace(client.schedule("backup"), last_status=status)

    def why(name: str) -> str:
        [link] = (one for one in links_to(client, client.schedule(name)))
        return why_blocked(backup, link, now=clock.now())

    assert why("upload") == blocked
    assert why("verify") == why("alert") == ""  # The next end of the backup starts them.


def test_a_removed_schedule_ends_its_branch(client: Client) -> None:
    client.remove("dump")

    [gone] = read_graph(client, "backup").upstream

    assert (gone.schedule, gone.blocked) == (None, "dump does not exist")


def test_a_schedule_on_two_paths_has_its_branches_once(client: Client) -> None:
    client.add(make_spec("merge", "every 1h", needs=("success:alert", "success:verify")))
    client.add(make_spec("end", "after merge"))

    nodes = read_graph(client, "backup").downstream

    assert [node.is_repeated for node in nodes if node.name == "merge"] == [False, True]
    assert [node.name for node in nodes].count("end") == 1


def lines_without_path(seen: Seen) -> list[str]:
    """Return what is shown, without the path of the database and its size."""
    return [re.sub(r" +\S+\.db  .*", "", line) for line in seen.lines()]


def test_the_graph_looks_as_it_was_drawn_and_opens_a_schedule(
    client: Client, clock: FakeClock
) -> None:
    client.pause("verify")

    async def story(seen: Seen) -> None:
        await seen.press("j", "w")
        assert isinstance(seen.app.screen, GraphScreen)
        await check_sizes(seen, "graph", (80, 24), (160, 48), lines=lines_without_path)
        await seen.press("enter")
        assert isinstance(seen.app.screen, ScheduleScreen)
        await seen.press("escape")
        assert isinstance(seen.app.screen, HomeScreen)

    watch(story, client.path, clock, size=(80, 24))


@pytest.mark.parametrize(("keys", "heading"), [("jj", "it waits for"), ("", "waiting for it")])
def test_a_schedule_at_an_end_of_the_graph_is_said_to_be_there(
    client: Client, clock: FakeClock, keys: str, heading: str
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(*keys, "w")
        (line,) = (line for line in seen.lines() if heading in line)
        assert line.split(heading)[1].strip() == "no other schedule"

    watch(story, client.path, clock, size=(80, 24))
