#!/usr/bin/env bash
# Runs a command in a root of its own: root.sh HOUSE PYTHON COMMAND ARG...
# HOUSE is a folder with wheels and tests, seen there as /house; PYTHON is the interpreter. Beside them there is only
# what a system has: /usr, /etc, /proc, /dev, an empty /tmp. No source tree, no Rust, no Valgrind, no home.
# To be run in mount and process namespaces of its own (unshare), which end all of it. Exit status 77: it cannot be had.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "root.sh: root is needed" >&2; exit 77; }
house=$1 python=$2
shift 2
prefix=$("$python" -c 'import sys; print(sys.base_prefix)')

root=$(mktemp -d)
mount -t tmpfs tmpfs "$root"
mkdir -p "$root"/{usr,etc,proc,dev,tmp,root,run,sys,house}
chmod 1777 "$root/tmp"
# A folder, or the link that stands for it.
show() {
  if [ -L "$1" ]; then cp -P "$1" "$root$1"; else
    mkdir -p "$root$1" && mount --bind "$1" "$root$1" && mount -o remount,bind,ro "$root$1"
  fi
}
for folder in /usr /etc /bin /sbin /lib /lib64; do [ -e "$folder" ] && show "$folder"; done
case $prefix in /usr) ;; *) show "$prefix" ;; esac
# The recorder is whole without Valgrind.
for folder in /usr/{lib,libexec,include}/valgrind; do
  [ ! -d "$folder" ] || mount -t tmpfs tmpfs "$root$folder"
done
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount --bind "$house" "$root/house"
exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 \
  chroot "$root" "$@"
