"""Where the files of service managers lie."""

from __future__ import annotations

from pathlib import Path

from edgecron.base.values import dataclass
from edgecron.cli.service_launchd import label
from edgecron.cli.service_wanted import Scope, Service

STRICT_NAME = "50-edgecron-strict.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of a machine, or of an image of one: `root` comes before all of them.

    `home` and `config_home` are the user's, below `root` too.
    """

    root: Path
    home: Path
    config_home: Path

    def unit(self, service: Service) -> Path:
        """A unit that a person, or we, put there."""
        return self._units(service.scope) / f"{service.id}.service"

    def strict_drop_in(self, service: Service) -> Path:
        return self.drop_ins(service) / STRICT_NAME

    def drop_ins(self, service: Service) -> Path:
        """The folder of what people change in a unit, by `systemctl edit`."""
        return self._units(service.scope) / f"{service.id}.service.d"

    def wants(self, service: Service) -> Path:
        """The link that has it started; made by ourselves where no systemd can be asked to."""
        target = "multi-user" if service.scope is Scope.SYSTEM else "default"
        return self._units(service.scope) / f"{target}.target.wants" / f"{service.id}.service"

    def has_link(self, service: Service) -> bool:
        """Whether that link is there, wherever it leads."""
        return self.wants(service).is_symlink()

    def packaged_units(self, service: Service) -> tuple[Path, ...]:
        """Where a package would have put a unit of the same name."""
        kind = service.scope.value
        folders = (
            f"usr/local/lib/systemd/{kind}",
            f"usr/lib/systemd/{kind}",
            f"lib/systemd/{kind}",
        )
        return tuple(self.root / folder / f"{service.id}.service" for folder in folders)

    def plist(self, service: Service) -> Path:
        is_system = service.scope is Scope.SYSTEM
        above = (
            self.root / "Library/LaunchDaemons" if is_system else self.home / "Library/LaunchAgents"
        )
        return above / f"{label(service)}.plist"

    def linger_mark(self, user: str) -> Path:
        """The file that is there where systemd keeps a user's services without a login."""
        return self.root / "var/lib/systemd/linger" / user

    def _units(self, scope: Scope) -> Path:
        if scope is Scope.SYSTEM:
            return self.root / "etc/systemd/system"
        return self.config_home / "systemd/user"
