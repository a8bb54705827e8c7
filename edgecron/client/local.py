"""Client: all parts of a database as programs see it, in one."""

from __future__ import annotations

from edgecron.client.acting import Acting
from edgecron.client.backfilling import Backfilling
from edgecron.client.browsing import Browsing
from edgecron.client.copying import Copying
from edgecron.client.declaring import Declaring
from edgecron.client.explaining import Explaining
from edgecron.client.measuring import Measuring
from edgecron.client.prospects import LookingAhead
from edgecron.client.retaining import Retaining
from edgecron.client.tallying import Tallying
from edgecron.client.week import LookingAtWeek
from edgecron.client.withdrawing import Withdrawing


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
