"""The house stands as the map in `edgecron/__init__.py` says.

Imports go down the floors, SQL lies in store/ alone, clocks are read in clock.py alone, and
starting is light.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import warnings
from collections import namedtuple
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

import edgecron

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "edgecron"
MOST_LINES = 400

# What the top level of the repository may hold, besides dot files and a lock file.
TOP_LEVEL = {
    *("pyproject.toml", "edgecron", "tests", "packaging"),
    *("README.md", "CHANGELOG.md", "LICENSE"),
}
# The one place that expands cron texts, when a schedule is written.
CRONITER_HOMES = {"edgecron.triggers.gate"}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def nodes() -> dict[str, tuple[ast.AST, ...]]:
    """All nodes of every module: a walk takes longer than most questions."""
    return {name: tuple(ast.walk(tree)) for name, tree in modules().items()}


@cache
def imports_of(module: str) -> tuple[tuple[str, int], ...]:
    """(module, line) of every import, wherever in the file it stands and whatever guards it."""
    return tuple(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, int]]:
    for node in nodes()[module]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module, node.lineno


@cache
def floors() -> dict[str, int]:
    """The floor of each room in the map of the package's docstring, from below."""
    assert edgecron.__doc__ is not None
    lines = re.findall(r"^    (\d)  (\w+)  ", edgecron.__doc__, re.MULTILINE)
    return {room: int(floor) for floor, room in lines}


def floor_of(module: str) -> int | None:
    """None for the package itself and `__main__`, which stand outside the house."""
    name = module.split(".")[1] if "." in module else ""
    return None if name in ("", "__main__") else floors()[name]


def test_every_module_has_a_floor_on_the_map() -> None:
    present = {name.split(".")[1] for name in modules() if "." in name} - {"__main__"}

    assert present == set(floors())


def test_imports_go_down_the_floors() -> None:
    wrong = []
    for module in modules():
        own = floor_of(module)
        for target, line in imports_of(module):
            if own is None or not target.startswith("edgecron."):
                continue
            other = floor_of(target)
            is_same_package = module.split(".")[1] == target.split(".")[1]
            if other is not None and other >= own and not is_same_package:
                wrong.append(f"{module}:{line} imports {target}")

    assert wrong == []


# What may name modules of ours in texts and import them: the public names of the package, and the
# table of commands, of which only the one that runs is imported.
BY_NAME = {"edgecron", "edgecron.cli.commands"}
# Imports modules of the program that embeds edgecron, by the paths of functions.
IMPORTS_THE_PROGRAM = {"edgecron.embedding.processes"}
_IMPORTERS = {
    *("import_module", "importlib.import_module", "__import__", "builtins.__import__"),
    *("run_module", "runpy.run_module"),
}
_IMPORTER_NAMES = {name.rpartition(".")[2] for name in _IMPORTERS}
# `edgecron.room.module`, with or without `:attribute`; or the source of a program.
_OWN_NAME = re.compile(r"(edgecron(?:\.\w+)+)(?::[\w.]+)?")
_OWN_SOURCE = re.compile(r"^\s*(?:from|import)\s+(edgecron(?:\.\w+)+)", re.MULTILINE)


def names_in_texts(every: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """(module, line) of every text that names a module of ours, but for docstrings and loggers."""
    passed = set()
    for node in every:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            passed.add(node.value)
        elif isinstance(node, ast.Call) and _called(node) == "getLogger":
            passed.update(arg for arg in node.args if isinstance(arg, ast.Constant))
    for node in every:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in passed:
            continue
        whole = _OWN_NAME.fullmatch(node.value)
        for name in [whole[1]] if whole else _OWN_SOURCE.findall(node.value):
            while name not in modules() and "." in name:
                name = name.rpartition(".")[0]  # an attribute of a module
            if "." in name:
                yield name, node.lineno


def importers_by_name(every: Sequence[ast.AST]) -> list[int]:
    """The lines of calls that import what a text names."""
    return [
        node.lineno
        for node in every
        if isinstance(node, ast.Call)
        and _called(node) in _IMPORTER_NAMES
        and ast.unparse(node.func) in _IMPORTERS
    ]


def test_names_in_texts_go_down_the_floors_too() -> None:
    """What starts a process by `-m`, names `module:attribute` or holds source is an import."""
    wrong = [
        f"{module}:{line} names {target}"
        for module, every in nodes().items()
        if module not in BY_NAME
        for target, line in names_in_texts(every)
        if (own := floor_of(module)) is not None
        and (other := floor_of(target)) is not None
        and other >= own
        and module.split(".")[1] != target.split(".")[1]
    ]

    assert wrong == []


def test_no_module_imports_by_name() -> None:
    found = {module for module, every in nodes().items() if importers_by_name(every)}

    assert found == BY_NAME | IMPORTS_THE_PROGRAM


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import_module('edgecron.tui.app')", ["edgecron.tui.app"]),
        ("__import__('edgecron.tui')", ["edgecron.tui"]),
        ("HOME = 'edgecron.http.app:make_app'", ["edgecron.http.app"]),
        ("HOME = 'edgecron.tui.app.Dashboard'", ["edgecron.tui.app"]),
        ("run([python, '-m', 'edgecron.tui'])", ["edgecron.tui"]),
        ("run([python, '-c', 'import sys\\nfrom edgecron.tui import app'])", ["edgecron.tui"]),
        ("logging.getLogger('edgecron.http')", []),
        ("'edgecron.tui is shown by edgecron.cli'", []),
    ],
)
def test_the_search_for_names_finds_each_kind(source: str, named: list[str]) -> None:
    assert [name for name, _ in names_in_texts(tuple(ast.walk(ast.parse(source))))] == named


