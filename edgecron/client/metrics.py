"""Write the metrics of a database as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from edgecron.base.errors import NotSupported, ServerUnavailable
from edgecron.base.values import NamedTuple

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from edgecron.client import Client


OPENMETRICS = "application/openmetrics-text"
_EOF = b"# EOF\n"


class _OneFamily(NamedTuple):
    """The registry that the library expects: one family, or a slice of one."""

    family: Metric

    def collect(self) -> Iterable[Metric]:
        return (self.family,)


class _Format(NamedTuple):
    content_type: str
    write: Callable[[_OneFamily], bytes]
    ending: bytes


def exposition(
    client: Client, accept: str | None, *, per_schedule: bool = False
) -> tuple[bytes, str]:
    """Return all metrics as text, and its content type, as an Accept header asks for.

    With `per_schedule`, histograms have a label for the schedule. Raises NotSupported if
    prometheus-client is missing.
    """
    content_type, parts = exposition_parts(client, accept, per_schedule=per_schedule)
    return b"".join(parts), content_type


def exposition_parts(
    client: Client, accept: str | None, *, per_schedule: bool = False
) -> tuple[str, Iterator[bytes]]:
    """Return the content type, and the text in parts, which needs little memory."""
    form = _format_of(accept)
    from edgecron.client.metric_families import families

    return form.content_type, _parts(families(client, per_schedule=per_schedule), form)


def need_library() -> None:
    """Raise NotSupported if prometheus-client is missing, without loading it."""
    if find_spec("prometheus_client") is None:
        raise NotSupported(
            "metrics need prometheus-client, which is not installed",
            hint="pip install 'edgecron[http]', or 'edgecron[metrics]' for metrics only",
        )


def _parts(found: Iterable[Metric], form: _Format) -> Iterator[bytes]:
    before = None
    for family in found:
        text = form.write(_OneFamily(family)).removesuffix(form.ending)
        if family.name == before:
            text = _without_head(text)  # All slices of a family have one head.
        before = family.name
        yield text
    yield form.ending


def _without_head(text: bytes) -> bytes:
    while text.startswith(b"#"):
        _, _, text = text.partition(b"\n")
    return text


def _format_of(accept: str | None) -> _Format:
    """Choose the first known format of an Accept header, as Prometheus' own libraries do."""
    need_library()
    from prometheus_client import exposition as plain
    from prometheus_client.openmetrics import exposition as openmetrics

    for one in (accept or "").split(","):
        wanted = one.partition(";")[0].strip().lower()
        if wanted == "text/plain":
            break
        if wanted == OPENMETRICS:
            # No name of ours needs escaping, and checking each letter is slow.
            write = partial(openmetrics.generate_latest, escaping=openmetrics.ALLOWUTF8)
            return _Format(openmetrics.CONTENT_TYPE_LATEST, write, _EOF)
    write = partial(plain.generate_latest, escaping=openmetrics.ALLOWUTF8)
    return _Format(plain.CONTENT_TYPE_PLAIN_0_0_4, write, b"")


def find_families(client: Client, *, per_schedule: bool = False) -> Iterator[Metric]:
    """Yield all families, in slices. Raises NotSupported if prometheus-client is missing."""
    need_library()
    from edgecron.client.metric_families import families

    return families(client, per_schedule=per_schedule)


def read_families(fetch: Callable[[], bytes]) -> Iterator[Metric]:
    """Fetch a text in OpenMetrics, and yield its families.

    Raises NotSupported before the fetch if prometheus-client is missing, and ServerUnavailable if
    the text can't be read.
    """
    need_library()
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    read: Callable[[str], Iterator[Metric]] = text_string_to_metric_families
    try:
        found = list(read(fetch().decode()))  # Find errors before anything is shown.
    except ValueError as error:
        raise ServerUnavailable(
            f"the server's /metrics can't be read: {error}",
            hint="use the same version on both machines",
        ) from error
    return iter(found)


__all__ = ["OPENMETRICS", "exposition", "exposition_parts", "find_families", "read_families"]
