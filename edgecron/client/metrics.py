"""Write the metrics of a database as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from edgecron.base.errors import NotSupported, ServerUnavailable
from edgecron.base.values import NamedTuple

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from edgecron.client import Client


OPENMETRICS = "application/openmetrics-text"
_EOF = b"# EOF\n"
_KEPT_VALUES = 1024
_MANY = 16  # samples of one family


class _OneFamily:
    """What the library takes for a registry: one family, or a slice of it."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


class _Format(NamedTuple):
    content_type: str
    write: Callable[[_OneFamily], bytes]
    ending: bytes
    value_text: Callable[[float], str]


def exposition(
    client: Client, accept: str | None, *, per_schedule: bool = False
) -> tuple[bytes, str]:
    """All metrics as text, and its content type, as an Accept header asks for it.

    With `per_schedule` histograms have a label for the schedule. Raises NotSupported where the
    library is missing.
    """
    content_type, parts = exposition_parts(client, accept, per_schedule=per_schedule)
    return b"".join(parts), content_type


def exposition_parts(
    client: Client, accept: str | None, *, per_schedule: bool = False
) -> tuple[str, Iterator[bytes]]:
    """The same in parts, for what is too much to be held at once."""
    form = _format_of(accept)
    from edgecron.client.metric_families import families

    return form.content_type, _parts(families(client, per_schedule=per_schedule), form)


def need_library() -> None:
    """Raise NotSupported where the library is missing; it is not loaded to see that."""
    if find_spec("prometheus_client") is None:
        raise NotSupported(
            "metrics need prometheus-client, which is not installed",
            hint="pip install 'edgecron[http]', or 'edgecron[metrics]' for them alone",
        )


def _parts(found: Iterable[Metric], form: _Format) -> Iterator[bytes]:
    before = None
    for family in found:
        text = _text(family, form)
        if family.name == before:
            text = _without_head(text)  # One name has one head, whatever the slices.
        before = family.name
        yield text
    yield form.ending


def _text(family: Metric, form: _Format) -> bytes:
    """A family as the library writes it.

    It writes what is long itself at a fifth of the speed: it looks at each name and each letter of
    labels again, which of ours it need not. Its head, and the text of numbers, are the library's.
    """
    if len(family.samples) < _MANY or family.type not in ("counter", "gauge"):
        return form.write(_OneFamily(family)).removesuffix(form.ending)
    empty = copy(family)
    empty.samples = []
    head = form.write(_OneFamily(empty)).removesuffix(form.ending)
    value_text = form.value_text
    names = sorted(family.samples[0].labels)  # as in every other of them
    lines = []
    for name, labels, value, *_ in family.samples:
        shown = ",".join([f'{label}="{_escaped(labels[label])}"' for label in names])
        lines.append(f"{name}{{{shown}}} {value_text(value)}\n")
    return head + "".join(lines).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _without_head(text: bytes) -> bytes:
    while text.startswith(b"#"):
        _, _, text = text.partition(b"\n")
    return text


def _format_of(accept: str | None) -> _Format:
    """By the first that is known of what is accepted, as Prometheus' own libraries choose."""
    need_library()
    from prometheus_client import exposition as plain
    from prometheus_client.openmetrics import exposition as openmetrics
    from prometheus_client.utils import floatToGoString

    # Counts are told again and again, and times each but once or twice.
    value_text = lru_cache(_KEPT_VALUES)(floatToGoString)
    for one in (accept or "").split(","):
        wanted = one.partition(";")[0].strip().lower()
        if wanted == "text/plain":
            break
        if wanted == OPENMETRICS:
            # No name of ours needs to be escaped, and looking at each letter takes long.
            write = partial(openmetrics.generate_latest, escaping=openmetrics.ALLOWUTF8)
            return _Format(openmetrics.CONTENT_TYPE_LATEST, write, _EOF, value_text)
    write = partial(plain.generate_latest, escaping=openmetrics.ALLOWUTF8)
    return _Format(plain.CONTENT_TYPE_PLAIN_0_0_4, write, b"", value_text)


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


__all__ = ["OPENMETRICS", "exposition", "exposition_parts", "find_families", "read_families"]