def test_no_modules_import_each_other_in_a_circle() -> None:
    # Lazy loaders (`__init__` with `__getattr__`) name their modules for type checkers only, and
    # what is imported from them lies in those modules.
    loaders = {name for name, tree in modules().items() if _has_getattr(tree)}
    graph = {
        module: {
            target
            for target, _ in imports_of(module)
            if target in modules() and target != module and target not in loaders
        }
        for module in modules()
        if module not in loaders
    }

    circles = {" -> ".join(circle) for circle in _circles(graph)}

    assert circles == set()


def _has_getattr(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body
    )


def _circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> Iterator[list[str]]:
        if module in path:
            yield [*path[path.index(module) :], module]
        elif module not in done:
            for target in sorted(graph.get(module, ())):
                yield from visit(target, [*path, module])
            done.add(module)

    for module in graph:
        yield from visit(module, [])


_SQL = re.compile(
    r"^\s*(SELECT\s.+\sFROM\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s"
    r"|CREATE\s+(TABLE|INDEX|VIEW|TRIGGER)\s|PRAGMA\s+\w+|BEGIN\s+IMMEDIATE|VACUUM\b)",
    re.DOTALL,
)


def test_sql_lies_in_the_store_alone() -> None:
    found = [
        f"{module}:{node.lineno}"
        for module, every in nodes().items()
        if not module.startswith("edgecron.store")
        for node in every
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL.match(node.value)
    ]

    assert found == []


def test_the_statements_of_all_stores_know_no_store() -> None:
    found = [
        f"{module}:{line} imports {name}"
        for module in modules()
        if module.startswith("edgecron.store.sql.")
        for name, line in imports_of(module)
        if name.startswith(("apsw", "edgecron.store.sqlite"))
    ]

    assert found == []


def test_the_search_for_sql_finds_the_store_s_own() -> None:
    texts = [
        node.value
        for node in nodes()["edgecron.store.sql.due"]
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    assert sum(bool(_SQL.match(text)) for text in texts) >= 4


# `module.name` whose mere mention reads a clock; `time.sleep` reads none.
_CLOCKS = {
    *("time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter"),
    *("time.perf_counter_ns", "time.process_time", "time.localtime", "time.gmtime", "time.ctime"),
    *("time.clock_gettime", "time.clock_gettime_ns", "datetime.now", "datetime.utcnow"),
    *("datetime.today", "date.today", "os.times"),
}


def test_clocks_are_read_in_one_place() -> None:
    found = []
    for module, every in nodes().items():
        if module == "edgecron.base.clock":
            continue
        for node in every:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                if f"{owner}.{node.attr}" in _CLOCKS:
                    found.append(f"{module}:{node.lineno} reads {owner}.{node.attr}")
            if isinstance(node, ast.ImportFrom) and node.module in ("time", "os"):
                found += [
                    f"{module}:{node.lineno} imports {node.module}.{alias.name}"
                    for alias in node.names
                    if f"{node.module}.{alias.name}" in _CLOCKS
                ]

    assert found == []


def test_no_connection_is_used_as_a_context() -> None:
    """apsw's `with connection:` holds the interpreter's lock while it waits for SQLite's."""
    found = [
        f"{module}:{node.lineno}"
        for module, every in nodes().items()
        for node in every
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Name | ast.Attribute)
        and "connection" in ast.unparse(item.context_expr).lower()
    ]

    assert found == []


