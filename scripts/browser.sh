#!/usr/bin/env bash
# Gets Chromium for the tests of the report's page, where that takes no questions: as root, from
# Debian's packages. Without it those tests are skipped and say so; nothing here is ever fatal.
set -uo pipefail
have() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
[ -n "${MESHFL_CHROMIUM:-}" ] || have >/dev/null && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0

apt() {
    DEBIAN_FRONTEND=noninteractive timeout "$1" apt-get -qq -o Acquire::Retries=0 \
        -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=60 \
        "${@:2}" >/dev/null 2>&1
}
get() { apt 600 install -y --no-install-recommends chromium; }
echo "meshfl: getting chromium for the tests of the report's page"
get || { apt 120 update && get; }
have >/dev/null || echo "meshfl: no chromium to be had; the tests that need it are skipped"
exit 0
