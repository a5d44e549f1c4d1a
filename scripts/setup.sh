#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up everything the project needs, from Debian's or Ubuntu's packages and
# from PyPI. Safe to run again: what is there is left alone.
# usage: scripts/setup.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:?usage: scripts/setup.sh VENV}

die() { printf 'setup: %s\n' "$*" >&2; exit 2; }

# --- programs: command -> package
declare -A package=(
  [cc]=gcc [mnexec]=mininet [tcpdump]=tcpdump [ethtool]=ethtool [ip]=iproute2 [ping]=iputils-ping
  [unshare]=util-linux
)
missing=()
for command in "${!package[@]}"; do
  PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null || missing+=("${package[$command]}")
done
python=""
for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
  if command -v "$candidate" >/dev/null &&
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || missing+=(python3)
if [ -z "$python" ] || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then missing+=(python3-venv); fi
# Mininet's library is not on PyPI; it comes with the package of the same name.
[ -d /usr/lib/python3/dist-packages/mininet ] || missing+=(mininet)
if [ ${#missing[@]} -gt 0 ]; then
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    printf 'setup: installing %s\n' "${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || die "apt-get update failed; install by hand: ${missing[*]}"
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
      die "apt-get could not install: ${missing[*]}"
    python=${python:-python3}
  elif [ -n "$python" ] && [ "${missing[*]}" = mininet ]; then
    # Everything but the runs in Mininet works without it.
    printf 'setup: without Mininet there is no demo; to have it: sudo apt-get install mininet\n' >&2
  else
    die "install these first: sudo apt-get install ${missing[*]}"
  fi
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "Python 3.11 or newer is needed; $("$python" --version) is here"

# --- Python packages
if [ ! -x "$venv/bin/python" ]; then "$python" -m venv "$venv"; fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]' ||
  die "pip could not install the packages in pyproject.toml"
