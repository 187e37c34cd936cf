# Abuses of the recorder: the command, QEMU, the plugin, the place for results. No guest does anything of its own.
# shellcheck shell=bash

guest=(guest record -o trace.frt)
without_end='QEMU ended without an end of its stream'

# A folder of plugins with a wrong one in the place of the right.
plugins() { mkdir plugins && cp "$FARREACH_QEMU_DIR"/* plugins/ && export FARREACH_QEMU_DIR=$PWD/plugins; }

plugin_of_text() { plugins && echo "no ELF" > plugins/farreach-qemu.so; option 125 "$1" -- true; }
plugin_cut() { plugins && truncate -s 5000 plugins/farreach-qemu.so; option 125 "$1" -- true; }
plugin_missing() { plugins && rm plugins/farreach-qemu.so; option 125 "$1" -- true; }
plugin_of_another_version() {
  plugins && mkdir -p c/valgrind && cp -r "$top/capture/qemu" c/ && cp "$top"/capture/valgrind/*.h c/valgrind/
  sed -i 's/\(#define FR_VERSION *\)[0-9]*/\199/' c/valgrind/stream.h
  make -s -C c/qemu OUT="$PWD/plugins" > /dev/null || die "it does not build"
  option 125 "$1" -- true
}

# A QEMU of our own in front of the path: $1 is its name, $2 a script.
fake() {
  mkdir -p fake && printf '#!/bin/sh\n%s\n' "$2" > "fake/$1" && chmod +x "fake/$1" && export PATH=$PWD/fake:$PATH
}
emulator() { # TEXT SCRIPT: of guest, and of run --system
  fake qemu-system-x86_64 "$2"
  refused 125 "$1" "$farreach" record -o trace.frt --system -- "$PWD/fake/qemu-system-x86_64" -m 1G
}
another_emulator() { # what is called a QEMU of x86-64 is one of AArch64
  mkdir fake && ln -s "$(command -v qemu-system-aarch64)" fake/qemu-system-x86_64
  refused 125 "$1" "$farreach" record -o trace.frt --system -- "$PWD/fake/qemu-system-x86_64" -M virt -display none
}
line() { refused 125 "$1" "$farreach" record -o trace.frt --system -- qemu-system-x86_64 -display none "${@:2}"; }
option() { refused "$1" "$2" "$farreach" "${guest[@]}" "${@:3}"; }

