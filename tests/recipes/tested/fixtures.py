"""The conftest.py of the program. It has another name here: it is no part of edgecron's tests."""

# SHOWN: conftest.py
import os
import tempfile

import pytest

os.environ["APP_DB"] = os.path.join(tempfile.mkdtemp(), "app.db")  # before a test imports app


@pytest.fixture
def scheduler():
    from app import scheduler

    return scheduler


# SHOWN: end
