"""Whether a file is as we wrote it: it carries the hash of its own text.

So a newer edgecron replaces what an older one wrote, and never what a person has changed.
"""

from __future__ import annotations

import re

from edgecron.base.hashing import sha256

_MARK = re.compile(r"edgecron-sum: ([0-9a-f]{16})")
PLACE = "edgecron-sum: " + "0" * 16  # where a text has this, its own hash is to be


def marked(text: str) -> str:
    """The text with its hash in it, at its PLACE."""
    return text.replace(PLACE, f"edgecron-sum: {_sum(text)}", 1)


def is_ours(text: str) -> bool:
    """Whether some edgecron wrote a text, and nobody has changed it since."""
    found = _MARK.search(text)
    return found is not None and found[1] == _sum(text)


def was_ours(text: str) -> bool:
    """Whether some edgecron wrote a text, whatever became of it."""
    return _MARK.search(text) is not None


def _sum(text: str) -> str:
    return sha256(_MARK.sub("", text, count=1).encode()).hexdigest()[:16]
