#!/usr/bin/env bash
# The main job: set up, run scripts/scenarios/quickstart.toml, make a page of it for a browser and tell
# in the last line where that is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
out=runs/quickstart
[ ! -e "$out" ] || out=runs/quickstart-$(date +%Y%m%d-%H%M%S)
.venv/bin/meshfl run scripts/scenarios/quickstart.toml --out "$out"
exec .venv/bin/meshfl report "$out" -o "$out/report.html"
