"""Show and check settings.

    edgecron config show                    every setting
    edgecron config show limits             one section, or one setting
    edgecron config show --changed          what differs from the defaults
    edgecron config path                    the files that edgecron reads
    edgecron config check my.toml           report all mistakes in a file
    edgecron config init                    write a file to start from

edgecron uses the first of: an option, a variable EDGECRON_SECTION_KEY, your file, the system's
file, the default. This applies to each setting separately. EDGECRON_CONFIG or --config names
another file instead of yours, or `none` to read no file. Root uses only the system's file.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgecron.base.checks import suggest
from edgecron.base.errors import AlreadyExists, InvalidConfig, InvalidInput, UsageError, os_words
from edgecron.base.files import check_folder, write_new
from edgecron.base.paths import make_folders, resolve_path
from edgecron.base.safetext import clean
from edgecron.cli.output import table
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.config import Config, find_places, option_defaults, variable_of
from edgecron.formats.config_files import example_text, read_file
from edgecron.formats.config_settings import SECTIONS, SETTINGS, Setting
from edgecron.tui.keys import keys_of
from edgecron.views.phrases import count_words

USAGE = "[show [SECTION|KEY] [--changed]] | path | check [FILE] | init [FILE]"


def add_arguments(parser: Parser) -> None:
    parser.add(
        "[show|path|check|init]", "choose an action (default: show)", dest="action", default="show"
    )
    parser.add(
        "[SECTION|KEY|FILE]", "the settings to show; the file to check or write", dest="what"
    )
    parser.add("--changed", "show only settings that are not the default")


def run(cli: Session, args: Namespace) -> int:
    actions = {"show": _show, "path": _path, "check": _check, "init": _init}
    if args.action not in actions:
        from edgecron.cli.suggestions import refuse_action  # Only for errors.

        refuse_action("config", args.action, actions)
    if args.changed and args.action != "show":
        raise UsageError("--changed only works with show", hint="edgecron config show --changed")
    actions[args.action](cli, args)
    return 0


def _show(cli: Session, args: Namespace) -> None:
    objects = [_setting_object(cli, setting) for setting in _wanted(args.what)]
    if args.changed:
        objects = [each for each in objects if each["origin"] != "default"]
    if cli.is_json:
        cli.put_json(objects)
        return
    if not objects:
        cli.say("nothing is set: every setting has its default")
        return
    rows = [(each["key"], _shown(each), each["origin"]) for each in objects]
    styles = [
        ("bold", None, "dim") if each["origin"] == "default" else ("bold", "green", None)
        for each in objects
    ]
    cli.put_table(("key", "value", "origin"), rows, styles=styles, flexible=(2, 1), is_data=True)


def _wanted(what: str | None) -> list[Setting]:
    """Return all settings, those of a section, or one. Raises UsageError."""
    if what is None:
        return list(SETTINGS.values())
    name = what.strip("[]")
    found = [each for key, each in SETTINGS.items() if f"{key}.".startswith(f"{name}.")]
    if not found:
        by_last = {key.rpartition(".")[2]: key for key in SETTINGS}
        known = {**by_last, **{key: key for key in (*SETTINGS, *SECTIONS) if key}}
        close = suggest(name, known, cutoff=0.75)
        hint = f"did you mean {known[close]}?" if close else "see: edgecron config show"
        raise UsageError(f"setting {what!r} is unknown", hint=hint)
    return found


def _setting_object(cli: Session, setting: Setting) -> dict[str, Any]:
    """Return a setting as JSON. Raises InvalidInput if a variable can't be read."""
    config = cli.config()
    given = config.find(setting.key)
    config.get(setting.key)
    value = setting.default if given is None else given.written
    if setting.key == "database":
        value = str(cli.own_location())
    return {
        "key": setting.key,
        "value": value,
        "origin": "default" if given is None else given.origin,
        "line": config.line_of(setting.key),
        "default": setting.default,
        "absent": setting.absent if setting.default is None else None,
        "variable": variable_of(setting.key),
        "flag": setting.flag,
        "help": setting.help,
    }


