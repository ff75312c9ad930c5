#!/bin/sh
# Tries what `make dist` has built in a fresh Debian of this release, as root and with the network: the long form of
# tests/packaging/test_distributions.py. Needs debootstrap. Usage: try_dist.sh DIST FOLDER (a new one, for the Debian)
set -eu
dist=$(realpath "$1")
folder=$2
if [ "${3:-}" != inside ]; then
    exec unshare --mount --propagation private sh "$0" "$dist" "$folder" inside
fi
. /etc/os-release
root=$folder/root
rm -rf "$root"
mkdir -p "$root"
debootstrap --variant=minbase "$VERSION_CODENAME" "$root" >"$folder/debootstrap.log"
# this machine's way to the network
cp -L /etc/resolv.conf "$root/etc/"
mkdir -p "$root/etc/ssl/certs" "$root/dist"
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/dist/certificates.pem"
fi
cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
cp "$dist"/* "$root/dist/"

cat >"$root/dist/try.sh" <<'END'
set -eu
export DEBIAN_FRONTEND=noninteractive
cd /dist
sha256sum --check --quiet SHA256SUMS
useradd --system games-owner
install -d -o games-owner /srv/minecraft/plugins/AuthMe

# From nothing to a daemon that is ready, and back, as docs/install.md says.
try_server() {
    companion --version
    companion docs install >/dev/null
    companion install --game-dir /srv/minecraft --base-url https://play.example.org --port 8123 --no-start >install.log ||
        grep -q "not started" install.log
    setpriv --reuid=games-owner --regid=games-owner --clear-groups companion serve >serve.log 2>&1 &
    until grep "companion ready on" serve.log; do
        kill -0 $!
        sleep 1
    done
    companion users list
    companion backup /var/backups/companion
    companion doctor | tail -1
    kill $!
    wait $!
    companion uninstall --purge --yes --keep-locks  # there is no table of AuthMe here
}

echo "== Debian package"
apt-get update -qq
apt-get install -y -qq --no-install-recommends ./companion_*.deb >apt.log 2>&1
grep "Next: companion install" apt.log
try_server
apt-get purge -y -qq companion >>apt.log 2>&1
ls /opt/companion /etc/companion /var/lib/companion 2>/dev/null && exit 1

echo "== wheel"
apt-get install -y -qq --no-install-recommends python3-venv >>apt.log 2>&1
if [ -f certificates.pem ]; then
    cp certificates.pem /etc/ssl/certs/ca-certificates.crt  # which apt has replaced
fi
python3 -m venv /opt/companion/.venv
/opt/companion/.venv/bin/pip install --quiet --require-hashes --requirement companion-*-requirements.txt
/opt/companion/.venv/bin/pip install --quiet --no-deps companion-*.whl
ln -s /opt/companion/.venv/bin/companion /usr/local/bin/
try_server
echo "== both work"
END
chroot "$root" sh /dist/try.sh
