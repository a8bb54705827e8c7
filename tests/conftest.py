"""What all tests start from, whoever has started them."""

from __future__ import annotations

import os
import signal


def pytest_configure() -> None:
    """Nothing of this machine's reaches a test: neither its configuration nor ignored signals.

    Programs that tests start hear signals, although nohup or a script has ignored them.
    """
    os.environ["EDGECRON_CONFIG"] = "none"
    for number, default in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)
