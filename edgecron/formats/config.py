"""Settings: a flag over a variable over the user's file over the system's file over the default.

Each key is looked up by itself. If there is no file, edgecron only looks for two paths: it imports
the table of settings and the TOML reader when you ask for a setting.

    config_settings  the table of settings, how values are written, and a file to start from
    config_files     a file, read and checked
    config_keys      keys of the dashboard
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.base.paths import system_config_path, user_config_path
from edgecron.base.values import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from edgecron.formats.config_files import ConfigFile
    from edgecron.formats.config_settings import Text
    from edgecron.formats.notify_rules import ReadRule
    from edgecron.model.options import Policies

Options = dict[str, str | list[str]]

FILE_VARIABLE = "EDGECRON_CONFIG"
DEFAULT = "default"  # in place of what gave a setting
NO_FILE = "none"  # in place of a file: neither the user's nor the system's is read
_OTHER_VARIABLES = {"database": "EDGECRON_DB"}
# Former names: the most similar known name has another meaning.
_FORMER_WORDS = {"DEFAULTS_GRACE": "EDGECRON_DEFAULTS_MAX_LATE"}
PREFIX = "EDGECRON_"
SECTION_NAMES = ("limits", "defaults", "retention", "dashboard", "daemon")
_DEFAULTS = "defaults."
# By setting, the field of a Retention.
_RETENTION_FIELDS = {
    "output_age": "output_age_s",
    "output_bytes": "output_bytes",
    "history_age": "history_age_s",
    "history_count": "history_count",
    "database_bytes": "database_bytes",
}
_SECTION_VARIABLES = tuple(f"{PREFIX}{section.upper()}_" for section in SECTION_NAMES)
_COMMON_VARIABLES = ("EDGECRON_DB", "EDGECRON_URL", "EDGECRON_TOKEN_FILE", FILE_VARIABLE)

# A job has these, and so has a command that it calls; the last one is the single binary's.
_GIVEN_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("SCHEDULE", "RUN_ID", "RUN_MARK", "PLAN_AT", "ATTEMPT", "CAUSE", "SCOPE_KIND"),
        *("SCOPE_ID", "IDEMPOTENCY_KEY", "PAYLOAD", "RESULT", "FENCE", "UPSTREAM_NAME"),
        *("UPSTREAM_RUN_ID", "UPSTREAM_STATUS", "UPSTREAM_REASON", "UPSTREAM_EXIT_CODE"),
        *("UPSTREAM_ERROR", "UNPACK_DIR"),
    )
)


class Place(NamedTuple):
    """A path of a configuration file. If the user named it, the file must exist."""

    path: Path
    kind: str  # user or system
    is_named: bool = False


class Given(NamedTuple):
    """The value that was given for a setting: as text, and as it was written.

    `origin` is a flag, a variable or a file's path; `what` is the setting's name in a message.
    """

    text: Text
    written: Any
    origin: str
    what: str


class Config:
    """Settings from flags, variables and files. `files` are in order of precedence."""

    def __init__(
        self,
        files: tuple[ConfigFile, ...],
        *,
        flags: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.files = files
        self._flags = flags or {}
        self._environ = os.environ if environ is None else environ

    def find(self, key: str, *, flag: str | None = None) -> Given | None:
        """Find the value that was given for a setting; None if its default applies.

        Raises InvalidInput for a variable whose text can't be one of that kind.
        """
        flag = self._flags.get(key) if flag is None else flag
        if flag is not None:
            name = f"--{_flag_of(key)}"
            return Given(flag, flag, name, name)
        variable = variable_of(key)
        value = self._environ.get(variable)
        if value:
            return Given(_parted(key, value), value, variable, variable)
        for file in self.files:
            if key in file.values:
                text, written = file.values[key]
                return Given(text, written, str(file.path), key)
        return None

    def notify_rules(self) -> dict[str, ReadRule]:
        """Return the rules for notices by name; the user's file comes before the system's."""
        found: dict[str, ReadRule] = {}
        for file in self.files:
            for one in file.rules:
                found.setdefault(one.rule.name, one)
        return found

    def rank(self, key: str) -> int:
        """Rank what gives a setting: 0 a flag, 1 a variable, then the files, last the default."""
        if self._flags.get(key) is not None:
            return 0
        if self._environ.get(variable_of(key)):
            return 1
        for place, file in enumerate(self.files, 2):
            if key in file.values:
                return place
        return 2 + len(self.files)

    def line_of(self, key: str) -> int | None:
        """Find the line of the file that gives a setting."""
        given = self.find(key)
        for file in self.files:
            if given is not None and given.origin == str(file.path):
                return file.line_of(key)
        return None

    def place_of(self, key: str) -> str:
        """Name what gives a setting, for a message: a flag, a variable, or a file with its line."""
        given, line = self.find(key), self.line_of(key)
        origin = DEFAULT if given is None else given.origin
        return origin if line is None else f"{origin}:{line}"

    def get(self, key: str, *, flag: str | None = None) -> Any:
        """Read the value of a setting: `flag` if given, else by the order of precedence.

        Raises InvalidInput, naming the flag or variable that can't be read.
        """
        from edgecron.formats.config_settings import SETTINGS

        setting = SETTINGS[key]
        given = self.find(key, flag=flag)
        if given is not None:
            return setting.kind.read(given.text, given.what)
        return setting.default_value()


def load(
    named: str | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Load the configuration; `named` is the user's file, or `none` for no file at all.

    Raises InvalidInput for a file that can't be read, can't be trusted, or says what isn't known,
    and for an EDGECRON_ variable that is unknown.
    """
    env = os.environ if environ is None else environ
    _refuse_unknown_variables(env)
    return Config(tuple(_read_present(find_places(named, environ=env))), flags=flags, environ=env)


