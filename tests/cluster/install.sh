#!/bin/sh
# What `make cluster` uses beside the other tests: Galera's library, the scripts by which a node gets its first data, and
# HAProxy. Their packages would start services, so they are unpacked as files into the user's cache, with the libraries that
# not every Debian has. Needs apt-get, but not root once its lists are there.
set -eu
target="${XDG_CACHE_HOME:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache}/companion-tests/cluster"
copying="wsrep_sst_rsync_for_tests"  # a name that no package has: the server looks into /usr/bin first
[ ! -e "$target/usr/bin/$copying" ] || exit 0

packages="galera-4 mariadb-server mariadb-client-core rsync libpopt0 lsof
    haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "The cluster needs files of these Debian packages in $target:" $packages >&2
    exit 1
fi
echo "Unpacking for the cluster:" $packages
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
if [ "$(id -u)" = 0 ]; then
    apt-get update -qq
fi
apt-get download -qq $packages 2>/dev/null
mkdir files
for package in ./*.deb; do
    dpkg-deb --extract "$package" files
done
# started by root, rsync would write as nobody
sed 's/^use chroot = no$/&\nuid = 0\ngid = 0/' files/usr/bin/wsrep_sst_rsync > "files/usr/bin/$copying"
chmod 755 "files/usr/bin/$copying"
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mkdir -p "$target/usr"
for each in lib sbin bin; do  # bin last: its script says that all is there
    mv "files/usr/$each" "$target/usr/"
done
