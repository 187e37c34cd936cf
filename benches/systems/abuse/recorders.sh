# Abuses of the recorder: the command, QEMU, the plugin, the place for results. No guest does anything of its own.
# shellcheck shell=bash

guest=(guest record -o trace.frt)

# A folder of plugins with a wrong one in the place of the right.
plugins() { mkdir plugins && cp "$FARREACH_QEMU_DIR"/* plugins/ && export FARREACH_QEMU_DIR=$PWD/plugins; }

plugin_of_text() { plugins && echo "no ELF" > plugins/farreach-qemu.so; refused 125 "$1" "$farreach" "${guest[@]}" -- true; }
plugin_cut() { plugins && truncate -s 5000 plugins/farreach-qemu.so; refused 125 "$1" "$farreach" "${guest[@]}" -- true; }
plugin_missing() { plugins && rm plugins/farreach-qemu.so; refused 125 "$1" "$farreach" "${guest[@]}" -- true; }
plugin_of_another_version() {
  plugins && mkdir -p c/valgrind && cp -r "$top/capture/qemu" c/ && cp "$top/capture/valgrind/stream.h" c/valgrind/
  sed -i 's/\(#define FR_VERSION *\)[0-9]*/\199/' c/valgrind/stream.h
  make -s -C c/qemu OUT="$PWD/plugins" > /dev/null || die "it does not build"
  refused 125 "$1" "$farreach" "${guest[@]}" -- true
}

# A QEMU of our own in front of the path: $1 is its name, $2 a script.
fake() { mkdir -p fake && printf '#!/bin/sh\n%s\n' "$2" > "fake/$1" && chmod +x "fake/$1" && export PATH=$PWD/fake:$PATH; }
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
  abuse plugin-cut refused plugin_cut 'farreach-qemu.so'
  abuse plugin-missing refused plugin_missing 'make system'
  abuse plugin-version refused plugin_of_another_version 'must come from the same build'
  abuse qemu-old refused emulator 'QEMU 9.2 or newer' 'echo QEMU emulator version 7.2.17'
  abuse qemu-silent refused emulator 'no answer' 'sleep 100'
  abuse qemu-ends refused emulator 'nothing was recorded' '[ "$1" = --version ] && echo QEMU emulator version 10.0.2'
  abuse qemu-fails refused emulator '' '[ "$1" = --version ] && echo QEMU emulator version 10.0.2 && exit 0; exit 3'
  abuse qemu-other refused another_emulator 'aarch64'
  abuse qemu-missing refused refused 127 'no-qemu' "$farreach" record -o trace.frt --system -- /no-qemu/qemu-system-x86_64
  abuse memory-added refused line 'maxmem is not allowed' -m 1G,slots=2,maxmem=4G
  abuse memory-own refused line 'not allowed' -object memory-backend-ram,id=a,size=1G
  abuse memory-hole refused line 'max-ram-below-4g' -M pc,max-ram-below-4g=1G -m 2G
  abuse processors-added refused line 'without maxcpus' -smp 1,maxcpus=4
  abuse processors-many refused line '64 can be recorded' -smp 100
  abuse saved-guest refused line 'not seen' -loadvm a
  abuse 32-bit refused refused 125 'qemu-system' "$farreach" record -o trace.frt --system -- qemu-system-i386
  abuse guest-64M refused option 125 '128M' --memory 64M -- true
  abuse no-command refused option 127 "does not have 'no-such'" -- no-such
  abuse command-folder refused option 127 '/tmp' -- /tmp
  abuse command-not-executable refused option 127 'passwd' -- /etc/passwd
  abuse no-package refused option 125 'no-such-package' --packages no-such-package -- true
  abuse copy-socket refused copy_socket 'socket'
  abuse copy-proc refused option 125 '/proc' --copy /proc -- true
  abuse copy-loop refused copy_loop 'loop'
  abuse copy-nothing refused option 125 '/no/where' --copy /no/where -- true
  abuse unwritable refused option 125 '/no/folder' -o /no/folder/x.frt -- true
  abuse from-0 refused option 2 'from 1' --from 0 -- true
}
copy_socket() { python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'; option 125 "$1" --copy s -- true; }
copy_loop() { ln -s a b; ln -s b a; mkdir l; ln -s . l/l; option 125 "$1" --copy a -- true; }
