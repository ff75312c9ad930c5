"""What `openapi-typescript` makes of the document types a registration, an approval and a webhook call."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.support.contract import document
from tests.support.programs import find_npm_package

JS = Path(__file__).parents[2] / "js"


def run(package: str, program: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(find_npm_package(package).parent / ".bin" / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_generated_client_is_typed(tmp_path: Path) -> None:
    """Its own wrong lines, marked as such, are seen as wrong."""
    described, client = tmp_path / "openapi.json", tmp_path / "client.ts"
    described.write_text(json.dumps(document()), "utf-8")
    run("openapi-typescript", "openapi-typescript", str(described), "--output", str(tmp_path / "companion.d.ts"))
    shutil.copy(JS / "client" / "client.ts", client)
    options = ("--noEmit", "--strict", "--target", "es2023", "--module", "esnext", "--moduleResolution", "bundler")
    run("typescript", "tsc", *options, "--lib", "es2023,dom", str(client))


def test_no_field_is_mandatory_for_its_default() -> None:
    """Generators take a field that has a default for one that is always there."""
    assert [
        (name, field)
        for name, schema in document()["components"]["schemas"].items()
        for field, described in schema.get("properties", {}).items()
        if "default" in described
    ] == []
