"""Build of the package for Debian: `python packaging/deb/build.py WHEEL FOLDER` (part of `make dist`).

The package has an environment of its own in /opt/companion/.venv, where docs/install.md makes one by hand, too: the
wheel and its dependencies by requirements.lock, for the Python of the distribution it is built on. Debian's versions of
most of them are too old.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = "opt/companion/.venv"
PROGRAM = f"""#!/{ENVIRONMENT}/bin/python3 -I
import sys

from companion import main

sys.exit(main())
"""
RULES_OF_NAMES = re.compile(r"[-_.]+")


def main() -> None:
    """Build the package and print its name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter on the target machine")
    parser.add_argument("--packages-of", type=Path, metavar="FOLDER", help="copy dependencies from this site-packages")
    parser.add_argument("--uncompressed", action="store_true", help="do not compress: for tests")
    args = parser.parse_args()
    os.umask(0o022)
    version = args.wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory(prefix="companion-deb-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        site_packages = _make_environment(root, args.python)
        if args.packages_of is None:
            _install(args.python, site_packages, "--require-hashes", "--requirement", str(ROOT / "requirements.lock"))
        else:
            _copy_packages(args.packages_of, site_packages)
        # by name and not as a file, whose path pip would write down
        wheel = ("--no-index", "--find-links", str(args.wheel.parent.resolve()), f"companion=={version}")
        _install(args.python, site_packages, *wheel)
        shutil.rmtree(site_packages / "bin", ignore_errors=True)
        _compile(args.python, site_packages)
        for library in site_packages.rglob("*.so*"):
            library.chmod(0o644)
        _add_files(root, site_packages / "regsvc" / "shipped")
        _write_control(root, version, args.python)
        package = _pack(root, args.output, "none" if args.uncompressed else "xz")
    print(package.name)


def _make_environment(root: Path, python: str) -> Path:
    """Write what `python -m venv` writes, which would need the place where it will be; return its site-packages."""
    version = _ask(python, "import platform; print(platform.python_version())")
    programs = root / ENVIRONMENT / "bin"
    programs.mkdir(parents=True)
    (programs.parent / "pyvenv.cfg").write_text(
        f"home = {Path(python).parent}\ninclude-system-site-packages = false\nversion = {version}\n", encoding="utf-8"
    )
    (programs / "python3").symlink_to(python)
    (programs / "python").symlink_to("python3")
    (programs / "companion").write_text(PROGRAM, encoding="utf-8")
    (programs / "companion").chmod(0o755)
    site_packages = programs.parent / "lib" / f"python{_minor(version)}" / "site-packages"
    site_packages.mkdir(parents=True)
    return site_packages


def _install(python: str, site_packages: Path, *what: str) -> None:
    options = (
        "--quiet",
        "--no-compile",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-warn-script-location",
        "--upgrade",
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", *options]
    # a constraint is not part of the lock file; the machine's own configuration may name some
    command = [*pip, *options, "--target", str(site_packages), *what]
    subprocess.run(command, check=True, env={**os.environ, "PIP_CONSTRAINT": ""})


def _copy_packages(source: Path, site_packages: Path) -> None:
    """Copy what requirements.lock names from an environment that has exactly these versions."""
    installed = {_normalized(found.name): found for found in distributions(path=[str(source)])}
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for name, version, marker in re.findall(r"^([\w.-]+)==([^\s;]+)(?: ; ([^\\\n]+))?", lock, re.MULTILINE):
        found = installed.get(_normalized(name))
        if found is None and marker:
            continue  # not needed by this version of Python
        if found is None or found.version != version:
            sys.exit(f"{source} has {name} {found and found.version}, requirements.lock has {version}: run make lock")
        _copy_package(found, source, site_packages)


def _copy_package(package: Distribution, source: Path, site_packages: Path) -> None:
    for file in package.files or []:
        path = source / file
        if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
            (site_packages / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, site_packages / file)


def _compile(python: str, site_packages: Path) -> None:
    """Compile everything, with results that depend neither on times nor on the place of the build."""
    where = ("-s", str(site_packages), "-p", "/" + str(site_packages)[str(site_packages).index(ENVIRONMENT) :])
    command = [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", *where]
    subprocess.run([*command, str(site_packages)], check=True, env={**os.environ, "PYTHONHASHSEED": "0"})


def _add_files(root: Path, shipped: Path) -> None:
    """Add the command, units and documentation. (postinst makes the config.)"""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/companion").symlink_to(f"/{ENVIRONMENT}/bin/companion")
    units = root / "lib/systemd/system"
    units.mkdir(parents=True)
    for pattern in ("*.service", "*.timer"):
        for unit in (shipped / "systemd").glob(pattern):
            shutil.copyfile(unit, units / unit.name)
    documentation = root / "usr/share/doc/companion"
    (shipped.parents[1] / "share").rename(root / "usr/share")
    (root / "usr/share/zsh/site-functions").rename(root / "usr/share/zsh/vendor-completions")
    shutil.copytree(shipped, documentation)
    (documentation / "LICENSE").rename(documentation / "copyright")


def _write_control(root: Path, version: str, python: str) -> None:
    size = sum(file.lstat().st_size for file in root.rglob("*") if file.is_file()) // 1024
    minor = _minor(_ask(python, "import platform; print(platform.python_version())"))
    following = f"{minor.partition('.')[0]}.{int(minor.partition('.')[2]) + 1}"
    control = (HERE / "control").read_text(encoding="utf-8")
    words = {"VERSION": version, "SIZE": str(size), "PYTHON": minor, "NEXT": following}
    for word, value in {**words, "ARCHITECTURE": _run("dpkg", "--print-architecture")}.items():
        control = control.replace(f"@{word}@", value)
    if python != "/usr/bin/python3":
        control = re.sub(r"python3 \([^)]*\),? ?", "", control)
    folder = root / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(control, encoding="utf-8")
    for script in ("postinst", "prerm", "postrm"):
        shutil.copyfile(HERE / script, folder / script)
        (folder / script).chmod(0o755)


def _pack(root: Path, output: Path, compression: str) -> Path:
    """Build the package, which dpkg-deb names after its version and architecture."""
    _run("dpkg-deb", "--build", "--root-owner-group", f"-Z{compression}", str(root), str(output))
    return max(output.glob("companion_*.deb"), key=lambda file: file.stat().st_mtime)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _normalized(name: str) -> str:
    return RULES_OF_NAMES.sub("-", name).lower()


def _ask(python: str, question: str) -> str:
    return _run(python, "-c", question)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
