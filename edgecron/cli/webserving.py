"""`tui --web`: the dashboard served to browsers, until Ctrl-C."""

from __future__ import annotations

from contextlib import ExitStack

from edgecron.cli.session import Session


def serve_in_browser(cli: Session, place: str, *, starts_engine: bool) -> int:
    """Serve, and say where; an engine, where one is wanted, ends with it.

    Raises UsageError for a place that can't be read, or that other machines reach without a token,
    and NotSupported where a package is missing.
    """
    import os

    from edgecron.base.paths import is_root
    from edgecron.base.tokens import read_token
    from edgecron.tui.own_engine import engine_environment
    from edgecron.tui.web import check_served, read_address, serve, session_command, users_of

    where = read_address(place)
    token = None if cli.token_file is None else read_token(cli.token_file)
    check_served(where, has_token=token is not None)
    path = None if cli.remote_url() is not None else str(cli.database_path())
    command = session_command(cli.given(path), color=cli.color)
    os.environ.update(engine_environment())  # so that each page finds this very package
    with ExitStack() as closing:

        def ready() -> None:
            cli.say(f"edgecron: the dashboard is at {where.url}; Ctrl-C ends it")
            if token is not None:
                cli.say(
                    "edgecron: it asks for the token; without TLS the token can be read on its way"
                )
            elif users_of(where) is not None:
                whom = "root" if is_root() else "you and root"
                cli.say(f"edgecron: of this machine's users it is for {whom} alone")
            else:
                cli.say("edgecron: every user of this machine can open it, and there act as you")
            if starts_engine:
                _start_engine(cli, closing)

        serve(where, command, token=token, ready=ready)
    return 0


def _start_engine(cli: Session, closing: ExitStack) -> None:
    from edgecron.tui.own_engine import OwnEngine, engine_command, engine_environment, find_refusal

    def ended(last: str | None) -> None:
        if last is not None:
            cli.say(f"edgecron: the engine from here has ended: {last}")

    database = cli.database_path()
    refusal = find_refusal(database)
    if refusal is not None:
        cli.show_error(refusal)
        return
    engine = OwnEngine(
        engine_command(database, config_path=cli.config_path),
        environment=engine_environment(),
        ended=ended,
    )
    closing.callback(engine.close)
    cli.say("edgecron: an engine runs from here, and ends with it")
