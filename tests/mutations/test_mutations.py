"""Each guard matters: a checker finds its absence. All of them: python -m tests.mutations"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.copies import PACKAGE, a_copy
from tests.mutations.hunting import hunt, hunt_all
from tests.mutations.mutation import Mutation
from tests.mutations.table import ALL
from tests.support.edits import Edit, StaleEdit

QUICK = [mutation for mutation in ALL if mutation.is_quick]
OTHERS = [mutation for mutation in ALL if not mutation.is_quick]


def test_each_mutation_still_fits_the_package() -> None:
    stale = []
    for mutation in ALL:
        for edit in mutation.edits:
            try:
                edit.check(PACKAGE)
            except StaleEdit as error:
                stale.append(f"{mutation.name}: {error}")

    assert stale == []
    assert all(mutation.edits for mutation in ALL)


@pytest.mark.parametrize(
    ("function", "old"),
    [("Overlap.no_such_method", "e"), ("plan_fire", "no such text"), ("plan_fire", "e")],
)
def test_an_edit_that_fits_nowhere_or_twice_is_refused(function: str, old: str) -> None:
    edit = Edit(function=function, old=old, new="")

    with pytest.raises(StaleEdit), a_copy([edit]):
        pass


def test_an_edit_does_not_depend_on_the_layout_of_the_file(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "class A:\n    def f(self,  x):\n        return (x\n            + 1)  # more\n"
    )
    edit = Edit(function="A.f", old="x + 1", new="x - 1")

    edit.apply(tmp_path)

    assert "return x - 1" in module.read_text()


def test_names_are_names_of_one_mutation() -> None:
    names = [mutation.name for mutation in ALL]

    assert len(names) == len(set(names))


def test_who_takes_away_what_all_else_rests_on_is_found_out() -> None:
    # That these tests pass on the package as it is, the suite itself shows.
    found = [hunt(mutation) for mutation in QUICK]

    survived = {one.mutation.name: one.why for one in found if one.by is None}
    assert survived == {}
    assert len(found) == 6


@pytest.mark.slow
@pytest.mark.parametrize("mutation", OTHERS, ids=lambda mutation: mutation.name)
def test_who_takes_any_guard_away_is_found_out(mutation: Mutation) -> None:
    [found] = hunt_all([mutation])

    assert found.by is not None, found.why
