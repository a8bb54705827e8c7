"""A tiny command that writes down when its first instruction was executed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

# Says which run it is, and when it began; no library has to be found for it.
_PROGRAM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct timespec now;
    char line[96];
    clock_gettime(CLOCK_REALTIME, &now);
    const char *run = getenv("EDGECRON_RUN_ID");
    int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    int size = snprintf(line, sizeof line, "%s %lld\n", run ? run : "bare",
        (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
    return argc == 2 && write(fd, line, size) == size ? 0 : 1;
}
"""
_SHELL = 'echo "${EDGECRON_RUN_ID:-bare} $(date +%s%N)" >>"$0"'


def stamp_command(folder: Path) -> tuple[list[str], Path, str]:
    """The command, the file that it writes to, and what it is: in words."""
    source, program, stamps = folder / "stamp.c", folder / "stamp", folder / "stamps"
    source.write_text(_PROGRAM, encoding="ascii")
    compiler = shutil.which("cc")
    for options in (["-static"], []) if compiler else ():
        command = [str(compiler), *options, "-O2", "-o", str(program), str(source)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            how = "a static C program" if options else "a C program that is linked dynamically"
            return [str(program), str(stamps)], stamps, how
    return (
        ["/bin/sh", "-c", _SHELL, str(stamps)],
        stamps,
        "sh and date, since no C compiler is here",
    )


def read_stamps(stamps: Path) -> list[tuple[str, float]]:
    """(run id, or 'bare', and milliseconds since 1970) of each that has begun."""
    if not stamps.exists():
        return []
    lines = stamps.read_text(encoding="ascii").splitlines()
    return [(run, int(at_ns) / 1e6) for run, at_ns in (line.split() for line in lines)]
