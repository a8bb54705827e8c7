"""What all tests start from, whoever has started them."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Programs that tests start hear signals, although nohup or a script has ignored them."""
    for number, default in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)
