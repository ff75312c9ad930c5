"""Bill of materials of what runs at hosts: `python packaging/sbom.py VERSION FOLDER` (part of `make dist`).

It is CycloneDX 1.6 in JSON, made of requirements.lock: versions and hashes for every platform and version of Python.
Licences are those of docs/dependencies.md, else the package's own words; who needs whom is known from the environment
that builds.
"""

import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCKED = re.compile(r"^([\w.-]+)==([^\s;]+)(?: ; ([^\\\n]+?))? \\\n((?:    --hash=sha256:.*\n?)+)", re.MULTILINE)


def main() -> None:
    """Write the file."""
    version, folder = sys.argv[1], Path(sys.argv[2])
    licence = LicenseFactory().make_from_string("MIT")
    kind, reference = ComponentType.APPLICATION, f"companion=={version}"
    program = Component(name="companion", version=version, type=kind, bom_ref=reference, licenses=[licence])
    explained = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` .*\| (.+?) \|$", explained, re.MULTILINE)
    licences = {normalized(name): words for name, words in rows}
    parts = {}
    for name, number, marker, hashes in LOCKED.findall((ROOT / "requirements.lock").read_text(encoding="utf-8")):
        found = installed(name)
        if found is not None and found.version != number:
            sys.exit(f"{name} {found.version} is installed, requirements.lock has {number}: run make lock")
        words = licences.get(normalized(name)) or licence_of(found)
        parts[normalized(name)] = component(name, number, marker, hashes, words)
    bom = Bom(components=parts.values())
    bom.metadata.component = program
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    listed = " ".join(sorted(str(part.bom_ref) for part in parts.values()))
    bom.serial_number = uuid5(NAMESPACE_URL, f"companion {version} {bom.metadata.timestamp} {listed}")
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    runtime = setup.partition("RUNTIME = [\n")[2].partition("\n]\n")[0]
    direct = [Requirement(line) for line in re.findall(r'^    "(.+)",$', runtime, re.MULTILINE)]
    bom.register_dependency(program, [parts[normalized(each.name)] for each in direct])
    extras = {normalized(each.name): each.extras for each in direct}
    for name, part in parts.items():
        bom.register_dependency(part, [parts[other] for other in required(name, extras.get(name, set()), parts)])
    JsonV1Dot6(bom).output_to_file(str(folder / f"companion-{version}.cdx.json"), allow_overwrite=True, indent=1)


def component(name: str, version: str, marker: str, hashes: str, licence: str) -> Component:
    """Return a locked package; `marker`: the only platforms or versions of Python that need it."""
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}=={version}",
        purl=PackageURL("pypi", name=normalized(name), version=version),
        licenses=[LicenseFactory().make_from_string(licence.replace(" or ", " OR ").replace(" and ", " AND "))],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value) for value in re.findall(r"sha256:(\w+)", hashes)],
        properties=[Property(name="marker", value=marker)] if marker else [],
    )


def licence_of(package: Distribution | None) -> str:
    """Return the licence as the package states it."""
    about = package.metadata if package is not None else {}
    return (about.get("License-Expression") or about.get("License") or "unknown").splitlines()[0]


def required(name: str, extras: set[str], parts: Mapping[str, Component]) -> list[str]:
    """Return the locked packages that this one requires here, with the extras that we ask for."""
    package = installed(name)
    lines = [Requirement(line) for line in (package and package.requires) or ()]
    wanted = {
        normalized(line.name)
        for line in lines
        if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    }
    return sorted(wanted & parts.keys())


def installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
