"""Metrics as values: of a database here, or out of the text of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from edgecron.base.errors import ServerUnavailable
from edgecron.client.metric_text import need_library

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from edgecron.client import Client


def find_families(client: Client, *, per_schedule: bool = False) -> Iterator[Metric]:
    """Every family, in slices. Raises NotSupported where the library is missing."""
    need_library()
    from edgecron.client.metric_families import families

    return families(client, per_schedule=per_schedule)


def read_families(fetch: Callable[[], bytes]) -> Iterator[Metric]:
    """The families of a text of OpenMetrics, which is fetched once it can be read.

    Raises NotSupported likewise, and ServerUnavailable where it is no such text.
    """
    need_library()
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    read: Callable[[str], Iterator[Metric]] = text_string_to_metric_families
    try:
        found = list(read(fetch().decode()))  # All of it, before anything is shown.
    except ValueError as error:
        raise ServerUnavailable(
            f"what the server has at /metrics can't be read: {error}",
            hint="use the same version on both machines",
        ) from error
    return iter(found)
