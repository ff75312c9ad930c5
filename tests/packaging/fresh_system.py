"""Root file systems of fresh Debians and Ubuntus, made by debootstrap, with this machine's way to the network."""

import os
import shutil
import subprocess
from pathlib import Path

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_THEIRS = "etc/ssl/certificates-of-the-host.pem"  # a place that no package of theirs writes to
_DEBIAN = ("bookworm", "trixie", "forky", "sid")
_UBUNTU_KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
_HAS_UBUNTU_KEYRING = "trixie"  # Debian 12 has no such package

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
    **{name: value for name, value in os.environ.items() if name in ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT")},
}
"""Of the commands inside: what this machine needs to reach the archives of Debian, of Python and of npm."""
if _CERTIFICATES.exists():
    ENVIRONMENT |= {"PIP_CERT": f"/{_THEIRS}", "NODE_EXTRA_CA_CERTS": f"/{_THEIRS}"}


def make_system(release: str, root: Path, *options: str) -> None:
    """Make the system of this code name in a new folder; its log is beside. Raises CalledProcessError."""
    is_debian = release in _DEBIAN
    script = "sid" if is_debian else "gutsy"  # debootstrap's own names of the two kinds; it may not know a newer name
    if not is_debian:
        options = (*options, "--components=main,universe", f"--keyring={_find_ubuntu_keyring(root.parent)}")
    with root.with_suffix(".debootstrap.log").open("wb") as log:
        command = ["debootstrap", "--variant=minbase", *options, release, str(root), "", script]
        subprocess.run(command, stdout=log, stderr=log, check=True)
    if not is_debian:  # as its own installer does
        sources = root / "etc/apt/sources.list"
        sources.write_text(f"{sources.read_text()}{sources.read_text().replace(release, f'{release}-updates')}")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    shutil.copytree("/etc/apt/apt.conf.d", root / "etc/apt/apt.conf.d", dirs_exist_ok=True)
    if _CERTIFICATES.exists():
        (root / _THEIRS).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_CERTIFICATES, root / _THEIRS)


def _find_ubuntu_keyring(folder: Path) -> Path:
    """Return the file with the keys of Ubuntu's archive, which comes from Debian's if it is not installed."""
    installed = Path("/", _UBUNTU_KEYRING)
    if installed.exists():
        return installed
    unpacked = folder / "ubuntu-keyring"
    if not unpacked.exists():
        root = folder / "for-the-keyring"
        shutil.rmtree(root, ignore_errors=True)
        make_system(_HAS_UBUNTU_KEYRING, root)
        script = (
            "cd /root; apt-get update -qq; apt-get download -qq ubuntu-keyring; dpkg-deb -x ubuntu-keyring_* unpacked"
        )
        subprocess.run(["chroot", root, "sh", "-euc", script], env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)
        (root / "root/unpacked").rename(unpacked)
        shutil.rmtree(root)
    return unpacked / _UBUNTU_KEYRING
