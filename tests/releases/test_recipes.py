"""What other package managers get of a release: recipes, filled in, and an apt repository."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.releasing import PACKAGING, ROOT
from tests.support.tools import need_tools

VERSION = "1.2.0rc1"
SDIST = f"edgecron-{VERSION}.tar.gz"
DEB = "edgecron_1.2.0.rc1-1.glibc2.36_{}.deb"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(env or {})}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def out_of(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """What a command prints; fails with its messages."""
    done = run(*command, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_deb(path: Path, architecture: str) -> None:
    """Write a package that has the folders of edgecron's own."""
    tree = path.parent / f"tree-{architecture}"
    files: Mapping[str, str] = {
        "usr/bin/edgecron": "#!/bin/sh\necho edgecron 1.2.0rc1\n",
        "usr/share/zsh/vendor-completions/_edgecron": "#compdef edgecron\n",
        "usr/share/lintian/overrides/edgecron": "none\n",
        "usr/share/doc/edgecron/changelog.Debian.gz": "",
        "usr/share/doc/edgecron/copyright": "MIT\n",
        "DEBIAN/control": (
            "Package: edgecron\nVersion: 1.2.0~rc1-1~glibc2.36\nMaintainer: A <a@b.invalid>\n"
            f"Architecture: {architecture}\nDescription: cron\n"
        ),
    }
    for name, text in files.items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755 if name == "usr/bin/edgecron" else 0o644)
    out_of("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, path)
    shutil.rmtree(tree)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release that recipes name."""
    need_tools("dpkg-deb")
    folder = tmp_path_factory.mktemp("dist")
    (folder / SDIST).write_bytes(b"a source archive")
    for architecture in ("amd64", "arm64"):
        write_deb(folder / DEB.format(architecture), architecture)
    return folder


@pytest.fixture(scope="module")
def recipes(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    out_of(PACKAGING / "recipes/fill", dist, folder)
    return folder


def test_a_recipe_names_files_of_the_release_by_their_hashes(dist: Path, recipes: Path) -> None:
    source = PROJECT["urls"]["Source"]
    digest = hashlib.sha256((dist / SDIST).read_bytes())
    texts = {file.name: file.read_text(encoding="utf-8") for file in recipes.iterdir()}

    assert set(texts) == {"PKGBUILD", "edgecron.rb", "package.nix"}
    assert f'url "{source}/releases/download/v{VERSION}/{SDIST}"' in texts["edgecron.rb"]
    assert f'sha256 "{digest.hexdigest()}"' in texts["edgecron.rb"]
    assert f'"sha256-{base64.b64encode(digest.digest()).decode()}"' in texts["package.nix"]


def test_a_release_that_lacks_a_file_has_no_recipes(dist: Path, tmp_path: Path) -> None:
    shutil.copy(dist / SDIST, tmp_path)

    refused = run(PACKAGING / "recipes/fill", tmp_path, tmp_path / "recipes")

    assert refused.returncode == 1
    assert "has 0 files edgecron_*_amd64.deb, expected 1" in refused.stderr
    assert not (tmp_path / "recipes").exists()


@pytest.mark.needs("ruby")
def test_the_formula_is_ruby_without_warnings(recipes: Path) -> None:
    assert out_of("ruby", "-wc", recipes / "edgecron.rb") == "Syntax OK\n"


@pytest.mark.needs("nix-instantiate")
def test_the_nix_package_evaluates_with_the_libraries_of_pyproject(
    recipes: Path, tmp_path: Path
) -> None:
    libraries = [
        name.partition(">")[0].partition(";")[0].strip() for name in PROJECT["dependencies"]
    ]
    packages = " ".join(f'{name} = "{name}";' for name in [*libraries, "hatchling"])
    arguments = (
        "{ lib = { licenses.mit = 1; platforms.linux = 1; };"
        " fetchurl = x: x.url; installShellFiles = 1;"
        f" python3Packages = {{ buildPythonApplication = x: x; {packages} }}; }}"
    )
    expression = f"(import {recipes}/package.nix {arguments})"

    answered = out_of(
        *("nix-instantiate", "--eval", "--strict", "--expr"),
        f'with {expression}; builtins.concatStringsSep " " ([ version src ] ++ dependencies)',
        env={f"NIX_{name.upper()}_DIR": str(tmp_path / name) for name in ("state", "store", "log")},
    )

    url = f"{PROJECT['urls']['Source']}/releases/download/v{VERSION}/{SDIST}"
    assert answered.strip().strip('"').split() == [VERSION, url, *libraries]


@pytest.fixture
def workshop() -> Iterator[Path]:
    """A folder that other users can reach and write to."""
    with tempfile.TemporaryDirectory(prefix="recipe-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.needs("makepkg", "bsdtar")
def test_makepkg_builds_the_package_for_arch(dist: Path, recipes: Path, workshop: Path) -> None:
    shutil.copy(recipes / "PKGBUILD", workshop)
    shutil.copy(dist / DEB.format("amd64"), workshop)
    config = workshop / "makepkg.conf"
    text = Path("/etc/makepkg.conf").read_text(encoding="utf-8")
    config.write_text(f"{text}\nCARCH=x86_64\nPKGEXT=.pkg.tar\n", encoding="utf-8")
    command = ["makepkg", "--nodeps", "--config", str(config)]
    if os.geteuid() == 0:  # makepkg refuses root.
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]

    # makepkg ends if there is no pacman, although --nodeps leaves it nothing to ask.
    without_pacman = {"PACMAN": "true"}
    env = {"HOME": str(workshop), "LC_ALL": "C.UTF-8", **without_pacman}
    out_of(*command, cwd=workshop, env=env)

    [package] = workshop.glob("edgecron-bin-*.pkg.tar")
    listed = set(out_of("bsdtar", "-tf", package).split())
    assert {
        "usr/bin/edgecron",
        "usr/share/licenses/edgecron-bin/LICENSE",
        "usr/share/zsh/site-functions/_edgecron",
    } <= listed
    assert not [name for name in listed if "lintian" in name or "vendor-completions" in name]


def test_files_that_two_machines_built_are_joined(tmp_path: Path) -> None:
    for machine, binary in (("x86", "a"), ("arm", "b")):
        folder = tmp_path / "built" / machine
        folder.mkdir(parents=True)
        (folder / "edgecron.whl").write_text("the same")
        (folder / f"edgecron_1~glibc2.36_{binary}.deb").write_text(binary)
        (folder / "SHA256SUMS").write_text("of one machine")

    out_of(PACKAGING / "gather", tmp_path / "built", tmp_path / "dist")

    names = ["edgecron.whl", "edgecron_1.glibc2.36_a.deb", "edgecron_1.glibc2.36_b.deb"]
    assert sorted(file.name for file in (tmp_path / "dist").iterdir()) == ["SHA256SUMS", *names]
    out_of("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=tmp_path / "dist")


def test_a_file_that_differs_between_machines_is_not_released(tmp_path: Path) -> None:
    for machine in ("x86", "arm"):
        folder = tmp_path / "built" / machine
        folder.mkdir(parents=True)
        (folder / "edgecron.whl").write_text(machine)

    refused = run(PACKAGING / "gather", tmp_path / "built", tmp_path / "dist")

    assert refused.returncode == 1
    assert refused.stderr == "error: two machines built different files edgecron.whl\n"


@pytest.fixture
def key_folder() -> Iterator[Path]:
    """A folder with a short path: the socket of gpg's agent lies in it."""
    with tempfile.TemporaryDirectory(prefix="gpg.", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.needs("apt-ftparchive", "apt-get", "gpg")
def test_apt_installs_from_the_signed_repository(
    dist: Path, tmp_path: Path, key_folder: Path
) -> None:
    secret = {"GNUPGHOME": str(key_folder)}
    out_of(
        *("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "edgecron", "rsa2048"),
        env=secret,
    )
    repository = tmp_path / "repository"
    url = repository.as_uri()
    out_of(
        *(PACKAGING / "apt-repository", "--key", "edgecron", "--url", url, repository),
        *sorted(dist.glob("*.deb")),
        env=secret,
    )
    run("gpgconf", "--kill", "gpg-agent", env=secret)
    etc, state = tmp_path / "etc", tmp_path / "state"
    for folder in (etc / "apt.conf.d", state / "lists/partial", state / "archives/partial"):
        folder.mkdir(parents=True)
    (state / "status").touch()
    listed = (repository / "edgecron.sources").read_text(encoding="utf-8")
    (etc / "edgecron.sources").write_text(
        listed.replace("/etc/apt/keyrings", str(repository)), encoding="utf-8"
    )
    (etc / "apt.conf").write_text(
        f"""Dir::Etc "{etc}/"; Dir::Etc::sourceparts "{etc}"; Dir::Etc::sourcelist "/dev/null";
        Dir::Etc::parts "{etc}/apt.conf.d"; Dir::State "{state}"; Dir::Cache "{state}";
        Dir::State::status "{state}/status"; APT::Architecture "amd64"; APT::Architectures "amd64";
        APT::Sandbox::User ""; """,
        encoding="utf-8",
    )
    apt = {"APT_CONFIG": str(etc / "apt.conf")}

    updated = run("apt-get", "update", env=apt)
    planned = out_of("apt-get", "install", "--simulate", "edgecron", env=apt)
    out_of("apt-get", "download", "edgecron", cwd=tmp_path, env=apt)

    assert (updated.returncode, updated.stderr) == (0, "")
    assert "Inst edgecron (1.2.0~rc1-1~glibc2.36 edgecron:stable [amd64])" in planned
    [fetched] = tmp_path.glob("edgecron_*.deb")
    assert fetched.read_bytes() == (dist / DEB.format("amd64")).read_bytes()

    # A list that somebody changed is refused.
    lists = repository / "dists/stable/main/binary-amd64"
    (lists / "Packages.gz").unlink()
    text = (lists / "Packages").read_text(encoding="utf-8")
    (lists / "Packages").write_text(text.replace("Package: edgecron", "Package: evilcron"))
    shutil.rmtree(state / "lists")
    (state / "lists/partial").mkdir(parents=True)
    assert run("apt-get", "update", env=apt).returncode != 0
