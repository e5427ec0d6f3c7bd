#!/usr/bin/env bash
# Set up and run the tests, all but the slow ones; further arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
bash scripts/browser.sh
exec .venv/bin/python -m pytest -n 2 -m "not slow" "$@"
