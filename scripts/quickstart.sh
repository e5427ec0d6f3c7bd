#!/usr/bin/env bash
# The main job: set up, run scripts/scenarios/quickstart.toml, tell where the plots are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
out=runs/quickstart
[ ! -e "$out" ] || out=runs/quickstart-$(date +%Y%m%d-%H%M%S)
exec .venv/bin/meshfl run scripts/scenarios/quickstart.toml --out "$out"
