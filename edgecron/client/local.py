"""Client: a database on this machine, all its subjects in one class."""

from __future__ import annotations

from edgecron.client.backfill import Backfills
from edgecron.client.copies import Copies
from edgecron.client.outlook import Outlooks
from edgecron.client.retention import Retaining
from edgecron.client.statistics import Statistics


class Client(Outlooks, Backfills, Statistics, Retaining, Copies):
    """A database of schedules and runs. For one thread; the file is opened on first use.

    `database` None is the one that the command line would use: EDGECRON_DB, else the configured
    one, else this user's default. With `must_exist`, a missing file raises NotFound instead of
    being created. `retention` None is the default retention.
    """
