#!/usr/bin/env bash
# Recording a program and simulating its trace, as ratios to running it live with one machine.
#
#   benches/stored.sh [ROUNDS [COMMAND...]]     2 rounds of cc1 -O2 on fixtures/programs/demo.c by default
#
# All take turns; medians of the wall time are printed, and the sizes of the traces. Run it on an idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-2}
shift || true
farreach=$PWD/target/release/farreach
[ -x "$farreach" ] || { echo "stored.sh: $farreach is missing; run make first" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
program=("$@")
((${#program[@]})) || program=("$(gcc -print-prog-name=cc1)" -quiet -O2 fixtures/programs/demo.c -o /dev/null)
one=(-m t94/single)

# measure NAME COMMAND...: notes its wall time.
measure() {
  local name=$1 TIMEFORMAT=%R
  shift
  { time "$@" >"$dir/out" 2>"$dir/err"; } 2>>"$dir/$name.times" ||
    { cat "$dir/err" >&2; echo "stored.sh: failed: $*" >&2; exit 1; }
}
median() {
  sort -g "$dir/$1.times" |
    awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

for ((round = 1; round <= rounds; round++)); do
  echo "round $round of $rounds, load $(cut -d' ' -f1 /proc/loadavg)" >&2
  rm -f "$dir"/*.frt
  measure run "$farreach" run "${one[@]}" -o "$dir/result" -- "${program[@]}"
  measure five "$farreach" run -o "$dir/result" -- "${program[@]}"
  measure record "$farreach" record -o "$dir/all.frt" -- "${program[@]}"
  measure record-pages "$farreach" record --pages-only -o "$dir/pages.frt" -- "${program[@]}"
  for trace in all pages; do
    measure "check-$trace" "$farreach" trace check "$dir/$trace.frt"
    measure "sim-$trace" "$farreach" sim "${one[@]}" "$dir/$trace.frt"
    measure "sim-one-thread-$trace" "$farreach" sim --threads 1 "${one[@]}" "$dir/$trace.frt"
    measure "five-one-thread-$trace" "$farreach" sim --threads 1 "$dir/$trace.frt"
  done
done
run=$(median run)
echo "${program[0]}: $rounds rounds, $(nproc) processors; times in multiples of run with one machine"
for name in run five record record-pages {check,sim,sim-one-thread,five-one-thread}-{all,pages}; do
  awk -v n="$name" -v t="$(median "$name")" -v r="$run" 'BEGIN { printf "%-24s %6.2f\n", n, t / r }'
done
echo "bytes: $(stat -c %s "$dir/all.frt") all, $(stat -c %s "$dir/pages.frt") pages"
