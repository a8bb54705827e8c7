"""Options of a new schedule that were not given, as [defaults] of the configuration has them."""

from __future__ import annotations

from argparse import Namespace

from edgecron.cli.session import Session
from edgecron.cli.wanted import argument_of
from edgecron.model.options import OPTIONS


def with_defaults(cli: Session, args: Namespace) -> Namespace:
    """Arguments in which the defaults stand for the options that were not given.

    Raises InvalidInput for a default that an option would not take.
    """
    from edgecron.formats.config_values import option_defaults

    defaults = option_defaults(cli.config())
    named = {argument_of(OPTIONS[key]): text for key, text in defaults.items()}
    given = {name: value for name, value in vars(args).items() if value is not None}
    return Namespace(**{**vars(args), **named, **given})
