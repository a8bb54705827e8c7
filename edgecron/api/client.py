"""Client: all parts of a database as programs see it, in one."""

from __future__ import annotations

from edgecron.api.acting import Acting
from edgecron.api.backfill import Backfilling
from edgecron.api.browsing import Browsing
from edgecron.api.busy import LookingAtWeek
from edgecron.api.copying import Copying
from edgecron.api.declaring import Declaring
from edgecron.api.explaining import Explaining
from edgecron.api.measuring import Measuring
from edgecron.api.prospects import LookingAhead
from edgecron.api.retaining import Retaining
from edgecron.api.tallying import Tallying
from edgecron.api.withdrawing import Withdrawing


class Client(
    Declaring,
    Withdrawing,
    Acting,
    Backfilling,
    LookingAhead,
    LookingAtWeek,
    Browsing,
    Copying,
    Explaining,
    Measuring,
    Retaining,
    Tallying,
):
    """A database of schedules and runs. For one thread; the file is opened on first use.

    `database` None means the one that the command line would use: EDGECRON_DB, else what the
    configuration names, else the default of this user. With `must_exist`, a missing file raises
    NotFound instead of being made. `retention` None is what is kept by default.
    """
