#!/bin/sh
# make_venv.sh "INTERPRETER..." PIP-ARGUMENT...: makes an environment, .venv or the folder in VENV, with the first of these
# interpreters that is Python 3.11 or newer, and installs what the arguments tell pip. Leaves one that works alone.
set -eu
. "$(dirname "$0")/packages.sh"
is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
venv="${VENV:-.venv}"
unfinished="$venv/.unfinished"
interpreters="$1"
shift

# Debian and Ubuntu keep ensurepip, without which an environment has no pip, in a package of its own.
has_ensurepip() {
    "$1" -c 'import ensurepip' 2>/dev/null
}

choose_interpreter() {
    for each in $interpreters; do
        if "$each" -c "$is_new_enough" 2>/dev/null && { [ "$1" = any ] || has_ensurepip "$each"; }; then
            python="$each"
            return 0
        fi
    done
    return 1
}

make_venv() {
    rm -rf "$venv"
    if ! choose_interpreter with_ensurepip; then
        if ! choose_interpreter any; then
            echo "The companion needs Python 3.11 or newer; none of these is there: $interpreters" >&2
            return 1
        fi
        package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')|python3-venv"
        install_packages "$venv" "$package" || true
    fi
    if has_ensurepip "$python"; then
        quietly "Making $venv with $python" "$python" -m venv "$venv"
    elif "$python" -m pip --version >/dev/null 2>&1; then
        quietly "Making $venv with $python and its own pip" "$python" -m venv --without-pip "$venv" &&
            quietly "Installing pip into $venv" "$python" -m pip --python "$venv/bin/python" install pip
    elif command -v virtualenv >/dev/null 2>&1; then
        quietly "Making $venv with virtualenv" virtualenv --quiet --python "$python" "$venv"
    else
        quietly "Making $venv with $python" "$python" -m venv "$venv" || tell_missing "" "$package"
        rm -rf "$venv"
        return 1
    fi
}

# pip does not notice files that are missing in a package, as they are after an interrupted run.
if [ -e "$unfinished" ] || ! "$venv/bin/python" -c "$is_new_enough" 2>/dev/null ||
    ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    make_venv || exit 1
fi
touch "$unfinished"
status=0
quietly "Installing Python's packages into $venv" "$venv/bin/python" -m pip install "$@" || status=$?
rm -f "$unfinished"
exit "$status"
