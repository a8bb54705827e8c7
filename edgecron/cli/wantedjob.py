"""What `add` and `edit` are told of a job: the command, its variables, its folder."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

from edgecron.base.errors import UsageError
from edgecron.base.values import replace
from edgecron.formats.option_texts import (
    check_user,
    check_variable,
    is_secret_name,
    read_count,
    read_payload,
    read_user,
)
from edgecron.model.choices import JobKind
from edgecron.model.options import JOB_OPTIONS, NONE, Job, Option, OptionType


def read_job(args: Namespace, before: Job | None) -> Job:
    """The job as it was, with what was given; without `before` a command must be given."""
    if args.argv is not None and args.shell is not None:
        raise UsageError("--shell and a command after -- are both given, expected one of them")
    if args.argv is not None:
        kind, argv = JobKind.COMMAND, tuple(args.argv)
    elif args.shell is not None:
        kind, argv = JobKind.SHELL, (args.shell,)
    elif before is not None:
        kind, argv = before.kind, before.argv
    else:
        raise UsageError(
            "the command is missing", hint="write it after --, or give a line with --shell"
        )
    changes: dict[str, Any] = {}
    for option in JOB_OPTIONS:
        text = getattr(args, option.name)
        if text is not None and option.type is not OptionType.VARIABLES:
            changes[option.name] = None if text == NONE else _read(option, text)
    env = _read_env(args.env, dict(before.env) if before is not None else {})
    job = Job(kind=kind, argv=argv) if before is None else before
    return check_user(replace(job, kind=kind, argv=argv, env=env, **changes))


def find_secrets(args: Namespace) -> list[str]:
    """Names of variables that look like secrets, which the database would keep in the open."""
    names = [text.partition("=")[0] for text in args.env or ()]
    return [name for name in names if is_secret_name(name)]


def find_missing_paths(args: Namespace) -> list[str]:
    """Sentences about the folder and the file that were given and are not there yet."""
    sentences = []
    for option, what, exists in (
        ("cwd", "folder", os.path.isdir),
        ("env_file", "file", os.path.isfile),
    ):
        text = getattr(args, option)
        path = None if text in (None, NONE) else _read_path(text)
        # HOME is that of the user it runs as, which need not be ours.
        if path is not None and not path.startswith("~") and not exists(path):
            sentences.append(f"--{option.replace('_', '-')}: there is no {what} {path!r} yet")
    return sentences


def _read_env(given: list[str] | None, env: dict[str, str]) -> dict[str, str]:
    for text in given or ():
        if text == NONE:
            env = {}
            continue
        key, equals, value = text.partition("=")
        if not equals or not key:
            # What stands there may be a secret by itself.
            raise UsageError("--env is not KEY=VALUE", hint="write --env KEY=VALUE")
        check_variable(key, what="--env")
        env[key] = value
    return env


def _read(option: Option, text: str) -> str | int:
    match option.type:
        case OptionType.PATH:
            return _read_path(text)
        case OptionType.USER:
            return read_user(text, option.option)
        case OptionType.JSON:
            return read_payload(text, option.option)
        case OptionType.COUNT:
            return read_count(text, what=option.option, least=option.least, most=option.most)
    return text


def _read_path(text: str) -> str:
    # The job starts in HOME, and a person means the folder they are in.
    return text if text.startswith("~") else os.path.abspath(text)
