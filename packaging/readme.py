"""The README as package indexes show it: its links and pictures lead to the repository.

hatchling calls it (`tool.hatch.metadata.hooks.custom` in pyproject.toml). In the repository, the
README's links are relative, so that they also work in a clone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?\[[^\]]*\]\()(?![a-z]+:|#)([^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Gives the project its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme`; pictures are those of the released version."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata["urls"]["Source"]
        shown = with_absolute_links(text, source=source, tag=f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def with_absolute_links(text: str, *, source: str, tag: str) -> str:
    """Return Markdown whose relative links lead to a tag of the repository at `source`."""

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found[1].startswith("!") else "blob"
        return f"{found[1]}{source}/{kind}/{tag}/{found[2]})"

    return _LINK.sub(absolute, text)