def find_places(
    named: str | None = None, *, environ: Mapping[str, str] | None = None
) -> tuple[Place, ...]:
    """List the paths of configuration files in order of precedence, existing or not."""
    env = os.environ if environ is None else environ
    name = named or env.get(FILE_VARIABLE) or None
    if name == NO_FILE:
        return ()
    own = user_config_path(name, environ=env)
    places = (Place(system_config_path(), "system"),)
    return places if own is None else (Place(own, "user", name is not None), *places)


def variable_of(key: str) -> str:
    """Name the variable of a setting: EDGECRON_LIMITS_BURST for `limits.burst`."""
    return _OTHER_VARIABLES.get(key) or f"EDGECRON_{key.upper().replace('.', '_')}"


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Raise InvalidConfig for an EDGECRON_ variable that is unknown.

    Within a run only the names of sections are checked: a newer engine may give its jobs variables
    that are unknown here.
    """
    is_in_run = bool(environ.get("EDGECRON_RUN_ID"))
    given = [
        name
        for name in environ
        if name.startswith(_SECTION_VARIABLES if is_in_run else PREFIX)
        and environ[name]
        and name not in _COMMON_VARIABLES
        and name not in _GIVEN_VARIABLES
    ]
    if not given:
        return
    from edgecron.formats.config_settings import SETTINGS

    known = {variable_of(key): key for key in SETTINGS}
    for name in given:
        if name in known:
            continue
        meant = _find_meant(name, known)
        hint = (
            f"did you mean {meant}?"
            if meant
            else f"remove it, unset {name}; see: edgecron help settings"
        )
        raise InvalidConfig(f"variable {name} is unknown", hint=hint)


def _find_meant(name: str, known: Mapping[str, str]) -> str | None:
    """Find the variable that was probably meant, by its name with or without the section."""
    from edgecron.base.checks import suggest

    word = name.removeprefix(PREFIX)
    by_own_name = {key.rpartition(".")[2].upper(): variable for variable, key in known.items()}
    words = {variable.removeprefix(PREFIX): variable for variable in (*known, FILE_VARIABLE)}
    close = suggest(word, words)
    # A short name, such as BD for DB, has too few letters to be compared without the prefix.
    whole = suggest(name, words.values(), cutoff=0.9)
    meant = _FORMER_WORDS.get(word) or by_own_name.get(word)
    return meant or (whole if close is None else words[close])


def _flag_of(key: str) -> str:
    return "db" if key == "database" else key.rpartition(".")[2].replace("_", "-")


def _parted(key: str, value: str) -> Text:
    """Return the text of a variable, split if the setting is an array."""
    if "." not in key:
        return value
    from edgecron.formats.config_settings import SETTINGS

    return SETTINGS[key].kind.parted(value)


def _read_present(places: tuple[Place, ...]) -> Iterator[ConfigFile]:
    for place in places:
        try:
            # A link to a missing file is a file that can't be read, not a missing file.
            os.lstat(place.path)
        except (FileNotFoundError, NotADirectoryError):
            if not place.is_named:
                continue
        except OSError:
            pass  # Opening the file reports it.
        from edgecron.formats.config_files import read_file

        yield read_file(place.path, is_system=place.kind == "system")


def option_defaults(config: Config) -> Options:
    """List the defaults that are set, by key of a document, as texts of a command line.

    They stand in for options that a new schedule does not have; they never apply to a schedule that
    exists. `needs` is a list. Raises InvalidInput for a variable that the option refuses, and for
    two values that exclude each other.
    """
    from edgecron.formats.config_settings import SETTINGS
    from edgecron.formats.option_texts import check_retry_delays

    found: Options = {}
    for key, setting in SETTINGS.items():
        given = config.find(key) if key.startswith(_DEFAULTS) else None
        if given is not None:
            setting.kind.read(given.text, given.what)
            text = given.text
            found[setting.name] = text if isinstance(text, str) else list(text)
    policies = default_policies(found)
    try:
        check_retry_delays(policies, lambda name: f"{_DEFAULTS}{name}")
    except InvalidInput as error:
        place = config.place_of(f"{_DEFAULTS}retry_delay")
        raise InvalidConfig(f"{place}: {error.message}", hint=error.hint) from None
    return found


def default_policies(options: Options) -> Policies:
    """Return the policies of a new schedule that names none."""
    from edgecron.formats.option_texts import policy_fields
    from edgecron.model.options import Policies

    return Policies(**policy_fields(options, lambda name: f"{_DEFAULTS}{name}"))


def retention_values(
    config: Config, flags: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """Return the fields of a Retention that are set, by name. The value None sets no limit.

    `flags` has the texts of options by the names of settings. Fields that are not set are missing,
    so their defaults apply. Raises InvalidInput, which names the option or variable.
    """
    found: dict[str, Any] = {}
    for name, field in _RETENTION_FIELDS.items():
        key, flag = f"retention.{name}", (flags or {}).get(name)
        if config.find(key, flag=flag) is not None:
            value = config.get(key, flag=flag)
            is_age = value is not None and field.endswith("_s")
            found[field] = max(1, value / 1000) if is_age else value
    return found
