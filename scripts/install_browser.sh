#!/usr/bin/env bash
# Install Chromium and its driver, in which the viewer's page is tested, if they are missing and we are root.
# Never fails: without them those tests are skipped and say so; `agon view` itself needs none of it.
set -u

if command -v chromedriver > /dev/null && { command -v chromium || command -v google-chrome; } > /dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "Installing chromium, in which the viewer is tested."
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; } < /dev/null > /dev/null
    if command -v chromedriver > /dev/null; then
        exit 0
    fi
fi
echo "chromium is missing, so the viewer's page is not tested; install it with: sudo apt-get install chromium chromium-driver"
