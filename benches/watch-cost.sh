#!/usr/bin/env bash
# What `farreach watch` costs the watched process: its user and system time for a piece of work, while it is watched
# against while it is not, in turns inside one process.
#
#   benches/watch-cost.sh [PAIRS [SECONDS [OPTIONS OF WATCH]]]     40 pairs of 2 s, with intervals of 500 ms
#   WHAT="64 512 redis"                                            megabytes of random loads, or redis under a load
#
# What watching costs is in proportion to the used pages of all intervals. So short intervals, which cost much, are
# measured against the periods before and after them, to the processor time of a used page: median of the pairs and its
# 95 % confidence interval by order statistics. Other load of the machine meets both alike, if periods are short. Then
# a `watch` as it is, for 30 s, says how many pages it noted, and so what it cost.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-40} seconds=${2:-2}
shift $(($# < 2 ? $# : 2))
(($#)) || set -- --interval 500ms
farreach=${FARREACH:-$PWD/target/release/farreach}
[ -x "$farreach" ] || { echo "watch-cost.sh: $farreach is missing; run make first" >&2; exit 1; }
dir=$(mktemp -d)
process=
trap 'kill $process 2> /dev/null; rm -rf "$dir"' EXIT

# Loads from random places of base pages for ever; says after each of its pieces of work how much processor time it has
# taken, and when.
cat > "$dir/loads.cc" <<'CC'
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/mman.h>
static double now(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
int main(int, char **argv) {
    const size_t bytes = strtoull(argv[1], nullptr, 10) << 20, n = bytes / sizeof(uint64_t);
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    auto *a = static_cast<uint64_t *>(memory);
    for (size_t i = 0; i < n; i++) a[i] = i;
    uint64_t x = 88172645463325252, sum = 0;
    for (;;) {
        for (int i = 0; i < 400000; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            sum += a[(unsigned __int128)x * n >> 64];
        }
        printf("%.6f %.6f %d\n", now(CLOCK_BOOTTIME), now(CLOCK_PROCESS_CPUTIME_ID), int(sum & 1));
        fflush(stdout);
    }
}
CC
g++ -O2 -o "$dir/loads" "$dir/loads.cc"

now() { awk '{ print $1 }' /proc/uptime; }
# Used pages that a watch noted, from its JSON.
noted() {
  awk -F'[:,]' '/"used_page_seconds"/ { price = $2 } /"process_seconds"/ { all = $2 }
    END { if (price > 0) print all / price; else print 0 }' \
    "$dir/watch.json"
}
# periods EDGE OPTIONS: watched and unwatched ones in turns. EDGE KIND START|END writes a line into the file `periods`.
periods() {
  : > "$dir/periods"
  for ((pair = 0; pair <= pairs; pair++)); do
    "$1" unwatched start 0; sleep "$seconds"; "$1" unwatched end 0
    ((pair == pairs)) && break
    "$1" watched start 0
    "$farreach" watch -p $process --for "${seconds}s" "${@:2}" --json > "$dir/watch.json" 2> "$dir/said"
    "$1" watched end "$(noted)"
  done
  "$farreach" watch -p $process --json > "$dir/watch.json" 2> "$dir/said"
}

# judge NAME, from lines "KIND seconds-for-a-piece pieces noted-pages", watched and unwatched in turns.
judge() {
  awk -v what="$1" '
    { cost[NR] = $2; pieces[NR] = $3; noted[NR] = $4 }
    END {
      for (i = 2; i < NR; i += 2) {
        alone = (cost[i - 1] + cost[i + 1]) / 2
        if (noted[i]) price[++n] = (cost[i] - alone) * pieces[i] / noted[i] * 1e6
      }
      for (i = 2; i <= n; i++) {
        value = price[i]
        for (j = i - 1; j > 0 && price[j] > value; j--) price[j + 1] = price[j]
        price[j + 1] = value
      }
      low = int(n / 2 - 0.98 * sqrt(n)); if (low < 1) low = 1
      median = n % 2 ? price[(n + 1) / 2] : (price[n / 2] + price[n / 2 + 1]) / 2
      print median, price[low], price[n + 1 - low], n
    }' > "$dir/price"
  awk -F'[:,]' -v what="$1" -v noted="$(noted)" '
    NR == FNR { split($0, price, " "); next }
    /"interval_seconds"/ { interval = $2 } /"used_page_seconds"/ { told = $2 * 1e6 }
    /"process_percent"/ { percent = $2 }
    /"longest_wait_seconds"/ { longest = $2 * 1e3 } /"process_user_seconds"/ { cpu += $2 }
    /"process_system_seconds"/ { cpu += $2 }
    END {
      printf "%s: a used page costs %.2f µs (95 %%: %.2f to %.2f, %d pairs); watch says %.2f\n", what, \
        price[1], price[2], price[3], price[4], told
      printf "  as it is, 30 s: intervals of %.1f s, %d pages noted in all, ", interval, noted
      printf "%.1f s of processor time, at most %.1f ms of waiting\n", cpu, longest
      share = 100 * noted * 1e-6 / cpu
      printf "  it cost %.2f %% (95 %%: %.2f to %.2f); watch says %.2f %%\n", \
        share * price[1], share * price[2], share * price[3], percent
    }' "$dir/price" "$dir/watch.json"
}

# The processor time of a piece of work in each period: pieces that lie wholly inside it.
edge() { echo "$1 $2 $(now) $3" >> "$dir/periods"; }
loads() {
  : > "$dir/work"
  "$dir/loads" "$1" > "$dir/work" &
  process=$!
  until [ "$(wc -l < "$dir/work")" -gt 20 ]; do sleep 0.2; done
  periods edge "${@:2}"
  kill $process
  wait $process 2> /dev/null || true
  awk '
    NR == FNR {
      if ($2 == "start") from = $3; else { kind[++n] = $1; begin[n] = from; end[n] = $3; noted[n] = $4 }
      next
    }
    {
      while (at < n && (at == 0 || $1 > end[at])) at++
      if (FNR > 1 && before >= begin[at] && $1 <= end[at]) { cpu[at] += $2 - cpu_before; count[at]++
        wall[at] += $1 - before }
      before = $1; cpu_before = $2
    }
    END {
      for (i = 1; i <= n; i++) print kind[i], cpu[i] / count[i], count[i] * (end[i] - begin[i]) / wall[i], noted[i]
    }' "$dir/periods" "$dir/work" > "$dir/costs"
  judge "$1 MB of random loads" < "$dir/costs"
}

# redis: the processor time of a command in each period. Its main thread does all of the work.
port=7391
counts() {
  redis-cli -p $port info stats | awk -F: '/^total_commands_processed/ { print $2 + 0 }'
  awk '{ sum += $1 } END { print sum }' /proc/$process/task/*/schedstat
}
edge_redis() { echo "$1 $2 $(counts | tr '\n' ' ')$3" >> "$dir/periods"; }
redis() {
  redis-server --port $port --save '' --appendonly no --daemonize no --logfile "$dir/redis.log" &
  process=$!
  until redis-cli -p $port ping 2> /dev/null | grep -q PONG; do sleep 0.2; done
  redis-benchmark -p $port -q -t set -n 1000000 -r 300000 -d 400 -P 16 > /dev/null
  while true; do redis-benchmark -p $port -q -t get,set -n 400000 -r 300000 -d 400 -P 4 -c 20 > /dev/null 2>&1; done &
  local load=$!
  sleep 1
  periods edge_redis "$@"
  kill $load
  redis-cli -p $port shutdown nosave 2> /dev/null || true
  wait $process $load 2> /dev/null || true
  awk '$2 == "start" { commands = $3; cpu = $4 }
    $2 == "end" { print $1, ($4 - cpu) * 1e-9 / ($3 - commands), $3 - commands, $5 }' "$dir/periods" > "$dir/costs"
  judge "redis under a load" < "$dir/costs"
}

echo "$pairs pairs of $seconds s, watch $*; load of the machine: $(cut -d' ' -f1-3 /proc/loadavg)"
for what in ${WHAT:-64 512 redis}; do
  if [ "$what" = redis ]; then
    command -v redis-server > /dev/null || { echo "redis: skipped, there is no redis-server"; continue; }
    redis "$@"
  else
    loads "$what" "$@"
  fi
done
