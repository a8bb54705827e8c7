"""Telling the service manager how an engine does, by the protocol of systemd's `sd_notify`.

    manager.py   where it listens, and what it wants to hear: from the environment it gave us
    feed.py      what it is told: ready, alive, what runs and comes next, stopping
    opening.py   the feeds of our own daemon, and of programs

Nothing here is loaded where there is no NOTIFY_SOCKET.
"""

SOCKET = "NOTIFY_SOCKET"
