"""Values are what the standard library's dataclasses are, for who uses them and who asks."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from dataclasses import FrozenInstanceError
from functools import cached_property
from typing import Any

import pytest

from edgecron.base.values import NamedTuple, dataclass, field, names_of, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A value."""

    name: str
    count: int = 1
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count is {self.count}, expected 0 or more")

    @property
    def twice(self) -> int:
        return self.count * 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """A value."""

    name: str
    count: int = 1
    words: list[str] = dataclasses.field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Longer(Ours):
    """A value with one field more."""

    more: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """One whose fields are given in order, too."""

    left: int
    right: int = 2


@dataclass(slots=True)
class Tally:
    """One that changes."""

    seen: set[int] = field(default_factory=set)
    total: int = 0


class Place(NamedTuple):
    """A named tuple."""

    name: str
    after: Place | None = None

    @property
    def words(self) -> str:
        return f"at {self.name}"


class TheirPlace(typing.NamedTuple):
    """A named tuple."""

    name: str
    after: TheirPlace | None = None


def test_a_named_tuple_is_what_the_standard_library_s_is() -> None:
    ours, theirs = Place("a", after=Place("b")), TheirPlace("a", after=TheirPlace("b"))

    assert repr(ours) == repr(theirs).replace("TheirPlace", "Place")
    assert ours == theirs  # type: ignore[comparison-overlap]
    assert isinstance(ours, tuple)
    assert Place._fields == TheirPlace._fields
    assert Place._field_defaults == TheirPlace._field_defaults
    assert Place.__doc__ == "A named tuple."
    assert (Place.__module__, Place.__qualname__) == (__name__, "Place")
    assert typing.get_type_hints(Place) == {"name": str, "after": Place | None}
    assert ours._replace(name="c").words == "at c"
    assert pickle.loads(pickle.dumps(ours)) == ours
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Place()  # type: ignore[call-arg]


def test_a_value_shows_what_it_holds_as_a_dataclass_does() -> None:
    ours, theirs = Ours(name="a", words=["x"]), Theirs(name="a", words=["x"])

    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours.twice == 2


def test_values_are_equal_where_class_and_fields_are() -> None:
    assert Ours(name="a") == Ours(name="a", count=1)
    assert Ours(name="a") != Ours(name="b")
    assert Ours(name="a") != Longer(name="a")
    assert Ours(name="a") != Theirs(name="a")  # type: ignore[comparison-overlap]


def test_frozen_values_are_keys_and_others_are_not() -> None:
    assert {Pair(1): "x"}[Pair(1, 2)] == "x"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Tally())


def test_a_frozen_value_refuses_to_change() -> None:
    value = Ours(name="a")

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        value.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del value.name
    with pytest.raises(AttributeError):
        value.unknown = 1  # type: ignore[attr-defined]
    assert value == Ours(name="a")


def test_what_changes_has_defaults_of_its_own() -> None:
    one, other = Tally(), Tally(total=4)

    one.seen.add(1)
    one.total += 1

    assert (one.seen, one.total, other.seen, other.total) == ({1}, 1, set(), 4)


def test_a_value_is_checked_at_birth_and_when_it_is_replaced() -> None:
    with pytest.raises(ValueError, match="count is -1"):
        Ours(name="a", count=-1)
    with pytest.raises(ValueError, match="count is -2"):
        replace(Ours(name="a"), count=-2)


@pytest.mark.parametrize("given", [{}, {"name": "a", "unknown": 1}])
def test_a_value_takes_its_fields_and_no_others(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"Ours\.__init__\(\)"):
        Ours(**given)


def test_fields_are_given_in_order_only_where_that_is_said() -> None:
    assert Pair(1, 3) == Pair(left=1, right=3)
    with pytest.raises(TypeError):
        Ours("a")  # type: ignore[call-arg]
    match Pair(1, 3):
        case Pair(left, right):
            assert (left, right) == (1, 3)


def test_a_class_of_values_inherits_fields() -> None:
    value = Longer(name="a", more=3)

    assert names_of(Longer) == ("name", "count", "words", "more")
    assert (value.name, value.count, value.words, value.more) == ("a", 1, [], 3)
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("value", [Ours(name="a", words=["x"]), Pair(1, 3)])
def test_a_value_outlives_copies_and_pickles(value: Ours | Pair) -> None:
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


@dataclass(frozen=True, kw_only=True)
class Remembering:
    """One without slots, so that it can keep what it has computed."""

    count: int

    @cached_property
    def counted(self) -> list[int]:
        return list(range(self.count))


def test_a_value_without_slots_keeps_what_it_has_computed() -> None:
    value = Remembering(count=2)
    assert value.counted is value.counted == [0, 1]


def test_what_a_value_has_computed_is_neither_compared_nor_copied() -> None:
    value = Remembering(count=2)
    value.counted.append(9)
    assert value == Remembering(count=2)
    assert hash(value) == hash(Remembering(count=2))
    assert replace(value, count=1).counted == [0]
    assert copy.copy(value).counted == pickle.loads(pickle.dumps(value)).counted == [0, 1]


def test_the_standard_library_takes_a_value_for_a_dataclass() -> None:
    ours, theirs = Ours(name="a", words=["x"]), Theirs(name="a", words=["x"])

    assert dataclasses.is_dataclass(ours)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert dataclasses.replace(ours, count=7) == Ours(name="a", count=7, words=["x"])
    assert [(one.name, one.type, one.default) for one in dataclasses.fields(ours)] == [
        (one.name, one.type, one.default) for one in dataclasses.fields(theirs)
    ]


def test_a_value_has_the_type_hints_of_its_fields_alone() -> None:
    assert typing.get_type_hints(Longer) == {
        "name": str,
        "count": int,
        "words": list[str],
        "more": int,
    }


def test_a_dataclass_of_the_standard_library_inherits_from_values() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Theirs(Ours):
        note: str = ""

    value = Theirs(name="a", note="b")

    assert [one.name for one in dataclasses.fields(value)] == ["name", "count", "words", "note"]
    assert (value.name, value.count, value.note) == ("a", 1, "b")


class Outer:
    """A class with values in it."""

    @dataclass(frozen=True, slots=True)
    class Inner:
        """A value."""

        size: int

    class Spot(NamedTuple):
        """A named tuple."""

        size: int


@pytest.mark.parametrize(
    ("value", "shown"),
    [(Outer.Inner(1), "Outer.Inner(size=1)"), (Outer.Spot(1), "Spot(size=1)")],
)
def test_a_class_within_a_class_is_found_by_its_whole_name(value: object, shown: str) -> None:
    assert repr(value) == shown
    assert type(value).__qualname__ == f"Outer.{type(value).__name__}"
    assert pickle.loads(pickle.dumps(value)) == value
