"""Plan the steps of an install or an uninstall. Pure, except that links are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

from edgecron.base.errors import Conflict
from edgecron.base.values import NamedTuple, dataclass
from edgecron.cli.service_files import (
    Scope,
    Service,
    is_ours,
    launchd_label,
    strict_drop_in,
    systemctl_words,
    systemd_unit,
    was_ours,
)

STRICT_NAME = "50-edgecron-strict.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of a machine, or of its image below `root`.

    `home` and `config_home` are the user's, also below `root`.
    """

    root: Path
    home: Path
    config_home: Path

    def unit(self, service: Service) -> Path:
        """The unit of a person or of edgecron."""
        return self._units(service.scope) / f"{service.id}.service"

    def strict_drop_in(self, service: Service) -> Path:
        return self.drop_ins(service) / STRICT_NAME

    def drop_ins(self, service: Service) -> Path:
        """The folder of drop-ins, which `systemctl edit` writes."""
        return self._units(service.scope) / f"{service.id}.service.d"

    def wants(self, service: Service) -> Path:
        """The link that starts it; edgecron makes it if no systemd can be asked."""
        target = "multi-user" if service.scope is Scope.SYSTEM else "default"
        return self._units(service.scope) / f"{target}.target.wants" / f"{service.id}.service"

    def has_link(self, service: Service) -> bool:
        """Whether that link exists, whatever its target is."""
        return self.wants(service).is_symlink()

    def packaged_units(self, service: Service) -> tuple[Path, ...]:
        """The places where packages put a unit of the same name."""
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
        return above / f"{launchd_label(service)}.plist"

    def linger_mark(self, user: str) -> Path:
        """The file by which systemd runs a user's services without a login."""
        return self.root / "var/lib/systemd/linger" / user

    def _units(self, scope: Scope) -> Path:
        if scope is Scope.SYSTEM:
            return self.root / "etc/systemd/system"
        return self.config_home / "systemd/user"


class WriteFile(NamedTuple):
    """Write a file. `before` is the text that it replaces."""

    path: Path
    text: str
    before: str | None = None


class Remove(NamedTuple):
    """Remove a file, or a folder if it is empty."""

    path: Path
    is_folder: bool = False


class MakeLink(NamedTuple):
    path: Path
    target: str


class Call(NamedTuple):
    """Run a command of the service manager. `may_fail`: it can find nothing to do."""

    argv: tuple[str, ...]
    may_fail: bool = False


Step = WriteFile | Remove | MakeLink | Call
Texts = Mapping[Path, str]  # of the files that exist


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitState:
    """The state of a unit: `active` and `enabled` in systemd's words, `says` in the engine's."""

    active: str
    enabled: str
    pid: int | None
    says: str | None

    @property
    def is_active(self) -> bool:
        return self.active.startswith("active")

    @property
    def is_enabled(self) -> bool:
        return self.enabled.startswith("enabled")


def systemctl(scope: Scope) -> tuple[str, ...]:
    return ("systemctl",) if scope is Scope.SYSTEM else ("systemctl", "--user")


def plan_files(wanted: Texts, texts: Texts, *, is_forced: bool) -> list[WriteFile]:
    """List the files to write: those that are not as they should be.

    Raises FileChanged if a person has changed or made one, unless it is to be replaced.
    """
    steps = []
    for path, text in wanted.items():
        before = texts.get(path)
        if before != text:
            if before is not None and not is_forced:
                _check_ours(path, before, diff=diff_lines(path, before=before, text=text))
            steps.append(WriteFile(path, text, before))
    return steps


def plan_removals(paths: Sequence[Path], texts: Texts, *, is_forced: bool) -> list[Remove]:
    """List the files to remove, of those that exist. Raises FileChanged as `plan_files` does."""
    found = [path for path in paths if path in texts]
    for path in found:
        if not is_forced:
            _check_ours(path, texts[path], diff=[])
    return [Remove(path) for path in found]


def _check_ours(path: Path, text: str, *, diff: list[str]) -> None:
    if not is_ours(text):
        who = (
            "was changed since edgecron wrote it"
            if was_ours(text)
            else "was not written by edgecron"
        )
        raise FileChanged(f"{path} {who}", path=path, diff=diff)


class FileChanged(Conflict):
    """A file to be replaced or removed has changes of a person. `diff` shows them."""

    code = "file_changed"

    def __init__(self, message: str, *, path: Path, diff: list[str]) -> None:
        super().__init__(message, hint="to replace it and lose the changes: --force")
        self.path = path
        self.diff = diff

    @property
    def details(self) -> Mapping[str, object]:
        return {"file": str(self.path), "diff": self.diff}


