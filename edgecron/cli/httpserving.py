"""`daemon --http`: the HTTP API served beside an engine, as long as that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from edgecron.base.errors import UsageError
from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.http.serving import HttpService


def serving(
    cli: Session, *, place: str | None, token_file: str | None
) -> AbstractContextManager[None]:
    """Serve while the context lasts. What is wrong with the options is raised at once.

    Raises InvalidInput, also where nothing can be served at that place when it begins, and
    NotSupported where a package is missing.
    """
    from edgecron.base.tokens import read_token
    from edgecron.http.serving import HttpService, check_served, read_place

    if place is None:
        raise UsageError(
            "--token-file is for the HTTP API, which is not served",
            hint="give --http, too",
        )
    where = read_place(place, database=cli.database_path())
    token = None if token_file is None else read_token(token_file)
    check_served(where, has_token=token is not None)
    return _serving(cli, HttpService(cli.database_path(), where, token=token))


@contextmanager
def _serving(cli: Session, service: HttpService) -> Iterator[None]:
    try:
        service.start()
        cli.say(f"edgecron: the HTTP API is at {service.url}")
        words = _audience_words(service)
        if words is not None:
            cli.say(f"edgecron: {words}")
        yield
    finally:
        service.close()


def _audience_words(service: HttpService) -> str | None:
    """Who else on this machine may ask, None where that goes without saying."""
    from edgecron.base.paths import is_root
    from edgecron.http.serving import Audience

    return {
        Audience.OWN_USERS: f"of this machine's users it answers {'' if is_root() else 'you and '}"
        "root alone, others for /healthz and /metrics: a token lets others in",
        Audience.ALL_USERS: "every user of this machine can ask it, and there act as you:"
        " --http unix: is for you alone",
    }.get(service.audience)
