#!/usr/bin/env bash
# The recorder and its peers in one run, as ratios to the program alone: user+sys CPU time, and wall time.
#
#   benches/peers.sh [ROUNDS]        3 by default; the tools take turns, medians are printed
#
# The program is the C compiler proper, cc1 -O2, on fixtures/programs/demo.c, which runs for more than a second alone;
# on a faster machine set COPIES to compile it more than once. Needs what `make` needs. Run it on an idle machine; the
# load is printed. Where DRRUN names DynamoRIO's drrun, the TLB simulator of its drcachesim takes a turn too. It and
# Lackey are so slow that they get a short program.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
copies=${COPIES:-1}
farreach=target/release/farreach
drrun=${DRRUN:-}
[ -x "$farreach" ] || { echo "peers.sh: $farreach is missing; run make first" >&2; exit 1; }
if [ -n "$drrun" ] && ! { [ -f "$drrun" ] && [ -x "$drrun" ]; }; then
  echo "peers.sh: DRRUN=$drrun is no executable file; it is the path of DynamoRIO's bin64/drrun" >&2
  exit 1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Each copy is compiled by a cc1 of its own, one after the other.
sources=()
for ((i = 0; i < copies; i++)); do
  sources+=("$dir/demo$i.c")
  cp fixtures/programs/demo_part.h "$dir/"
  cp fixtures/programs/demo.c "$dir/demo$i.c"
done
cc1=$(gcc -print-prog-name=cc1)
# shellcheck disable=SC2016 # for the bash that runs it
printf 'for f in "$@"; do "%s" -quiet -O2 "$f" -o /dev/null; done\n' "$cc1" > "$dir/all.sh"
if ((copies == 1)); then program=("$cc1" -quiet -O2 "${sources[0]}" -o /dev/null)
else program=(bash "$dir/all.sh" "${sources[@]}"); fi
echo 'int f(int a, int b) { return a < b ? a * b : a - b; }' > "$dir/short.c"
short=("$cc1" -quiet -O2 "$dir/short.c" -o /dev/null)

# Prints "wall user sys" of a command; its own output goes to files.
timed() {
  local TIMEFORMAT='%R %U %S'
  { time "$@" >"$dir/out" 2>"$dir/err"; } 2>&1 || { cat "$dir/err" >&2; echo "peers.sh: failed: $*" >&2; exit 1; }
}
# note NAME WALL CPU: one measurement.
note() { echo "$2 $3" >> "$dir/$1.times"; }
measure() {
  local name=$1 times wall user sys
  shift
  times=$(timed "$@")
  read -r wall user sys <<< "$times"
  note "$name" "$wall" "$(awk "BEGIN { print $user + $sys }")"
}
median() {
  cut -d' ' -f"$2" "$dir/$1.times" | sort -g |
    awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

many_short() { for _ in {1..20}; do "${short[@]}"; done; }
lackey() { valgrind --tool=lackey --trace-mem=yes --log-file=/dev/null "${short[@]}"; }
drcachesim() { "$drrun" -t drmemtrace -simulator_type TLB -ipc_name "$dir/pipe" -- "${short[@]}"; }

before=$(cut -d' ' -f1-3 /proc/loadavg)
for ((round = 1; round <= rounds; round++)); do
  echo "round $round of $rounds, load $(cut -d' ' -f1 /proc/loadavg)" >&2
  measure native "${program[@]}"
  measure none valgrind --tool=none -q --trace-children=yes "${program[@]}"
  measure run "$farreach" run --timing -o "$dir/result" -- "${program[@]}"
  # farreach: seconds: recorder and program R, simulation S, wall W
  seconds='seconds: recorder and program \(.*\), simulation \(.*\), wall \(.*\)'
  read -r recorder simulation wall < <(sed -n "s/.*$seconds/\1 \2 \3/p" "$dir/err")
  note recorder "$wall" "$recorder"
  note simulation "$wall" "$simulation"
  measure cachegrind valgrind --tool=cachegrind --cache-sim=yes --cachegrind-out-file=/dev/null -q \
    --trace-children=yes "${program[@]}"
  measure native_short many_short
  measure lackey lackey
  if [ -n "$drrun" ]; then measure drcachesim drcachesim; fi
done
after=$(cut -d' ' -f1-3 /proc/loadavg)

native_cpu=$(median native 2) native_wall=$(median native 1)
# row NAME TEXT: one row of the table, in multiples of native_cpu and native_wall.
row() {
  awk -v t="$2" -v c="$(median "$1" 2)" -v w="$(median "$1" 1)" -v nc="$native_cpu" -v nw="$native_wall" \
    'BEGIN { printf "| %-58s | %6.1f x | %6.1f x |\n", t, c / nc, w / nw }'
}
echo "cc1 -O2 on demo.c: $native_cpu s of CPU alone; $rounds rounds; $(nproc) cores; load before $before, after $after"
echo
printf '| %-58s | %-8s | %-8s |\n' "" CPU wall
echo "|---|---|---|"
row none "valgrind --tool=none"
row recorder "farreach run, five designs: recorder and program"
row simulation "farreach run, five designs: simulation"
row run "farreach run, five designs: all of it"
row cachegrind "cachegrind --cache-sim=yes"
# The short program ran 20 times alone for each run under one of these.
native_cpu=$(awk "BEGIN { print $(median native_short 2) / 20 }")
native_wall=$(awk "BEGIN { print $(median native_short 1) / 20 }")
row lackey "lackey --trace-mem=yes, text thrown away, a short program"
if [ -n "$drrun" ]; then row drcachesim "drcachesim -simulator_type TLB, live, a short program"; fi
