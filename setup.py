"""Packaging of the companion: `pip install .` gives the `companion` command."""

import runpy
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build import build
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# Run alone, since the package's dependencies may not be installed yet.
VERSION = runpy.run_path(str(ROOT / "regsvc" / "__init__.py"))["__version__"]
# The manual page and completion for shells, which `make dist` has made.
SHARED = [
    (str(file.parent.relative_to(ROOT)), [str(file.relative_to(ROOT))])
    for file in sorted((ROOT / "share").rglob("*"))
    if file.is_file()
]
list_shipped = runpy.run_path(str(ROOT / "regsvc" / "cli" / "shipped_files.py"))["list_shipped"]

# Lower bounds are the versions the tests were run with. Upper bounds: we use private parts of these packages, which
# tests/house_rules/test_private_parts.py names. docs/dependencies.md says what each one replaces.
RUNTIME = [
    "tornado>=6.5,<6.7",
    "peewee>=4.5,<4.6",
    "pymysql[rsa]>=1.2,<1.3",
    "pyjwt>=2.15,<3",
    # This *is* passlib: the maintained fork that provides the same `passlib` import.
    "libpass[bcrypt,argon2,totp]>=1.9.4,<2",
    "bcrypt>=5.0",
    "argon2-cffi>=25.1",
    "pillow>=13.0",
    "cryptography>=50",
    "idna>=3.20",
    "msgspec>=0.22",
    "email-validator>=2.4",
    "aiosmtplib>=5.1",
    "PyYAML>=6.0.3",
    "prometheus-client>=0.26",
    "regex>=2026.11.15",
    "segno>=1.6.6",
]

DEVELOPMENT = [
    "pytest>=9.2",
    "pytest-xdist>=3.8",
    "hypothesis>=6.170",
    "aiosmtpd>=1.4.6",
    "mcstatus>=14.2",
    "aio-mc-rcon>=3.5",
    "Authlib>=1.9.8",
    "nonebot-adapter-onebot>=2.4.6",
    "PyNaCl>=1.6.2",
    "openapi-spec-validator>=0.9",
    "jsonschema-rs>=0.60",
    "schemathesis>=4.32",
    "requests>=2.34",
    "setuptools>=84",
    "uv>=0.13",
    "cyclonedx-python-lib>=11.12",
    "playwright>=1.65",
    "axe-playwright-python>=0.1.8",
    "ruff>=0.17",
    "mypy>=2.4",
    "types-peewee>=4.5",
    "types-PyMySQL>=1.2",
    "types-PyYAML>=6.0",
    "types-passlib>=1.7",
    "types-Authlib>=1.8",
    "types-regex>=2026.11.8",
    "types-requests>=2.33",
]


class Build(build):
    """Build in a folder of its own, so that no module of another version is left from an earlier build."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self._folder = tempfile.TemporaryDirectory(prefix="companion-build-")
        self.build_base = self._folder.name


def require_sample() -> None:
    """Refuse to put a host's own config into a package, which everybody may read."""
    with (ROOT / "conf" / "companion.toml").open("rb") as file:
        if any(tomllib.load(file).values()):
            sys.exit(
                "conf/companion.toml sets keys, and would be in the package, which all may read: move it elsewhere"
            )


class BuildPython(build_py):
    """Add copies of the shipped files; an editable installation reads the originals."""

    def run(self) -> None:
        if not self.editable_mode:
            require_sample()
        super().run()
        if not self.editable_mode:
            for name in list_shipped():
                copy = Path(self.build_lib) / "regsvc" / "shipped" / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, copy)


setup(
    name="companion",
    version=VERSION,
    description="Registration and administration backend beside a Minecraft server",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    py_modules=["companion"],
    packages=find_packages(include=["regsvc*", "plugin_bridge*"]),
    package_data={
        "regsvc": [
            "core/translations/*",
            "doctor/translations/*",
            "notifications/mail/texts/**/*",
            "web/static/**/*",
            "py.typed",
        ],
        "plugin_bridge": ["py.typed"],
    },
    data_files=SHARED,
    install_requires=RUNTIME,
    extras_require={"dev": DEVELOPMENT},
    cmdclass={"build": Build, "build_py": BuildPython},
    entry_points={"console_scripts": ["companion=companion:run_and_exit"]},
)
