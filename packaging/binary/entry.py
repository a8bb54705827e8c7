"""What runs in the single binary: the command line, and the processes that it starts of itself.

The words below are no commands, and nobody types them: the first is the launcher's, which tries a
program before it is used, the others are an engine's.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Settle in, and do what the first word says."""
    from edgecron.base.bundle import settle

    bundle = settle(os.environ, folder=os.path.dirname(sys.executable))
    if bundle is None:
        sys.exit(
            "edgecron: this is a part of the program: start the file that it was unpacked from"
        )
    if not bundle.is_installed:
        from edgecron.base.bundle import watch

        watch(bundle)
    word = sys.argv[1] if len(sys.argv) > 1 else None
    if word == ":try":
        import apsw  # noqa: F401 - the part that asks most of the system

        return
    if word == ":supervisor":
        from edgecron.supervisor.__main__ import main as supervise

        supervise(sys.argv[2:])
    if word == ":notices":
        from edgecron.client.notice_sending import main as send_notices

        send_notices(sys.argv[2:])
        return
    if word == ":calendars":
        from edgecron.client.calendars import main as read_calendars

        read_calendars(sys.argv[2:])
        return
    from edgecron.__main__ import main as run

    run()


main()
