"""The conftest.py of the program. It has another name here: it is no part of edgecron's tests."""

# SHOWN: conftest.py
import app
import pytest


@pytest.fixture
def scheduler():
    return app.scheduler


# SHOWN: end
