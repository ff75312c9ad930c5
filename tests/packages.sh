# How every script here gets packages of the system: as root, by passwordless sudo, or not at all. To be sourced.
# Only apt-get is known; elsewhere the names that are printed are those to look for.
#
#   quietly WHAT COMMAND...         runs it; of its output only the last lines are shown, and only if it fails
#   install_packages WHY PACKAGE... installs what it may; "a|b" is the first that the archive has
#                                   (not_installed: those that are still missing)
#   find_package "a|b"              prints the name that the archive has
#   tell_missing WHAT PACKAGE...    says what is missing, and the line to type

as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo -n"
    sudo -n true 2>/dev/null || as_root="none"
fi

quietly() {
    echo "$1"
    shift
    log=$(mktemp "${TMPDIR:-/tmp}/companion-set-up.XXXXXX")
    status=0
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" = 0 ]; then
        rm -f "$log"
        return 0
    fi
    tail -n 20 "$log" >&2
    echo "This failed (exit status $status): $*" >&2
    echo "All that it said is in $log" >&2
    return "$status"
}

may_install() {
    command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ]
}

# A new Ubuntu updates itself after its first start, and holds the lock meanwhile.
apt_as_root() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}

update_package_lists() {
    [ -z "${lists_are_new:-}" ] || return 0
    quietly "Updating the lists of packages" apt_as_root update || echo "Going on with the lists that are there" >&2
    lists_are_new=yes
}

find_package() {
    for name in $(echo "$1" | tr '|' ' '); do
        if LC_ALL=C apt-cache policy "$name" 2>/dev/null | grep -q '^  Candidate: [^(]'; then
            echo "$name"
            return 0
        fi
    done
    return 1
}

# Installed packages are known without any list, as "now".
has_package_lists() {
    LC_ALL=C apt-cache policy 2>/dev/null | grep ' release ' | grep -q -v 'a=now'
}

install_packages() {
    why="$1"
    shift
    not_installed="$*"
    may_install || return 1
    update_package_lists
    found=""
    not_installed=""
    for each in "$@"; do
        if name=$(find_package "$each"); then
            found="$found $name"
        else
            not_installed="$not_installed $each"
        fi
    done
    [ -z "$found" ] || quietly "Installing for $why:$found" apt_as_root install -y --no-install-recommends $found ||
        for name in $found; do  # one that cannot be installed keeps no other from it
            quietly "Installing $name alone" apt_as_root install -y --no-install-recommends "$name" ||
                not_installed="$not_installed $name"
        done
    [ -z "$not_installed" ]
}

tell_missing() {
    what="$1"
    shift
    missing=""
    unknown=""
    for each in "$@"; do
        if name=$(find_package "$each"); then
            missing="$missing $name"
        elif has_package_lists; then
            unknown="$unknown ${each%%|*}"
        else
            missing="$missing ${each%%|*}"
        fi
    done
    echo "##########################################################################" >&2
    echo "## MISSING${what:+, $what}:$missing$unknown" >&2
    [ -z "$missing" ] || echo "## Type, as root: apt-get update && apt-get install --no-install-recommends$missing" >&2
    [ -z "$unknown" ] || echo "## This system's archive has no$unknown" >&2
    echo "##########################################################################" >&2
}
