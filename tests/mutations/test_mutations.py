"""Each guard matters: a checker finds its absence. All of them: python -m tests.mutations"""

from __future__ import annotations

import pytest

from mutations.copies import PACKAGE, a_copy
from mutations.hunting import hunt_all
from mutations.mutation import Edit, Mutation, StaleAnchor
from mutations.table import ALL

QUICK = [mutation for mutation in ALL if mutation.is_quick]
OTHERS = [mutation for mutation in ALL if not mutation.is_quick]


def test_the_source_still_has_what_each_mutation_takes_away() -> None:
    stale = [
        (mutation.name, edit.file, edit.old)
        for mutation in ALL
        for edit in mutation.edits
        if (PACKAGE / edit.file).read_text(encoding="utf-8").count(edit.old) != 1
    ]

    assert stale == []
    assert all(mutation.edits for mutation in ALL)


def test_an_edit_that_fits_nowhere_or_twice_is_refused() -> None:
    nowhere = Edit(file="model/choices.py", old="no such text", new="")
    twice = Edit(file="model/choices.py", old="e", new="")

    for edit in (nowhere, twice):
        with pytest.raises(StaleAnchor), a_copy([edit]):
            pass


def test_names_are_names_of_one_mutation() -> None:
    names = [mutation.name for mutation in ALL]

    assert len(names) == len(set(names))


def test_who_takes_away_what_all_else_rests_on_is_found_out() -> None:
    found = hunt_all(QUICK)

    survived = {one.mutation.name: one.why for one in found if one.by is None}
    assert survived == {}
    assert len(found) == 6


@pytest.mark.slow
@pytest.mark.parametrize("mutation", OTHERS, ids=lambda mutation: mutation.name)
def test_who_takes_any_guard_away_is_found_out(mutation: Mutation) -> None:
    [found] = hunt_all([mutation])

    assert found.by is not None, found.why
