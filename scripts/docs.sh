#!/usr/bin/env bash
# Build the documentation into build/docs, notebooks and all; a broken link or a page that nothing
# leads to is an error. Open build/docs/index.html, no server is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
exec .venv/bin/python -m sphinx -W --keep-going -q -d build/doctrees docs build/docs "$@"
