# Abuses of guests: what kernels and programs do to themselves.
# shellcheck shell=bash

both() { # NAME EXPECTED FUNCTION ARGUMENTS...: on both architectures, which is the first argument
  abuse "x86-$1" "$2" "$3" x86_64 "${@:4}"
  abuse "arm-$1" "$2" "$3" aarch64 "${@:4}"
}

work() { works 0 "$1" "${@:3}" -- /abuse/work "$2"; }
script() { works "$2" "$1" "${@:4}" -- sh -c "$3"; }


# A guest on a command line of its own, which stays when it reboots. It begins at a mark, and ends when its console has
# a line the second time. INIT is its script, in which $b is busybox.
line_of() { # ARCH
  if [ "$1" = x86_64 ]; then
    echo "qemu-system-x86_64 -M pc -cpu max,la57=off"
  else
    echo "qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on"
  fi
}
archive() {
  local busybox=$HOME/.cache/farreach/guests/tools/x86_64/busybox-static
  (cd "$1" && find . | "$busybox" cpio -o -H newc 2> /dev/null)
}
again() { # ARCH LINE TIMES INIT [OPTIONS OF QEMU...]
  local arch=$1 text=$2 times=$3 cache=$HOME/.cache/farreach/guests console=ttyS0 got words
  [ "$arch" = x86_64 ] || console=ttyAMA0
  mkdir -p initrd/proc initrd/sys initrd/dev && cp -r "$(root "$arch")/abuse" initrd/
  cp "$cache/tools/$arch/busybox-static" initrd/busybox && cp "$FARREACH_QEMU_DIR/farreach-mark-$arch" initrd/mark
  cp "$cache/kernels/$arch/linux-image-cloud-$(debian "$arch")"/* initrd/kernel
  printf '#!/busybox sh\nb=/busybox; $b mount -t proc p /proc\n%s\n' "$4" > initrd/init
  chmod +x initrd/init
  archive initrd > initrd.cpio
  cp initrd/kernel vmlinuz
  # shellcheck disable=SC2046
  timeout -k 5 "$patience" "$farreach" record -o trace.frt --system --from mark --check "$check" -- $(line_of "$arch") \
    -m 1G -display none -serial stdio -monitor none -kernel vmlinuz -initrd initrd.cpio "${@:5}" \
    -append "console=$console quiet panic=-1 no_timer_check rdinit=/init" > console 2> said < /dev/null &
  until [ "$(grep -c "$text" console)" -ge "$times" ] || ! kill -0 $! 2> /dev/null; do sleep 0.5; done
  sleep 1
  pkill -TERM -f '^/usr/bin/qemu-system|^qemu-system'
  wait $!
  got=$?
  [ $got = 0 ] || die "status $got: $(tail -n 1 said) $(tail -n 1 console)"
  [ "$(grep -c "$text" console)" -ge "$times" ] || die "it did not say '$text' $times times: $(tail -n 1 console)"
  words=$(judge trace.frt) || die "$words"
  echo "right: $words"
}
reboot() { check=pages; judged=500M; again "$1" booted 2 '/mark begin; echo booted; $b reboot -f' "${@:2}"; }
kexec() {
  check=pages; judged=500M
  mkdir -p initrd next/proc && cp "$HOME/.cache/farreach/guests/tools/$1/busybox-static" next/busybox
  printf '#!/busybox sh\necho booted by kexec\n/busybox sleep 1000\n' > next/init && chmod +x next/init
  archive next > initrd/again
  again "$1" 'booted by kexec' 1 '/mark begin; /abuse/work kexec' "${@:2}"
}

# What QEMU is told by its monitor, once the console has a line.
told() { # LINE COMMAND
  (for _ in $(seq 300); do ! grep -q "$1" console || break; sleep 0.3; done
   python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect("monitor")
s.sendall(sys.argv[1].encode() + b"\n")
time.sleep(2)' "$2") > /dev/null 2>&1 &
}
ballooned() {
  check=pages; judged=500M
  told 'may shrink' 'balloon 400'; told 'may grow' 'balloon 1024'
  again "$1" 'all done' 1 '/mark begin; cd /abuse; $b mount -t sysfs s /sys
    for m in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_balloon; do
      [ ! -e $m.ko ] || $b insmod $m.ko; done
    total() { $b sed -n "s/MemTotal: *\([0-9]*\) .*/\1/p" /proc/meminfo; }
    echo may shrink; until [ $(total) -lt 500000 ]; do $b sleep 0.1; done; ./work split; ./work moves
    echo may grow; until [ $(total) -gt 900000 ]; do $b sleep 0.1; done; ./work collapse
    echo all done; $b sleep 1000' \
    -device virtio-balloon-pci -monitor unix:monitor,server=on,wait=off
}
suspended() {
  check=pages; judged=500M
  told 'going to sleep' 'system_wakeup'
  again x86_64 'all done' 1 '/mark begin; $b mount -t sysfs s /sys; /abuse/work split; echo going to sleep
    echo mem > /sys/power/state && /abuse/work split && echo all done; $b sleep 1000' \
    -monitor unix:monitor,server=on,wait=off
}

