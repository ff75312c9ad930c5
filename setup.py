"""Packaging of the companion: `pip install .` gives the `companion` command."""

from pathlib import Path

from setuptools import find_packages, setup

# Lower bounds are the versions the tests were run with. docs/dependencies.md says what each one replaces.
RUNTIME = [
    "tornado>=6.5",
    "peewee>=4.5",
    "pymysql[rsa]>=1.2",
    "pyjwt>=2.15",
    # This *is* passlib: the maintained fork that provides the same `passlib` import.
    "libpass[bcrypt,argon2,totp]>=1.9.4",
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
]

DEVELOPMENT = [
    "pytest>=9.2",
    "pytest-xdist>=3.8",
    "hypothesis>=6.170",
    "aiosmtpd>=1.4.6",
    "mcstatus>=14.2",
    "aio-mc-rcon>=3.5",
    "Authlib>=1.9.8",
    "openapi-spec-validator>=0.9",
    "jsonschema>=4.26",
    "schemathesis>=4.32",
    "requests>=2.34",
    "playwright>=1.65",
    "axe-playwright-python>=0.1.8",
    "ruff>=0.17",
    "mypy>=2.4",
    "types-peewee>=4.5",
    "types-PyMySQL>=1.2",
    "types-PyYAML>=6.0",
    "types-passlib>=1.7",
    "types-Authlib>=1.8",
    "types-jsonschema>=4.26",
    "types-requests>=2.33",
]

setup(
    name="companion",
    version="0.1.0",
    description="Registration and administration backend beside a Minecraft server",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    if Path(__file__).with_name("README.md").exists()
    else "",
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    py_modules=["companion"],
    packages=find_packages(include=["regsvc*", "plugin_bridge*"]),
    package_data={
        "regsvc": ["core/translations/*", "notifications/mail/texts/*", "web/static/**/*", "py.typed"],
        "plugin_bridge": ["py.typed"],
    },
    install_requires=RUNTIME,
    extras_require={"dev": DEVELOPMENT},
    entry_points={"console_scripts": ["companion=companion:main"]},
)
