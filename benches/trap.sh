#!/usr/bin/env bash
# How much longer programs take under `farreach trap`, as ratios to the programs alone: user+sys CPU time, wall time.
#
#   benches/trap.sh [ROUNDS] [MACHINE]     5 rounds; 1536 entries in sets of 12, used bits, 4 KB pages
#
# Native and observed runs take turns, medians are printed. Each program runs for seconds alone. Run it on an idle
# machine, as root; the load is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
machine=${2:-t94/set-associative:entries=1536,ways=12,replacement=used-bit}
farreach=$PWD/target/release/farreach
[ -x "$farreach" ] || { echo "trap.sh: $farreach is missing; run make first" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat > "$dir/gather.c" <<'C'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    uint32_t n = 1u << 23, *a = malloc(4ul * n), x = 1;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) a[i] = i;
    for (int i = 0; i < 200000000; i++) {
        x = x * 1664525u + 1013904223u;
        sum += a[i % 64 ? i % n : x % n];
    }
    printf("%llu\n", (unsigned long long)sum);
}
C
gcc -O2 -o "$dir/gather" "$dir/gather.c"
echo 'my %c; $c{($_ * 7919) % 400000} .= $_ for 1 .. 8000000; print scalar(keys %c), "\n";' > "$dir/hash.pl"
echo 'd = {i * 7919 % 1000003: str(i) for i in range(1000000)}; print(sum(len(d[k]) for _ in range(6) for k in d))' \
  > "$dir/dict.py"
cat > "$dir/table.sql" <<'S'
create table t (a integer primary key, b integer, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 600000)
  insert into t select i, i * 7919 % 600011, 'text ' || i from n;
create index by_b on t (b);
select count(*), sum(length(c)) from t where b in (select a from t where a % 3 = 0);
S

# The programs: NAME COMMAND
programs() {
  echo "cc1 -O2 demo.c: $(gcc -print-prog-name=cc1) -quiet -O2 fixtures/programs/demo.c -o /dev/null"
  command -v perl >/dev/null && echo "perl, a hash of 400,000 keys: perl $dir/hash.pl"
  command -v python3 >/dev/null && echo "CPython, a dictionary of 1,000,000 keys: $(realpath "$(python3 -c 'import sys
print(sys.executable)')") $dir/dict.py"
  command -v sqlite3 >/dev/null && echo "SQLite, 600,000 rows in memory: sqlite3 :memory: -init $dir/table.sql .quit"
  echo "C, every 64th load of 32 MB at random: $dir/gather"
}

# timed FILE COMMAND...: appends "wall cpu".
timed() {
  local file=$1 TIMEFORMAT='%R %U %S' wall user sys
  shift
  read -r wall user sys < <({ time "$@" >"$dir/out" 2>"$dir/err" </dev/null; } 2>&1) || true
  awk "BEGIN { print $wall, $user + $sys }" >> "$file"
}
median() { cut -d' ' -f"$2" "$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

echo "$machine; $rounds rounds; $(nproc) cores; load $(cut -d' ' -f1-3 /proc/loadavg)"
echo
printf '| %-42s | %-8s | %-8s | %-20s |\n' "" CPU wall "misses a CPU second"
echo "|---|---|---|---|"
number=0
while IFS=: read -r name command; do
  number=$((number + 1))
  native=$dir/native.$number trapped=$dir/trapped.$number
  read -ra words <<< "${command}"
  for ((round = 0; round < rounds; round++)); do
    timed "$native" "${words[@]}"
    cp "$dir/out" "$dir/expected"
    timed "$trapped" "$farreach" trap -m "$machine" --json -o "$dir/result.json" -- "${words[@]}"
    cmp -s "$dir/out" "$dir/expected" || { echo "trap.sh: $name: another output" >&2; cat "$dir/err" >&2; exit 1; }
  done
  misses=$(python3 -c "import json; print(json.load(open('$dir/result.json'))['machines'][0]['counts']['misses'])")
  awk -v t="$name" -v c="$(median "$trapped" 2)" -v nc="$(median "$native" 2)" -v w="$(median "$trapped" 1)" \
    -v nw="$(median "$native" 1)" -v m="$misses" \
    'BEGIN { printf "| %-42s | %6.2f x | %6.2f x | %20d |\n", t, c / nc, w / nw, m / nc }'
done < <(programs)
