"""What the jobs of a small home server print: lines, each when its part of the run is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from edgecron.model.run import Output, OutputChunk, Stream

FOR_EVER_S = 86_400.0  # longer than any timeout
HOME_FOLDERS = ("anna/documents", "anna/mail", "ben/code", "ben/music", "scans", "shared/recipes")
PHOTO_FOLDERS = tuple(map(str, range(2016, 2027)))


class Line(NamedTuple):
    """A line that a run prints when this part of its time has passed, from 0 to 1."""

    part: float
    text: str
    stream: Stream = Stream.STDOUT


class Draw(NamedTuple):
    """How one run goes: the seconds it takes, its exit code, and the dice for what it prints."""

    lasts_s: float
    exit_code: int
    dice: Random


Prints = Callable[[Draw], Sequence[Line]]


def printed(lines: Sequence[Line], *, started_ms: int, ends_ms: int, until_ms: int) -> Output:
    """What a run has printed by an instant, of the lines that it prints until its end."""
    lasts_ms = ends_ms - started_ms
    chunks = [
        OutputChunk(
            stream=line.stream,
            at_ms=started_ms + round(line.part * lasts_ms),
            content=f"{line.text}\n".encode(),
        )
        for line in lines
        if started_ms + round(line.part * lasts_ms) <= until_ms
    ]
    sizes = {
        stream: sum(len(chunk.content) for chunk in chunks if chunk.stream is stream)
        for stream in Stream
    }
    return Output(
        chunks=tuple(chunks),
        stdout_bytes=sizes[Stream.STDOUT],
        stderr_bytes=sizes[Stream.STDERR],
    )


def backing_up(what: str, folders: Sequence[str], *, gigabytes: float) -> Prints:
    def prints(draw: Draw) -> list[Line]:
        dice = draw.dice
        snapshot = f"{dice.randrange(16**8):08x}"
        files, changed = round(gigabytes * 3_170), dice.randrange(40, 900)
        lines = [
            Line(0.00, "open repository"),
            Line(0.01, "repository 7f3c19ae opened (version 2, compression level auto)"),
            Line(0.02, f"lock repository, load index: {dice.randrange(38, 52)} files"),
        ]
        steps = round(gigabytes / 9)
        for step in range(1, steps):
            done = (step + dice.uniform(-0.3, 0.3)) / steps
            at = 0.03 + 0.92 * step / steps
            folder = f"{what}/{folders[int(done * len(folders))]}"
            size = f"{round(files * done):>7} files  {gigabytes * done:6.1f} GiB"
            lines.append(Line(at, f"{done:4.0%}  {size}  {folder}"))
            if dice.random() < 0.05:
                lost = f"{folder}/.lock: changed meanwhile"
                lines.append(Line(at, f"warning: {lost}", Stream.STDERR))
        if draw.exit_code:
            return [
                *lines[: dice.randrange(6, 18)],
                Line(0.97, "Save(<data/9c41e0>) returned error: connection reset", Stream.STDERR),
                Line(1.00, "Fatal: unable to save snapshot: i/o timeout", Stream.STDERR),
            ]
        return [
            *lines,
            Line(0.96, f"Files:       {dice.randrange(20, 200)} new, {changed} changed"),
            Line(0.97, f"Added:       {dice.uniform(0.02, 0.4) * gigabytes / 10:.3f} GiB"),
            Line(1.00, f"snapshot {snapshot} saved"),
        ]

    return prints


def print_verify(draw: Draw) -> list[Line]:
    packs = draw.dice.randrange(310, 360)
    return [
        Line(0.00, "using temporary cache in /tmp/restic-check"),
        Line(0.05, "load indexes"),
        Line(0.20, "check all packs"),
        Line(0.40, "check snapshots, trees and blobs"),
        Line(0.60, f"read 2.5% of data packs: {packs} of {packs * 40}"),
        Line(1.00, "no errors were found"),
    ]


def print_prune(draw: Draw) -> list[Line]:
    removed = draw.dice.randrange(2, 9)
    return [
        Line(0.00, "Applying policy: keep 7 daily, 5 weekly, 12 monthly snapshots"),
        Line(0.30, f"keep 24 snapshots, remove {removed}"),
        Line(0.90, f"frees {draw.dice.uniform(0.4, 6.0):.1f} GiB of {removed * 31} packs"),
        Line(1.00, "done"),
    ]


def print_offsite(draw: Draw) -> list[Line]:
    return [
        Line(0.00, "copying snapshots of this week to sftp:vault@cellar:/srv/vault"),
        Line(0.50, f"transferred {draw.dice.uniform(2, 9):.1f} GiB"),
        Line(1.00, "all snapshots are there"),
    ]


def print_certificates(draw: Draw) -> list[Line]:
    if draw.exit_code:
        return [
            Line(0.10, "Renewing home.example.net"),
            Line(0.90, "Timeout during connect (likely firewall problem)", Stream.STDERR),
            Line(1.00, "1 renew failure(s), 1 parse failure(s)", Stream.STDERR),
        ]
    left = draw.dice.randrange(31, 70)
    return [
        Line(0.10, "Processing /etc/letsencrypt/renewal/home.example.net.conf"),
        Line(0.80, f"Certificate not yet due for renewal, {left} days left"),
        Line(1.00, "No renewals were attempted."),
    ]


def print_meter(draw: Draw) -> list[Line]:
    if draw.exit_code:
        return [Line(1.0, "modbus: no answer from unit 1 within 3 s", Stream.STDERR)]
    dice = draw.dice
    return [
        Line(
            0.9, f"import {dice.uniform(4012, 4099):.2f} kWh  export {dice.uniform(911, 960):.2f}"
        ),
        Line(1.0, f"power  {dice.randrange(180, 2400):>5} W"),
    ]


def print_inverter(draw: Draw) -> list[Line]:
    watts = draw.dice.randrange(0, 3200)
    if draw.lasts_s == FOR_EVER_S:
        return [Line(0.0, "connected, waiting for registers", Stream.STDERR)]
    if draw.exit_code:
        return [Line(1.0, "inverter.lan: connection refused", Stream.STDERR)]
    return [Line(1.0, f"pv={watts}W battery={draw.dice.randrange(12, 98)}% grid={700 - watts}W")]


def print_calendar(draw: Draw) -> list[Line]:
    if draw.exit_code:
        return [
            Line(0.1, "Syncing family/home"),
            Line(0.9, "error: 503 Service Unavailable", Stream.STDERR),
            Line(1.0, "error: 1 of 3 pairs failed to sync", Stream.STDERR),
        ]
    changed = draw.dice.choice((0, 0, 0, 0, 1, 2))
    return [
        Line(0.1, "Syncing family/home"),
        Line(0.5, "Syncing family/school"),
        Line(0.8, "Syncing work/calendar"),
        Line(1.0, f"{changed} items copied" if changed else "nothing to copy"),
    ]


def print_weather(draw: Draw) -> list[Line]:
    dice = draw.dice
    if draw.exit_code:
        return [Line(1.0, "could not resolve host: api.weather.example", Stream.STDERR)]
    sky = dice.choice(("overcast", "light rain", "fog", "clear", "broken clouds"))
    return [Line(1.0, f"{dice.uniform(1, 11):4.1f} °C  {dice.randrange(62, 97)} %  {sky}")]


def print_blocklist(draw: Draw) -> list[Line]:
    count = draw.dice.randrange(171_000, 176_000)
    return [
        Line(0.2, "fetching 6 lists"),
        Line(0.7, f"{count} names, {draw.dice.randrange(40, 900)} new"),
        Line(0.9, "warning: list 4 has 12 lines that are no names", Stream.STDERR),
        Line(1.0, "resolver reloaded"),
    ]


def print_speed(draw: Draw) -> list[Line]:
    if draw.exit_code:
        return [Line(1.0, "error: no test server could be reached", Stream.STDERR)]
    dice = draw.dice
    return [
        Line(0.1, f"ping       {dice.uniform(9, 16):6.1f} ms"),
        Line(0.6, f"download   {dice.uniform(88, 104):6.1f} Mbit/s"),
        Line(1.0, f"upload     {dice.uniform(34, 41):6.1f} Mbit/s"),
    ]


def print_index(draw: Draw) -> list[Line]:
    count = draw.dice.randrange(3, 60)
    return [
        Line(0.0, "scanning /srv/media"),
        Line(0.4, f"{count} files to look at"),
        Line(0.9, f"{count * 3} thumbnails made"),
        Line(1.0, "index is up to date"),
    ]


def saying(*texts: str) -> Prints:
    """A run that prints these, evenly spread, whatever comes."""
    lines = [Line((number + 1) / len(texts), text) for number, text in enumerate(texts)]
    return lambda draw: lines
