"""What all tests start from, whoever has started them."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings


def pytest_configure() -> None:
    """Nothing of this machine's reaches a test: neither its configuration nor ignored signals.

    Programs that tests start hear signals, although nohup or a script has ignored them.
    """
    os.environ["EDGECRON_CONFIG"] = "none"
    # What hypothesis tries is the same on each machine and at each time, however slow that is.
    # Whoever wants other examples runs the long forms, which say so.
    settings.register_profile(
        "edgecron",
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("edgecron")
    for number, default in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)
