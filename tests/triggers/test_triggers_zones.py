"""Zones: the spans of constant offset, names, the machine's own zone."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron.base.errors import UnknownTimezone
from edgecron.base.tzif import Rule, rule_content
from edgecron.base.zones import (
    check_zone,
    load_zone,
    local_zone_mark,
    local_zone_name,
    local_zone_stamp,
    offset_at,
    resolve_wall,
    tzdata_version,
    zone_history,
    zone_spans,
)
from edgecron.triggers import parse_trigger
from tests.triggers.triggers_oracle import FOLDER, all_zones, offset_s, zone

DAY_S = 86_400
FROM_S = int(datetime(1850, 1, 1, tzinfo=UTC).timestamp())
UNTIL_S = int(datetime(2155, 1, 1, tzinfo=UTC).timestamp())


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def check_spans(name: str, *, step_s: int) -> None:
    spans = zone_spans(name, until_s=UNTIL_S)
    for index, start in enumerate(spans.starts):
        if index and start < UNTIL_S:
            assert offset_s(name, start) == spans.offsets[index], (name, start)
            assert offset_s(name, start - 1) == spans.offsets[index - 1], (name, start)
    index = 0
    for at in range(FROM_S, UNTIL_S, step_s):
        while index + 1 < len(spans.starts) and spans.starts[index + 1] <= at:
            index += 1
        assert offset_s(name, at) == spans.offsets[index], (name, at)


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_the_spans_of_zones_are_those_of_zoneinfo(part: int) -> None:
    for name in all_zones()[part::3]:
        check_spans(name, step_s=23 * DAY_S + 3607)


@pytest.mark.slow
@pytest.mark.parametrize("name", all_zones())
def test_a_dense_scan_misses_no_change_of_offset(name: str) -> None:
    check_spans(name, step_s=10_800)


def test_spans_reach_as_far_as_they_are_asked_for() -> None:
    near = zone_spans("Europe/Berlin", until_s=seconds("2030-01-01T00:00Z"))
    far = zone_spans("Europe/Berlin", until_s=seconds("2400-01-01T00:00Z"))

    assert near.until >= seconds("2030-01-01T00:00Z")
    assert far.until >= seconds("2400-01-01T00:00Z")
    assert far.starts[: len(near.starts)] == near.starts
    assert far.offsets[-1] in (3600, 7200)


@pytest.mark.parametrize("text", ["30 2 * * *", "* * * * *", "0 0 29 2 *"])
def test_the_ends_of_the_calendar_do_no_harm(text: str) -> None:
    trigger = parse_trigger(text, "Europe/Berlin")

    first = trigger.next_after(datetime.min.replace(tzinfo=UTC))
    assert first is not None
    assert first.year <= 4
    assert trigger.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert trigger.next_after_ms(10**18) is None
    assert trigger.next_after_ms(-(10**18)) is not None
    assert trigger.count_ms(10**17, 10**18) == 0
    last_ms = trigger.last_ms(-(10**18), 10**18)
    assert last_ms is not None
    assert trigger.next_after_ms(last_ms) is None


def test_midnight_of_1970_is_a_time_like_any_other() -> None:
    trigger = parse_trigger("0 0 1 1 *", None)

    assert trigger.next_after_ms(-1) == 0
    assert trigger.last_ms(-1, 0) == 0
    assert trigger.count_ms(-1, 0) == 1
    assert parse_trigger("0 0 1 1 *", "Asia/Tokyo").next_after_ms(-86_400_000) == -32_400_000


@pytest.mark.failure(9)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berlim", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("America/New York", "did you mean America/New_York?"),
        ("Narnia", "write an IANA name"),
        ("Mars/City", "write an IANA name"),
        ("", "write an IANA name"),
        ("../zones", "write an IANA name"),
        ("/etc/localtime", "write an IANA name"),
        ("Europe/../Europe/Berlin", ""),
        ("Europe/Berlin\0", ""),
        ("Europe", ""),
        ("CET-1CEST,M3.5.0,M10.5.0/3", ""),
        ("localtime", ""),
        ("x" * 10_000, "write an IANA name"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(UnknownTimezone, match="is unknown, expected an IANA name") as caught:
        parse_trigger("0 2 * * *", name)

    assert hint in (caught.value.hint or "")
    assert len(caught.value.message) < 250


@pytest.mark.parametrize("text", ["every 15m", "on boot", "after x", "at 2026-11-20T08:00:00Z"])
def test_every_kind_of_trigger_refuses_an_unknown_zone(text: str) -> None:
    with pytest.raises(UnknownTimezone):
        parse_trigger(text, "Europe/Berlim")


def test_a_zone_that_is_no_text_is_refused() -> None:
    with pytest.raises(UnknownTimezone):
        check_zone(5)


def test_zones_come_from_the_package_whatever_the_search_path_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())

    loaded = load_zone("Europe/Berlin")

    assert loaded.key == "Europe/Berlin"
    assert loaded.utcoffset(datetime(2026, 7, 1)) == zone("Europe/Berlin").utcoffset(  # noqa: DTZ001
        datetime(2026, 7, 1)  # noqa: DTZ001
    )
    assert zoneinfo.TZPATH == ()
    assert load_zone(None).key == "UTC"
    assert tzdata_version()[:2] == "20"


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("Asia/Tokyo", "Asia/Tokyo"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        (":/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"),
        ("", "UTC"),
    ],
)
def test_the_variable_TZ_names_the_local_zone(
    variable: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", variable)

    assert local_zone_name() == name


def test_a_change_of_the_local_zone_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    trigger = parse_trigger("0 9 * * *", "local")
    before = trigger.next_after(datetime(2026, 7, 1, tzinfo=UTC))

    monkeypatch.setenv("TZ", "Europe/Berlin")
    after = trigger.next_after(datetime(2026, 7, 1, tzinfo=UTC))

    assert trigger.timezone == "local"
    assert before == datetime(2026, 7, 2, 0, tzinfo=UTC)
    assert after == datetime(2026, 7, 1, 7, tzinfo=UTC)


def test_a_rule_in_TZ_is_followed_and_a_bad_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    trigger = parse_trigger("30 2 * * *", "local")

    assert trigger.next_after(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(
        2026, 3, 29, 1, tzinfo=UTC
    )
    assert load_zone("local").utcoffset(datetime(2026, 7, 1)) is not None  # noqa: DTZ001
    monkeypatch.setenv("TZ", "Middle/Earth")
    with pytest.raises(UnknownTimezone, match="Middle/Earth"):
        parse_trigger("0 2 * * *", "local")


def test_the_local_zone_is_found_by_link_then_name_then_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    etc = str(tmp_path)
    assert local_zone_name(etc) == "UTC"

    (tmp_path / "localtime").write_bytes((FOLDER / "zoneinfo/Asia/Tokyo").read_bytes())
    assert local_zone_name(etc) == "localtime"

    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert local_zone_name(etc) == "Asia/Tokyo"

    (tmp_path / "localtime").unlink()
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert local_zone_name(etc) == "Europe/Berlin"


def test_another_local_zone_changes_its_stamp_and_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    etc, localtime = str(tmp_path), tmp_path / "localtime"
    stamps, marks = [local_zone_stamp(etc)], [local_zone_mark(etc)]

    for name in ("Asia/Tokyo", "Europe/Berlin"):
        # As timedatectl does it; and as an image without names has it.
        (tmp_path / "new").symlink_to(f"/usr/share/zoneinfo/{name}")
        (tmp_path / "new").replace(localtime)
        stamps.append(local_zone_stamp(etc))
        marks.append(local_zone_mark(etc))
    for name in ("Asia/Tokyo", "Europe/Berlin"):
        (tmp_path / "new").write_bytes((FOLDER / "zoneinfo" / name).read_bytes())
        (tmp_path / "new").replace(localtime)
        stamps.append(local_zone_stamp(etc))
        marks.append(local_zone_mark(etc))

    assert stamps[-1] == local_zone_stamp(etc)
    assert len(set(stamps)) == len(stamps)
    assert marks[:3] == ["UTC", "Asia/Tokyo", "Europe/Berlin"]
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(
    ("rule", "instant", "offset"),
    [
        ("UTC0", "2026-07-01T00:00Z", 0),
        ("<+0330>-3:30", "2026-07-01T00:00Z", 12_600),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-03-08T06:59:59Z", -18_000),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-03-08T07:00Z", -14_400),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-11-01T06:00Z", -18_000),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T00:59:59Z", -7_200),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00Z", -3_600),
        # The 60th day is 1 March, counted with J, and 29 February in a leap year without.
        ("A0B,J60/0,J300/0", "2028-02-29T23:59:59Z", 0),
        ("AAA0BBB,J60/0,J300/0", "2028-03-01T00:00Z", 3_600),
        ("AAA0BBB,59/0,300/0", "2028-02-29T00:00Z", 3_600),
    ],
)
def test_a_posix_rule_is_read_as_posix_says(rule: str, instant: str, offset: int) -> None:
    if rule.startswith("A0B"):  # names have three letters at least
        with pytest.raises(ValueError, match="is not understood"):
            Rule(rule)
        return
    from edgecron.base.tzif import read_history

    spans = read_history(rule_content(rule)).spans(seconds("2030-01-01T00:00Z"))

    assert spans.offsets[spans.index_at(seconds(instant))] == offset


@pytest.mark.parametrize("rule", ["", "UTC", "EST5EDT", "EST5EDT,M3.2.0", "EST5EDT,M13.1.0,M1.1.0",
                                  "EST5EDT,x,y", "5", "EST5EDT,M3.2.0,M11.1.0,M1.1.1"])  # fmt: skip
def test_a_bad_posix_rule_is_a_value_error(rule: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Rule(rule)


@pytest.mark.parametrize(
    ("wall", "timezone", "expected"),
    [
        ("2026-03-29T02:30Z", "Europe/Berlin", "2026-03-29T01:00Z"),
        ("2026-03-29T03:00Z", "Europe/Berlin", "2026-03-29T01:00Z"),
        ("2026-10-25T02:30Z", "Europe/Berlin", "2026-10-25T00:30Z"),
        ("2026-10-25T03:00Z", "Europe/Berlin", "2026-10-25T02:00Z"),
        ("2011-12-30T12:00Z", "Pacific/Apia", "2011-12-30T10:00Z"),
        ("1970-01-01T00:00Z", "Pacific/Kiritimati", "1970-01-01T10:40Z"),
    ],
)
def test_a_wall_time_is_the_first_instant_that_shows_or_passes_it(
    wall: str, timezone: str, expected: str
) -> None:
    assert resolve_wall(seconds(wall), timezone=timezone) == seconds(expected)


def test_the_offset_at_an_instant_is_that_of_its_span() -> None:
    assert offset_at(seconds("2026-03-29T00:59:59Z"), timezone="Europe/Berlin") == 3600
    assert offset_at(seconds("2026-03-29T01:00Z"), timezone="Europe/Berlin") == 7200
    assert zone_history("Europe/Berlin") is zone_history("Europe/Berlin")
