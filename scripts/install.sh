#!/bin/sh
# Installs what pawl is built and tested with, by package name, on Debian or Ubuntu. Nothing else is needed at run time than these libraries.
#
#   scripts/install.sh [PACKAGE...]        further packages, e.g. for the quickstart; openmpi-bin libopenmpi-dev for ranks that mpirun starts
set -eu
packages="build-essential cmake pkg-config zlib1g-dev libyaml-dev libpcre2-dev libutf8proc-dev libcurl4-openssl-dev libcmocka-dev $*"
missing=
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
root=
[ "$(id -u)" = 0 ] || root=sudo
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
# shellcheck disable=SC2086
$root apt-get install -y -qq --no-install-recommends $missing >/dev/null