five_levels() {
  again x86_64 'all done' 1 '/mark begin; /abuse/work split; /abuse/work moves; echo all done; $b sleep 1000' -cpu max
}

guest_abuses() {
  local processors case
  both hotplug right script 0 'for i in 1 2 3; do echo 0 > /sys/devices/system/cpu/cpu1/online; ls /proc > /dev/null
    echo 1 > /sys/devices/system/cpu/cpu1/online; ls /proc > /dev/null; done; nproc | grep -q 2' --processors 2
  both reboot right reboot
  both reboot-2 right reboot -smp 2
  abuse x86-kexec right kexec x86_64 # Debian's kernel for AArch64 has no kexec_file_load
  both panic '125, result so far' script 125 'echo c > /proc/sysrq-trigger'
  both reboot-f '125, result so far' script 125 '/farreach/busybox reboot -f'
  both poweroff-f '125, result so far' script 125 '/farreach/busybox poweroff -f'
  both modules right script 0 'cd /abuse
    for i in 1 2 3; do for m in dummy zsmalloc zram; do insmod $m.ko || exit 1; done
    ip link add d0 type dummy; ip link del d0; rmmod zram zsmalloc dummy || exit 2; done'
  both swap right script 0 'cd /abuse; for m in lzo_compress lzo_decompress lzo-rle zsmalloc zram; do
    [ ! -e $m.ko ] || insmod $m.ko; done; echo 64M > /sys/block/zram0/disksize && mkswap /dev/zram0 > /dev/null &&
    swapon /dev/zram0 && ./work pageout'
  both marks right work marks
  for processors in 2 4; do
    both "shootdowns-$processors" right work shootdowns --processors $processors
    both "vforks-$processors" right work vforks --processors $processors
    both "marks-$processors" right work marks --processors $processors
  done
  for case in split collapse moves signals code filter traced vforks bomb userfault compact merge; do
    both "$case" right work "$case"
  done
  both probes right script 0 'mount -t tracefs t /sys/kernel/tracing && cd /sys/kernel/tracing || exit 1
    for i in 1 2 3; do echo "p vfs_read" > kprobe_events && echo 1 > events/kprobes/enable || exit 2
    cat /proc/stat > /dev/null; grep -q vfs_read trace || exit 3; echo 0 > events/kprobes/enable; echo > kprobe_events
    done; grep -qw function available_tracers || exit 0
    echo function > current_tracer && cat /proc/stat > /dev/null && grep -q "<-" trace || exit 4
    echo nop > current_tracer'
  both balloon right ballooned
  abuse x86-suspend right suspended
  abuse x86-numa right work x86_64 compact --append numa=fake=4
  both eats right work eats --memory 256M
  both hugetlb right script 0 'echo 16 > /proc/sys/vm/nr_hugepages; exec /abuse/work hugetlb'
  both nokaslr right work split --append nokaslr
  abuse x86-pti right work x86_64 bomb --append pti=on
  abuse x86-pti-2 right work x86_64 shootdowns --append pti=on --processors 2
  both kpti right work vforks --append kpti=on
  abuse x86-la57 right five_levels
  abuse x86-5G right work x86_64 split --memory 5G
  abuse x86-3G right work x86_64 split --memory 3G
  abuse arm-5G right work aarch64 split --memory 5G
}