def diff_lines(path: Path, *, before: str, text: str) -> list[str]:
    """Show the changes of a file as `diff -u` does."""
    lines = unified_diff(
        before.splitlines(), text.splitlines(), str(path), f"{path} (new)", lineterm=""
    )
    return list(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Options of an install or uninstall. `linger_user` lingers from now on."""

    service: Service
    is_strict: bool = False
    is_forced: bool = False
    linger_user: str | None = None


def plan_systemd_install(
    wish: Wish, places: Places, texts: Texts, *, is_live: bool, state: UnitState | None
) -> list[Step]:
    """Plan an install. `is_live`: systemd can be asked, and `state` is its state of the unit.

    Raises Conflict for a changed file, and if a package has another unit of that name.
    """
    service, path = wish.service, places.unit(wish.service)
    wanted = {} if _is_packaged(wish, places, texts) else {path: systemd_unit(service)}
    if wish.is_strict:
        wanted[places.strict_drop_in(service)] = strict_drop_in(service)
    steps: list[Step] = list(plan_files(wanted, texts, is_forced=wish.is_forced))
    if is_live:
        steps += _calls_to_begin(service, has_changed=bool(steps), state=state)
    elif not places.has_link(service):
        steps.append(MakeLink(places.wants(service), f"../{path.name}"))
    if wish.linger_user is not None:
        steps += _linger(wish.linger_user, places, is_live=is_live)
    return steps


def plan_systemd_uninstall(
    wish: Wish, places: Places, texts: Texts, *, is_live: bool, state: UnitState | None
) -> list[Step]:
    """Plan an uninstall. It leaves only drop-ins of people, also if the unit itself is gone.

    Raises Conflict for a changed file.
    """
    service = wish.service
    ours = [places.unit(service), places.strict_drop_in(service)]
    removals = plan_removals(ours, texts, is_forced=wish.is_forced)
    units = (places.unit(service), *places.packaged_units(service))
    has_unit = any(texts.get(path) is not None for path in units)
    steps: list[Step] = []
    if is_live:
        is_ours = bool(removals)
        steps += _calls_to_end(service, state=state, has_unit=has_unit, is_ours=is_ours)
    if places.has_link(service) and not (is_live and has_unit):
        steps.append(Remove(places.wants(service)))
        steps.append(Remove(places.wants(service).parent, is_folder=True))
    steps += removals
    if places.strict_drop_in(service) in texts:
        steps.append(Remove(places.drop_ins(service), is_folder=True))
    if is_live and (removals or (steps and not has_unit)):
        words = systemctl(service.scope)
        steps.append(Call((*words, "daemon-reload")))
        # systemd can have nothing to forget.
        steps.append(Call((*words, "reset-failed", f"{service.id}.service"), may_fail=True))
    return steps


def plan_launchd_install(
    wish: Wish, path: Path, texts: Texts, *, text: str, domain: str, is_loaded: bool
) -> list[Step]:
    """Plan an install. `domain` is launchd's word for the scope: system, or gui/501."""
    steps: list[Step] = list(plan_files({path: text}, texts, is_forced=wish.is_forced))
    if steps and is_loaded:
        steps.insert(0, _bootout(wish.service, domain))
    if steps or not is_loaded:
        steps.append(Call(("launchctl", "enable", f"{domain}/{launchd_label(wish.service)}")))
        steps.append(Call(("launchctl", "bootstrap", domain, str(path))))
    return steps


def plan_launchd_uninstall(
    wish: Wish, path: Path, texts: Texts, *, domain: str, is_loaded: bool
) -> list[Step]:
    removals = plan_removals([path], texts, is_forced=wish.is_forced)
    return [*([_bootout(wish.service, domain)] if is_loaded else []), *removals]


def _bootout(service: Service, domain: str) -> Call:
    return Call(("launchctl", "bootout", f"{domain}/{launchd_label(service)}"))


def _is_packaged(wish: Wish, places: Places, texts: Texts) -> bool:
    """Whether a package has exactly this unit. Raises Conflict if the package's is another."""
    service = wish.service
    if texts.get(places.unit(service)) is not None:
        return False  # It has precedence over the package's.
    for path in places.packaged_units(service):
        text = texts.get(path)
        if text is not None and _settings(text) == _settings(systemd_unit(service)):
            return True
        if text is not None and not wish.is_forced:
            raise Conflict(
                f"this unit would hide a package's unit of the same name, {path}",
                hint=f"use the package's: {systemctl_words(service)} enable --now {service.id};"
                f" or give another --name, or --force",
            )
    return False


def _settings(text: str) -> list[str]:
    """List the settings of a unit without comments, which differ in packages."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", ";", "Documentation="))]


def _calls_to_begin(service: Service, *, has_changed: bool, state: UnitState | None) -> list[Step]:
    words, unit = systemctl(service.scope), f"{service.id}.service"
    calls: list[Step] = []
    if has_changed:
        calls.append(Call((*words, "daemon-reload")))
    if state is None or not state.is_enabled:
        calls.append(Call((*words, "enable", unit)))
    if has_changed or state is None or not state.is_active:
        # Running jobs continue, and the new engine adopts them.
        calls.append(Call((*words, "restart", unit)))
    return calls


def _calls_to_end(
    service: Service, *, state: UnitState | None, has_unit: bool, is_ours: bool
) -> list[Step]:
    words, unit = systemctl(service.scope), f"{service.id}.service"
    if has_unit:
        is_known = state is not None and (state.is_active or state.is_enabled)
        return [Call((*words, "disable", "--now", unit))] if is_ours or is_known else []
    # Without a unit it can't be disabled, and systemd continues to run it.
    is_left = state is not None and not state.active.startswith("inactive")
    return [Call((*words, "stop", unit))] if is_left else []


def _linger(user: str, places: Places, *, is_live: bool) -> list[Step]:
    mark = places.linger_mark(user)
    if mark.exists():
        return []
    if is_live:
        return [Call(("loginctl", "enable-linger", user))]
    return [WriteFile(mark, "")]
