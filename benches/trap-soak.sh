#!/usr/bin/env bash
# Minutes of redis under `farreach trap`: memory of the monitor, misses and requests over time.
#
#   benches/trap-soak.sh [SIZE] [TIME] [SECONDS]     4G, 10m, a sample every 10 seconds
#
# The server is filled to SIZE first, unobserved; TIME is what is simulated then, while clients set and read random
# keys. Memory is the resident set of farreach, of /proc. Run it as root; other load on the machine makes requests
# slower, but not a request's misses more.
set -euo pipefail
cd "$(dirname "$0")/.."
size=${1:-4G} time=${2:-10m} every=${3:-10}
farreach=${FARREACH:-$PWD/target/release/farreach}
[ -x "$farreach" ] || { echo "trap-soak.sh: $farreach is missing; run make first" >&2; exit 1; }
dir=$(mktemp -d)
load='' monitor=''
trap 'kill $load $monitor 2>/dev/null || true; rm -rf "$dir"' EXIT
# A key with its value of 100 bytes takes 210.
records=$(($(numfmt --from=iec "$size") / 210))
redis() { redis-cli -s "$dir/socket" "$@"; }
info() { redis info "$1" | tr -d '\r' | sed -n "s/^$2://p"; }

"$farreach" trap --after 6h --for "$time" --json -o "$dir/result.json" -- \
  redis-server --port 0 --unixsocket "$dir/socket" --save '' --appendonly no > "$dir/out" 2> "$dir/err" &
monitor=$!
until redis ping > /dev/null 2>&1; do sleep 0.2; done
value=$(printf 'x%.0s' {1..100})
awk -v n="$records" -v v="$value" 'BEGIN { for (i = 0; i < n; i++) printf "SET key:%012d %s\r\n", i, v }' |
  redis --pipe > "$dir/filled"
redis-benchmark -s "$dir/socket" -r "$records" -n 20000 -d 100 -P 8 -t set,get -l -q > /dev/null 2>&1 &
load=$!
echo "redis has $(info memory used_memory_human), $records keys; load $(cut -d' ' -f1-3 /proc/loadavg)"
kill -USR1 "$monitor"
begun=$(date +%s.%N)
memory() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status" 2>/dev/null || true; }
while now=$(memory "$monitor") && [ -n "$now" ] && requests=$(info stats total_commands_processed); do
  echo "$(date +%s.%N) $begun $now $requests" >> "$dir/samples"
  sleep "$every"
done
wait "$monitor" && status=0 || status=$?
monitor=''
[ -z "${KEEP:-}" ] || cp "$dir/result.json" "$dir/samples" "$dir/err" "$KEEP"
[ "$status" = 0 ] || { cat "$dir/err" >&2; exit "$status"; }
echo
python3 - "$dir" <<'P'
import json, sys

result = json.load(open(sys.argv[1] + "/result.json"))
samples = [[float(word) for word in line.split()] for line in open(sys.argv[1] + "/samples") if len(line.split()) == 4]
rows = [(now - begun, memory, requests) for now, begun, memory, requests in samples]
line, traps = result["machines"][0]["timeline"], result["workload"]["traps"]
slice = line["slice_microseconds"] / 1e6
whole = float(result["workload"]["stopped"].split()[1]) / 1000
start = traps["microseconds"] / 1e6 - whole


def misses(to):
    """Misses until this second of the simulation, with the part of a slice that lies before it."""
    whole, part = divmod((start + to) / slice, 1)
    behind = line["misses"][int(whole)] if whole < len(line["misses"]) else 0
    return sum(line["misses"][: int(whole)]) + part * behind


print("| minutes | resident set, MB | misses a second | requests a second | misses a request |\n|---|---|---|---|---|")
minute = max(60, rows[-1][0] / 12)
last = rows[0]
for row in rows[1:]:
    if row[0] - last[0] < minute:
        continue
    seen, asked, time = misses(row[0]) - misses(last[0]), row[2] - last[2], row[0] - last[0]
    rates = f"{seen / time:,.0f} | {asked / time:,.0f} | {seen / asked:.2f}"
    print(f"| {row[0] / 60:.1f} | {row[1] / 1024:.2f} | {rates} |")
    last = row
print(f"\n{len(rows)} samples: {min(r[1] for r in rows):.0f} to {max(r[1] for r in rows):.0f} KB;",
      f"{result['machines'][0]['counts']['misses']:,} misses; {traps['simulated'] / 1e6:.1f} s of redis' own time")
P
