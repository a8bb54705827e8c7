"""The tests of the program. They have another name here: they are no part of edgecron's tests."""

# SHOWN: test_app.py
from app import copy


def test_copies_run_each_hour(travel):
    travel.advance(hours=2)  # inline: due jobs run here, on a clock that only the test moves
    assert [run.result for run in travel.runs(copy)] == [3, 6]


def test_a_copy_runs_in_an_engine(scheduler):
    with scheduler:  # a real engine, in the database of `scheduler`
        assert copy.run_now(5).wait(30).status == "success"


# SHOWN: end
