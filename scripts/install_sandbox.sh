#!/usr/bin/env bash
# Install bubblewrap, the sandbox that programs of code tasks run in, if it is missing and we are root.
# Never fails: without it everything but code tasks works, and those stop with an error that says so.
set -u

if command -v bwrap > /dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "Installing bubblewrap, the sandbox of code tasks."
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap; } < /dev/null > /dev/null
    if command -v bwrap > /dev/null; then
        exit 0
    fi
fi
echo "bubblewrap is missing, so code tasks will not run; install it with: sudo apt-get install bubblewrap"