def _shown(setting: Mapping[str, Any]) -> str:
    value = setting["value"]
    if value is None:
        return str(setting["absent"])
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _path(cli: Session, args: Namespace) -> None:
    _refuse_argument(args)
    places = [
        {"path": str(place.path), "kind": place.kind, "exists": os.path.lexists(place.path)}
        for place in find_places(cli.config_path)
    ]
    if cli.is_json:
        cli.put_json(places)
        return
    if not places:
        cli.say("no file is read")
        return
    rows = [
        (str(each["path"]), str(each["kind"]), "yes" if each["exists"] else "no") for each in places
    ]

    # Plain: whether there are colours is for a file to say that may be what is looked for.
    for line in table(("path", "kind", "exists"), rows, is_colored=False):
        cli.put_data(line)


def _check(cli: Session, args: Namespace) -> None:
    """Check a file, or all files and variables. Raises InvalidInput."""
    try:
        if args.what is None:
            config = cli.config()
        else:
            path = resolve_path(args.what, what="configuration path")
            config = Config((read_file(path),), environ={})
    except InvalidConfig as error:
        raise _report(cli, error) from None
    for key in SETTINGS:
        config.get(key)
    option_defaults(config)
    _check_dashboard(config)
    checked = [{"path": str(file.path), "settings": len(file.values)} for file in config.files]
    if cli.is_json:
        cli.put_json(checked)
    elif not checked:
        cli.say("there is no file: every setting has its default, or the value of a variable")
    else:
        for file, each in zip(config.files, checked, strict=True):
            words = count_words(len(file.values), "setting")
            cli.put(clean(f"{each['path']}: all right, {words}"))


def _report(cli: Session, error: InvalidConfig) -> InvalidConfig:
    """Print several problems of a file on a line each; return the error to raise."""
    count = len(error.problems)
    if count < 2:
        return error
    for problem in () if cli.is_json else error.problems:
        hint = f" ({problem['hint']})" if problem["hint"] else ""
        cli.report(clean(f"{problem['message']}{hint}"))
    return InvalidConfig(f"{count} settings are wrong", problems=error.problems)


def _check_dashboard(config: Config) -> None:
    """Raise InvalidInput for settings that the dashboard would refuse."""
    keys_of(config)
    if config.find("dashboard.theme") is not None:
        # Textual knows the themes, and takes long to load.
        from edgecron.tui.themes import theme_of

        theme_of(config, {}, is_colored=True)


def _init(cli: Session, args: Namespace) -> None:
    if args.what is not None:
        path, is_system = resolve_path(args.what, what="configuration path"), False
    else:
        places = find_places(cli.config_path)
        if not places:
            raise UsageError(
                "the file is missing, and --config is none",
                hint="name one: edgecron config init ./config.toml",
            )
        path, is_system = places[0].path, places[0].kind == "system"
    _write_new(path, example_text(), is_system=is_system)
    if cli.is_json:
        cli.put_json([{"path": str(path)}])
    else:
        cli.put(clean(f"wrote {path}: every setting is still a comment"))


def _write_new(path: Path, text: str, *, is_system: bool) -> None:
    """Write a new file. Raises AlreadyExists or InvalidInput."""
    check_folder(path.parent)
    try:
        # All users read the system's file.
        make_folders(path.parent, mode=0o755 if is_system else 0o700)
        write_new(path, text.encode(), mode=0o644 if is_system else 0o600)
    except FileExistsError:
        raise AlreadyExists(
            f"file {path} exists already",
            hint="name another one: edgecron config init ./config.toml",
        ) from None
    except OSError as error:
        raise InvalidInput(
            f"file {str(path)!r} can't be written: {os_words(error, is_named=True)}",
            hint="name another one: edgecron config init ./config.toml",
        ) from None


def _refuse_argument(args: Namespace) -> None:
    if args.what is not None:
        raise UsageError(
            f"config {args.action} takes no argument, but got {args.what!r}",
            hint=f"edgecron config {args.action}",
        )