@pytest.mark.parametrize("module", ["sqlite3", "apsw"])
def test_the_database_is_opened_in_one_place(module: str) -> None:
    users = {
        name
        for name in modules()
        for target, _ in imports_of(name)
        if target.split(".")[0] == module
    }
    openers = {
        name
        for name, every in nodes().items()
        for node in every
        if isinstance(node, ast.Call)
        and _called(node) in ("Connection", "connect")
        and ast.unparse(node.func) in ("apsw.Connection", "sqlite3.connect")
    }

    assert all(name.startswith("edgecron.store") for name in users)
    assert openers <= {"edgecron.store.sqlite.database_file"}
    assert module == "apsw" or not users


def test_croniter_is_imported_where_schedules_are_written_alone() -> None:
    users = {
        name
        for name in modules()
        for target, _ in imports_of(name)
        if target.split(".")[0] == "croniter"
    }

    assert users == CRONITER_HOMES


# What the standard library makes them of costs an engine a megabyte and its start a third.
_OWN_VALUES = {("dataclasses", "dataclass"), ("typing", "NamedTuple")}


def test_values_are_made_by_the_module_that_makes_them_small() -> None:
    # `NamedTuple` of ours is no generic one.
    found = {
        (module, alias.name)
        for module, every in nodes().items()
        if module != "edgecron.base.values"
        for node in every
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module, alias.name) in _OWN_VALUES
    }

    assert found <= {("edgecron.tui.dialogs", "NamedTuple")}


# What takes memory for as long as an engine lives, and does nothing for it.
_NOT_AT_REST = (
    *("textual", "rich", "asyncio", "argparse", "subprocess", "tempfile", "random"),
    *("dataclasses", "inspect", "ast", "dis"),
    *("ssl", "sqlite3"),
)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("edgecron", ("textual", "rich", "asyncio", "croniter", "apsw", "dateutil", "dataclasses")),
        ("edgecron.engine.host", (*_NOT_AT_REST, "croniter", "dateutil")),
        ("edgecron.client", ("textual", "rich", "asyncio", "croniter", "dateutil", "apsw")),
        ("edgecron.cli", ("textual", "rich", "asyncio", "croniter", "dateutil", "apsw")),
        ("edgecron.http.serving", ("asyncio", "starlette", "uvicorn", "h11", "croniter", "apsw")),
        ("edgecron.cli.stats", ("prometheus_client", "asyncio", "apsw")),
    ],
)
def test_starting_is_light(module: str, unwanted: tuple[str, ...]) -> None:
    script = f"import sys, {module}; print(*sorted(sys.modules))"

    shown = subprocess.run(
        [sys.executable, "-E", "-s", "-c", script],
        cwd=ROOT,  # or it would be another edgecron, where one is installed
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {name.split(".")[0] for name in shown.stdout.split()}
    assert loaded & set(unwanted) == set()
    assert "edgecron" in loaded


# What the first screen shows comes without them; what needs them loads them then.
_AFTER_THE_FIRST_SCREEN = (
    *("edgecron.model.schedule", "edgecron.engine", "edgecron.supervisor"),
    *("edgecron.planning.next_fire", "edgecron.store", "apsw", "croniter", "tzdata", "pygments"),
    *("markdown_it", "rich.markdown", "rich.syntax", "rich.traceback"),
    *("textual.widgets._data_table", "textual.widgets._markdown", "textual.widgets._text_area"),
)


def test_the_first_screen_of_the_dashboard_waits_for_nothing_it_does_not_show() -> None:
    modules = "edgecron.cli.tui, edgecron.tui.app, edgecron.tui.themes"

    shown = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sorted(sys.modules))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(shown.stdout.split())
    assert loaded & set(_AFTER_THE_FIRST_SCREEN) == set()
    assert "edgecron.tui.home" in loaded


