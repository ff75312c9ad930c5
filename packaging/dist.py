"""Build of everything that is released, from the committed files alone: `make dist` writes it to `dist/`.

The same commit gives the same files: times are the commit's (SOURCE_DATE_EPOCH), and the tools are those of
requirements-dev.lock. `--work-tree` takes the files as they are instead, to try a change before it is committed.
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def main() -> None:
    """Write the sdist, the wheel, its dependencies as a lock file and an SBOM, the package for Debian and checksums."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("--work-tree", action="store_true", help="take the files as they are, committed or not")
    parser.add_argument("--without-deb", action="store_true", help="build no package for Debian")
    parser.add_argument("deb", nargs="*", help="after --, options of packaging/deb/build.py")
    args = parser.parse_args()
    os.umask(0o022)
    if not args.work_tree and _git("status", "--porcelain"):
        sys.exit("make dist: commit or stash your changes first; only committed files are released")
    os.environ["SOURCE_DATE_EPOCH"] = _git("log", "-1", "--format=%ct")
    shutil.rmtree(args.output, ignore_errors=True)
    args.output.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="companion-dist-") as folder:
        source = Path(folder) / "source"
        _export(source, is_work_tree=args.work_tree)
        manual = [sys.executable, "packaging/manual.py", "share"]
        subprocess.run(manual, cwd=source, check=True, env={**os.environ, "PYTHONPATH": str(source)})
        sdist = _build(source, "build_sdist", args.output)
        _make_reproducible(sdist)
        # built from the sdist, so that the sdist cannot lack anything
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = Path(folder) / sdist.name.removesuffix(".tar.gz")
        wheel = _build(unpacked, "build_wheel", args.output)
        version = wheel.name.split("-")[1]
        shutil.copyfile(unpacked / "requirements.lock", args.output / f"companion-{version}-requirements.txt")
        bill = [sys.executable, unpacked / "packaging" / "sbom.py", version, args.output]
        subprocess.run(bill, check=True, stdout=subprocess.DEVNULL)
        if not args.without_deb:
            builder = unpacked / "packaging" / "deb" / "build.py"
            subprocess.run([sys.executable, builder, wheel, args.output, *args.deb], check=True)
    _write_checksums(args.output)


def _export(target: Path, *, is_work_tree: bool) -> None:
    """Write the files that git knows to a new folder."""
    if is_work_tree:
        for name in _git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
            if (ROOT / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target / name)
        return
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as committed:
        committed.extractall(target, filter="data")


def _build(source: Path, hook: str, output: Path) -> Path:
    command = [sys.executable, "-c", BUILD, hook, str(output.resolve())]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return output / done.stdout.splitlines()[-1]


def _make_reproducible(sdist: Path) -> None:
    """Write the archive again with sorted names, one time and no owners."""
    moment = int(os.environ["SOURCE_DATE_EPOCH"])
    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = moment, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    sdist.write_bytes(gzip.compress(packed.getvalue(), mtime=moment))


def _write_checksums(output: Path) -> None:
    files = sorted(file for file in output.iterdir() if file.is_file())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (output / "SHA256SUMS").write_text("".join(lines), encoding="ascii")
    for file in files:
        print(f"{file.stat().st_size:>12,}  {file.name}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
