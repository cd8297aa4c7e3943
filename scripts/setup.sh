#!/usr/bin/env bash
# Make this checkout ready to run: a virtual environment in .venv with the pinned packages, and a
# Java 17 or later for Spark, ZooKeeper and the conformance judge. Does nothing when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "setup: $*" >&2; }
die() { say "$*"; exit 1; }
can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_updated=no
apt_install() {
    if [ "$apt_updated" = no ]; then apt-get update -qq >&2; apt_updated=yes; fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3 python; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
            2>/dev/null; then
            command -v "$candidate"; return
        fi
    done
    return 1
}

java_major() { # prints the major version of the java binary $1, or nothing
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}
have_java() {
    local candidate major
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" \
        /usr/lib/jvm/*/bin/java; do
        [ -n "$candidate" ] && [ -x "$candidate" ] || continue
        major=$(java_major "$candidate")
        [ -n "$major" ] && [ "$major" -ge 17 ] && return 0
    done
    return 1
}

python=$(find_python || true)
if [ -z "$python" ] && can_install; then
    say "no Python 3.11 to 3.13 found; installing python3"
    apt_install python3 python3-venv
    python=$(find_python || true)
fi
[ -n "$python" ] || die "Python 3.11, 3.12 or 3.13 is needed and none was found: install one, or name it with PYTHON=/path/to/python3."

if ! have_java; then
    if can_install; then
        say "no Java 17 or later found; installing Debian's headless runtime"
        apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
    fi
    have_java || die "Java 17 or later is needed (Spark and ZooKeeper run on it) and none was found: install a JRE, e.g. 'apt-get install openjdk-17-jre-headless', or point JAVA_HOME at one."
fi

wanted=$(cat pyproject.toml constraints.txt | "$python" -c 'import hashlib,sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
if [ ! -x .venv/bin/python ] || [ "$(cat .venv/.ready 2>/dev/null || true)" != "$wanted" ]; then
    say "making the virtual environment in .venv (a few minutes the first time)"
    if ! "$python" -m venv .venv 2>/dev/null; then
        rm -rf .venv
        can_install && apt_install python3-venv
        "$python" -m venv .venv || die "this Python has no 'venv' module: install it, e.g. 'apt-get install python3-venv'."
    fi
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
    printf '%s' "$wanted" > .venv/.ready
fi
