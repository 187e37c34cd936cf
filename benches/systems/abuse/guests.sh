# Abuses of guests: what kernels and programs do to themselves.
# shellcheck shell=bash

both() { # NAME EXPECTED FUNCTION ARGUMENTS...: on both architectures, which is the first argument
  abuse "x86-$1" "$2" "$3" x86_64 "${@:4}"
  abuse "arm-$1" "$2" "$3" aarch64 "${@:4}"
}

work() { works 0 "$1" "${@:3}" -- /abuse/work "$2"; }
script() { works "$2" "$1" "${@:4}" -- sh -c "$3"; }

guest_abuses() {
  local processors case
  for case in split collapse moves signals code filter traced vforks bomb userfault; do
    both "$case" right work "$case"
  done
  for processors in 2 4; do
    both "shootdowns-$processors" right work shootdowns --processors $processors
    both "vforks-$processors" right work vforks --processors $processors
  done
  both hugetlb right script 0 'echo 16 > /proc/sys/vm/nr_hugepages; exec /abuse/work hugetlb'
}
