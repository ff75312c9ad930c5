#!/bin/sh
# What `make cluster` uses beside the other tests: Galera's library, the scripts by which a node gets its first data, and
# HAProxy. Their packages would start services, so they are unpacked as files into the user's cache, with the libraries that
# not every Debian has. Needs apt-get, but not root once its lists are there.
set -eu
target="${XDG_CACHE_HOME:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache}/companion-tests/cluster"
copying="wsrep_sst_rsync_for_tests"  # a name that no package has: the server looks into /usr/bin first
[ ! -e "$target/usr/bin/$copying" ] || exit 0

programs="galera-4 mariadb-server mariadb-client-core rsync lsof procps haproxy"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "The cluster needs files of these Debian packages in $target: $programs" >&2
    exit 1
fi
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../packages.sh"
if may_install; then
    update_package_lists
fi
# Their libraries have other names in each Debian.
libraries=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    galera-4 rsync lsof procps haproxy | grep '^lib' | sort -u | while read -r library; do
    dpkg-query --status "$library" >/dev/null 2>&1 || find_package "$library" || true
done)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
quietly "Unpacking for the cluster: $programs" apt-get download -qq $programs $libraries
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