def test_no_file_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }

    for path, lines in sorted(long.items()):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(f"{path} has {lines} lines, more than {MOST_LINES}", stacklevel=1)
    assert all(lines <= MOST_LINES * 5 // 4 for lines in long.values()), long


# A program names what it wants of these; every other value has a default.
_PUBLIC_CONSTRUCTORS = {"Scheduler"}
_MOST_PARAMETERS = 8


def test_no_constructor_takes_many_parameters() -> None:
    """If one needs more, a value is missing, such as `EngineSettings`."""
    found = {
        owner.name
        for every in nodes().values()
        for owner in every
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        if len([*node.args.args, *node.args.kwonlyargs]) > 1 + _MOST_PARAMETERS
    }

    assert found == _PUBLIC_CONSTRUCTORS


def test_few_files_name_an_option() -> None:
    """The table of options declares it, and what carries it out names it: no other file."""
    named = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search("kill[_-]grace", path.read_text(encoding="utf-8"))
    ]

    assert len(named) <= 9, sorted(named)


def test_the_top_level_holds_what_it_may() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    names = {line.split("/")[0] for line in listed.stdout.splitlines()}

    extra = {
        name
        for name in names - TOP_LEVEL
        if not name.startswith(".") and not name.endswith(".lock")
    }

    assert extra == set()


# Names with one underscore at the beginning that their documentation makes public: `_exit`,
# `_replace`.
_DOCUMENTED = {*os.__all__, *dir(namedtuple("Row", ()))}
_PRIVATE = re.compile(r"_(?!_)\w*")
_BY_TEXT = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "patch"}
_SOURCE = re.compile(r"^\s*(from|import) \w", re.MULTILINE)
# Where a private name of another object can stand in a text. To parse all tests takes much longer.
_MENTION = re.compile(
    r"(?:(?<!\bself)(?<!\bcls)[.:'\"]|\bfrom |\bimport (?:[^()\n]*[ ,]|\([^)]*[\s,(])?)(_(?!_)\w*)"
)


def is_private(name: str) -> bool:
    return _PRIVATE.fullmatch(name) is not None and name not in _DOCUMENTED


def private_names(source: str) -> Iterator[tuple[str, int]]:
    """(name, line) of every use of a private name of another object or module.

    In the code, in texts that hold source, and as texts by which `setattr` and its like find it.
    """
    if not any(map(is_private, _MENTION.findall(source))):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            found = [] if is_own else [node.attr]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = [*([module] if module else ()), *(alias.name for alias in node.names)]
            found = [part for name in names for part in name.split(".")]
        elif isinstance(node, ast.Call) and _called(node) in _BY_TEXT:
            texts = [str(one.value) for one in node.args[:2] if isinstance(one, ast.Constant)]
            found = [part for text in texts for part in re.split("[.:]", text)]
        elif isinstance(node, ast.Constant) and _SOURCE.search(str(node.value)):
            found = []
            with suppress(SyntaxError):  # words, not source
                found = [name for name, _ in private_names(dedent(str(node.value)))]
        else:
            continue
        yield from ((name, node.lineno) for name in found if is_private(name))


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def test_no_test_uses_a_private_name() -> None:
    """To move code must break no test. Test what a user sees, or give the thing a public name."""
    found = [
        f"{path.relative_to(ROOT)}:{line} uses {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name, line in private_names(path.read_text(encoding="utf-8"))
    ]

    assert found == []


ROWS = "_rows"  # or the examples were uses


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("store._rows.first", ["_rows"]),
        ("self._rows._first", ["_first"]),
        (f"from edgecron.store import {ROWS}, rows", ["_rows"]),
        (f"from edgecron.store import (\n    rows,\n    {ROWS},\n)", ["_rows"]),
        (f"import edgecron.{ROWS}", ["_rows"]),
        ("monkeypatch.setattr('edgecron.store._LIMIT', 1)", ["_LIMIT"]),
        ("monkeypatch.setattr(store, '_LIMIT', 1)", ["_LIMIT"]),
        ("getattr(store, '_rows')", ["_rows"]),
        ("PROGRAM = 'import edgecron\\nedgecron._rows'", ["_rows"]),
        ("os._exit(row._replace(n=1)._asdict())", []),
        ("super().__init__(self._rows)", []),
        ("WORDS = '_rows'", []),
    ],
)
def test_the_search_for_private_names_finds_each_kind(source: str, names: list[str]) -> None:
    assert [name for name, _ in private_names(source)] == names


def test_the_map_names_files_that_exist() -> None:
    text = (PACKAGE / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(rf"\b(?:{'|'.join(floors())})/\w+\.py\b", text))

    assert named
    assert {name for name in named if not (PACKAGE / name).exists()} == set()


def test_the_map_has_the_same_floors_as_the_package() -> None:
    text = (PACKAGE / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| `(\w+)/` \|", text, re.MULTILINE)

    assert {room: int(floor) for floor, room in rows} == floors()
