"""The completion scripts of the shells: one module for each."""

from __future__ import annotations

from edgecron.cli.grammar import read_grammar
from edgecron.cli.shells.bash import bash_lines
from edgecron.cli.shells.fish import fish_lines
from edgecron.cli.shells.zsh import zsh_lines

_LINES = {"bash": bash_lines, "zsh": zsh_lines, "fish": fish_lines}
SHELLS = tuple(_LINES)
_HEAD = "# {shell} completion for edgecron {version}; made by: edgecron completion {shell}"


def script_for(shell: str) -> str:
    """The script for one of SHELLS."""
    from edgecron import __version__

    lines = list(_LINES[shell](read_grammar()))
    # zsh looks for a mark of its own in the first line.
    place = 1 if shell == "zsh" else 0
    lines.insert(place, _HEAD.format(shell=shell, version=__version__))
    return "\n".join(lines)
