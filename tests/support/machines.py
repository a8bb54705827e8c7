"""A folder that looks like the root of a system, with crontabs and units."""

from __future__ import annotations

from pathlib import Path

DAILY = "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n"
SERVICE = "[Service]\nType=oneshot\nExecStart=/opt/{} --now\n"


class Machine:
    """A folder that looks like the root of a system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def write(self, path: str, text: str, *, mode: int = 0o644) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def add_timer(
        self, name: str, text: str = DAILY, service: str | None = None, *, is_enabled: bool = True
    ) -> None:
        self.write(f"usr/lib/systemd/system/{name}.timer", text)
        self.write(f"usr/lib/systemd/system/{name}.service", service or SERVICE.format(name))
        if is_enabled:
            self.link_timer(name, "etc/systemd/system", "usr/lib/systemd/system")

    def link_timer(self, name: str, folder: str, target: str | None = None) -> Path:
        """Enable a timer by a link in a folder of units; its file lies there, or in `target`."""
        link = self.root / folder / "timers.target.wants" / f"{name}.timer"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"/{target or folder}/{name}.timer")
        return link
