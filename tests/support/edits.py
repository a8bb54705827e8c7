"""Changes of a copy of the package: each names a function and a part of its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol


class StaleEdit(ValueError):
    """What an edit changes does not stand in the package exactly once."""


class AnyEdit(Protocol):
    """A change of the package."""

    def apply(self, package: Path) -> None:
        """Change the package in this folder. Raises StaleEdit."""

    def check(self, package: Path) -> None:
        """Raise StaleEdit if the edit does not fit the package in this folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of one function, or of one constant of a module, wherever it is defined.

    `function` is its qualified name, such as `Engine.step`. `old` and `new` are parts of its
    source as `canonical` writes it, so that the layout of the file does not matter.
    """

    function: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Change the function. Raises StaleEdit if `old` is not found exactly once."""
        path, tree, unit = self._find(package)
        text = canonical(unit)
        if text.count(self.old) != 1:
            raise StaleEdit(f"{self.function}: not found exactly once: {self.old!r}")
        if self._apply_within_text(unit):
            path.write_text(ast.unparse(tree), encoding="utf-8")
            return
        [changed] = ast.parse(text.replace(self.old, self.new)).body
        replaced = _Replace(unit, changed).visit(tree)
        path.write_text(ast.unparse(ast.fix_missing_locations(replaced)), encoding="utf-8")

    def _apply_within_text(self, unit: ast.AST) -> bool:
        """Change one text of several lines, which keeps its lines; whether `old` lies in one.

        Other texts of the function might be compared with those of a database.
        """
        pattern = re.compile(r"\s+".join(re.escape(word) for word in self.old.split()))
        for node in ast.walk(unit):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and "\n" in value and len(pattern.findall(value)) == 1:
                assert isinstance(node, ast.Constant)
                node.value = pattern.sub(lambda _: self.new, value)
                return True
        return False

    def check(self, package: Path) -> None:
        """Raise StaleEdit if `old` is not found exactly once, or if `new` makes it no Python."""
        texts = [
            text
            for path in package.rglob("*.py")
            for text in _texts_in(_read(path, path.stat().st_mtime_ns), self.function)
            if self.old in text
        ]
        if len(texts) != 1 or texts[0].count(self.old) != 1:
            raise StaleEdit(f"{self.function}: found in {len(texts)} places: {self.old!r}")
        if self._apply_within_text(ast.parse(texts[0])):
            return
        try:
            ast.parse(texts[0].replace(self.old, self.new))
        except SyntaxError as error:
            raise StaleEdit(f"{self.function}: {error}") from error

    def _find(self, package: Path) -> tuple[Path, ast.Module, ast.stmt]:
        found = []
        name = self.function.rpartition(".")[2]
        for path in sorted(package.rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if name not in source:
                continue
            tree = ast.parse(source)
            found += [
                (path, tree, unit)
                for qualified, unit in units(tree)
                if qualified == self.function and canonical(unit).count(self.old) > 0
            ]
        if len(found) != 1 or canonical(found[0][2]).count(self.old) != 1:
            raise StaleEdit(f"{self.function}: found in {len(found)} places: {self.old!r}")
        return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A text of one file of the package that is no Python, such as a migration."""

    file: str  # below the package
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Change the file. Raises StaleEdit if `old` is not found exactly once."""
        self.check(package)
        path = package / self.file
        source = path.read_text(encoding="utf-8")
        path.write_text(source.replace(self.old, self.new), encoding="utf-8")

    def check(self, package: Path) -> None:
        """Raise StaleEdit if `old` is not found exactly once."""
        count = (package / self.file).read_text(encoding="utf-8").count(self.old)
        if count != 1:
            raise StaleEdit(f"{self.file}: found {count} times, expected once: {self.old!r}")


def units(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The functions, methods and constants of a module by qualified name."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{prefix}{node.name}.")
                else:
                    yield prefix + node.name, node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield prefix + node.targets[0].id, node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield prefix + node.target.id, node

    yield from walk(tree.body, "")


def canonical(unit: ast.stmt) -> str:
    """The source of a function in one layout: SQL on one line, no comments."""
    return ast.unparse(_OneLine().visit(ast.parse(ast.unparse(unit))))


@cache  # Many edits are checked on the same files.
def _read(path: Path, mtime_ns: int) -> str:
    """The text of a file that was written last at this time."""
    return path.read_text(encoding="utf-8")


def _texts_in(source: str, function: str) -> list[str]:
    """The functions or constants of this qualified name in a module, in one layout."""
    if function.rpartition(".")[2] not in source:
        return []
    return [canonical(unit) for name, unit in _units_in(source) if name == function]


@cache  # Many edits are checked on the same files.
def _units_in(source: str) -> list[tuple[str, ast.stmt]]:
    return list(units(ast.parse(source)))


class _OneLine(ast.NodeTransformer):
    """Writes texts of several lines, which are SQL, on one line without comments."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and "\n" in node.value:
            lines = [re.sub(r"--.*", "", line) for line in node.value.split("\n")]
            text = re.sub(r"\s+", " ", " ".join(lines))
            return ast.copy_location(ast.Constant(text), node)
        return node


class _Replace(ast.NodeTransformer):
    """Puts a statement in the place of another one."""

    def __init__(self, old: ast.stmt, new: ast.stmt) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)
