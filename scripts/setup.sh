#!/usr/bin/env bash
# Makes .venv beside this folder and installs meshfl into it, with the versions of constraints.txt.
# Quick when nothing has changed. MESHFL_PYTHON names another python3 (3.11 or newer).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${MESHFL_PYTHON:-python3}
missing() { echo "meshfl: missing: $1; on Debian or Ubuntu: apt-get install $2" >&2; exit 2; }
command -v "$python" >/dev/null || missing "python3" "python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "Python 3.11 or newer ($("$python" --version 2>&1) found)" "python3.11 python3.11-venv"
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing "python3-venv" "python3-venv"
command -v c++ >/dev/null || missing "a C++ compiler" "g++"

stamp=$("$python" --version; cat setup.cfg pyproject.toml constraints.txt)
if [ "$(cat .venv/meshfl-installed 2>/dev/null || true)" != "$stamp" ]; then
    echo "meshfl: installing into .venv (some minutes the first time)"
    "$python" -m venv --clear .venv
    .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,ns3]'
    printf '%s\n' "$stamp" > .venv/meshfl-installed
fi