recorder_abuses() {
  abuse plugin-of-text refused plugin_of_text 'farreach-qemu.so'
  abuse plugin-cut refused plugin_cut "$without_end"
  abuse plugin-missing refused plugin_missing 'make system'
  abuse plugin-version refused plugin_of_another_version 'must come from the same build'
  abuse qemu-old refused emulator 'QEMU 9.2 or newer' 'echo QEMU emulator version 7.2.17'
  abuse qemu-silent refused emulator 'no answer' 'sleep 100'
  abuse qemu-ends refused emulator "$without_end" '[ "$1" = --version ] && echo QEMU emulator version 10.0.2'
  abuse qemu-fails refused emulator "$without_end" \
    '[ "$1" = --version ] && echo QEMU emulator version 10.0.2 && exit 0; exit 3'
  abuse qemu-other refused another_emulator '-cpu max'
  abuse qemu-missing refused refused 127 'no-qemu' \
    "$farreach" record -o trace.frt --system -- /no-qemu/qemu-system-x86_64
  abuse memory-added refused line 'maxmem is not allowed' -m 1G,slots=2,maxmem=4G
  abuse memory-own refused line 'not allowed' -object memory-backend-ram,id=a,size=1G
  abuse memory-hole refused line 'max-ram-below-4g' -M pc,max-ram-below-4g=1G -m 2G
  abuse processors-added refused line 'without maxcpus' -smp 1,maxcpus=4
  abuse processors-many refused line '64 can be recorded' -smp 100
  abuse saved-guest refused line 'not seen' -loadvm a
  abuse 32-bit refused refused 125 'qemu-system' "$farreach" record -o trace.frt --system -- qemu-system-i386
  abuse guest-64M refused option 125 '128M' --memory 64M -- true
  abuse no-command refused option 127 "does not have 'no-such'" -- no-such
  abuse command-folder refused option 127 'no program' -- /tmp
  abuse command-not-executable refused option 127 'no program' -- /etc/passwd
  abuse no-package refused option 125 'no-such-package' --packages no-such-package -- true
  abuse copy-proc refused option 125 '/proc' --copy /proc -- true
  abuse copy-loop refused copy_loop 'loop'
  abuse copy-nothing refused option 125 '/no/where' --copy /no/where -- true
  abuse no-loader refused no_loader '/no/such/ld.so: No such file'
  abuse kernel-cut refused kernel_cut 'QEMU ended without an end of its stream'
  abuse unwritable refused refused 125 '/no/folder' "$farreach" guest record -o /no/folder/x.frt -- true
  abuse from-0 refused option 125 'from 1' --from 0 -- true
}
copy_socket() {
  python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'
  sound 0 x86_64 --copy "$PWD/s" -- test -S s
}
no_loader() {
  echo 'int main(void) { return 0; }' | gcc -x c -Wl,--dynamic-linker=/no/such/ld.so -o program - || die "gcc"
  option 125 "$1" -- "$PWD/program"
}
kernel_cut() {
  local kernels=farreach/guests/kernels
  mkdir -p cache/farreach && cp -r "$HOME/.cache/farreach/guests" cache/farreach/ && chmod 700 cache/farreach/guests
  truncate -s 5000 cache/$kernels/x86_64/*/*
  XDG_CACHE_HOME=$PWD/cache option 125 "$1" -- true
}
copy_loop() { ln -s a b; ln -s b a; mkdir l; ln -s . l/l; option 125 "$1" --copy a -- true; }

# ---- Signals, places for results that are too small ----

# A guest that runs on and on, begun in the background; $! is farreach. It is in its command when this returns.
endless() {
  # A shell lets its background ignore interrupts, and others before it may have ignored more.
  env --default-signal "$farreach" guest record -o trace.frt "$@" -- sh -c 'echo ready; while :; do :; done' \
    > console 2> said < /dev/null &
  until grep -q ready console; do kill -0 $! || die "it does not begin: $(tail -n 1 said)"; sleep 0.2; done
  sleep 0.5
}
emulators() { pgrep -f '^/usr/bin/qemu-system'; }

# ended STATUS: farreach ends with it, soon, and what was seen is a right trace.
ended() {
  local from=$SECONDS got words
  wait $!
  got=$?
  [ $got = "$1" ] || die "status $got: $(tail -n 1 said)"
  [ $((SECONDS - from)) -lt 15 ] || die "it took $((SECONDS - from)) s"
  judged=50M
  words=$(judge trace.frt) || die "$words"
  echo "status $got, right: $words; $(tail -n 1 said)"
}

# signals STATUS SIGNAL: farreach gets it, and what was seen is kept.
signals() {
  endless
  kill "-$2" $!
  ended "$1"
}
killed() { # what stays behind is looked for by all abuses
  endless
  kill -KILL $!
  wait $!
  local got=$?
  [ $got = 137 ] || die "status $got"
  sleep 2
  echo ended
}
emulator_killed() {
  endless
  kill -KILL "$(emulators)"
  ended 125
}
stopped() { # each for two seconds
  endless
  for one in $! "$(emulators)"; do kill -STOP "$one"; sleep 2; kill -CONT "$one"; sleep 0.5; done
  kill -INT $!
  ended 130
}
disk_full() {
  mkdir small && mount -t tmpfs -o size=300k tmpfs small
  timeout -k 5 100 "$farreach" guest record -o small/trace.frt -- sh -c 'find / -xdev | sort > /tmp/x' \
    > console 2> said < /dev/null
  local got=$?
  [ $got = 125 ] || die "status $got: $(tail -n 1 said)"
  grep -qi 'no space' said || die "no message: $(tail -n 1 said)"
  echo "refused: $(tail -n 1 said)"
}
shared_memory() { # SIZE: of /dev/shm, below which it is not used
  mount -t tmpfs -o "size=$1" tmpfs /dev/shm
  sound 0 x86_64 -- true
}
both_small() {
  mount -t tmpfs -o size=2M tmpfs /dev/shm; mount -t tmpfs -o size=2M tmpfs tmp
  refused 125 "$1" "$farreach" guest record -o trace.frt -- true
}
closed_output() {
  (timeout 100 "$farreach" guest run -m t94/single -- sh -c 'for i in $(seq 2000); do echo line $i; done' \
    2> said < /dev/null; echo $? > status) | head -n 1 > console
  echo "status $(cat status): $(tail -n 1 said)"
  [ "$(cat status)" != 124 ]
}
arguments() {
  # shellcheck disable=SC2046
  sound 0 x86_64 -- sh -c '[ $# = 10000 ] && [ "$1" = 1 ] && [ "${10000}" = 10000 ]' sh $(seq 10000)
}
words_of_all_kinds() {
  mkdir "a 'b' \"c\" \$d" && cd "a 'b' \"c\" \$d" || die "no folder"
  sound 0 x86_64 -- sh -c '[ "$1" = "x
y" ] && [ "$2" = "it'"'"'s \"\$HOME\" \\ *" ] && [ "${PWD##*/}" = "$3" ]' sh $'x\ny' "it's \"\$HOME\" \\ *" "${PWD##*/}"
}
two_at_once() {
  export XDG_CACHE_HOME=$PWD/cache
  "$farreach" guest record -o a.frt -- true > /dev/null 2> a.said < /dev/null &
  sleep 0.3
  "$farreach" guest record -o b.frt -- true > /dev/null 2> b.said < /dev/null || die "$(tail -n 1 b.said)"
  wait $! || die "$(tail -n 1 a.said)"
  grep -q waiting b.said || die "it did not wait"
  "$farreach" trace check a.frt > /dev/null && "$farreach" trace check b.frt > /dev/null || die "trace check"
  echo "right, one after the other"
}
offline() { XDG_CACHE_HOME=$PWD/cache refused 125 "$1" unshare --net "$farreach" "${guest[@]}" -- true; }
never_begins() { refused 125 'nothing was recorded' "$farreach" guest record -o trace.frt --from 100G -- true; }
limited() {
  timeout -k 5 100 "$farreach" guest record -o trace.frt --limit 1M -- sh -c 'while :; do :; done' \
    > console 2> said < /dev/null || die "status $?: $(tail -n 1 said)"
  judge trace.frt
}
copy_pipe() { mkfifo p; sound 0 x86_64 --copy "$PWD/p" -- test -p p; }

recorder_guests() {
  local signal
  abuse sigkill-farreach 'all ends' killed
  abuse sigkill-qemu '125, result so far' emulator_killed
  abuse sigint '130, result so far' signals 130 INT
  abuse sigterm '143, result so far' signals 143 TERM
  abuse sighup '129, result so far' signals 129 HUP
  abuse sigstop '130, result so far' stopped
  abuse disk-full refused disk_full
  abuse shm-1M right shared_memory 1M
  abuse shm-and-tmp-2M refused both_small 'farreach'
  abuse closed-output 'it ends' closed_output
  abuse arguments-10000 right arguments
  abuse words right words_of_all_kinds
  abuse copy-socket right copy_socket
  abuse copy-pipe right copy_pipe
  abuse two-at-once right two_at_once
  abuse offline refused offline 'is there a network'
  abuse from-behind-end refused never_begins
  abuse limit right limited
}
