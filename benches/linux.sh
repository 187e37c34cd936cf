#!/usr/bin/env bash
# Linux against the policy `linux`: faults of programs as the kernel counts them, their memory at its peak and what of
# it is in pages of 2 MB as smaps_rollup has them, and all three as farreach does, under the same settings of
# transparent huge pages.
#
#   benches/linux.sh [-o FILE]
#
# -o FILE   for the table, in Markdown; standard output by default
#
# As root: it changes settings of transparent huge pages, and sets them back at every end. Linux 6.8 or later.
# FARREACH is the command. Each program runs three times natively; the median counts. Its addresses are not random, and
# the recorder's mappings lie where Linux puts them (--align linux).
set -uo pipefail
cd "$(dirname "$0")/.." || exit
farreach=${FARREACH:-$PWD/target/release/farreach}
out=/dev/stdout
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
while getopts o:h option; do
  case $option in
    o) out=$OPTARG ;;
    h) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done
thp=/sys/kernel/mm/transparent_hugepage
if [ ! -x /usr/bin/time ]; then
  echo "$0: /usr/bin/time: must be there; Debian's package is 'time'" >&2
  exit 2
fi
if [ ! -w $thp/enabled ] || [ ! -d $thp/hugepages-64kB ]; then
  echo "$0: $thp: must be there, with sizes, and writable" >&2
  exit 2
fi
work=$(mktemp -d)
chosen() { sed 's/.*\[\(.*\)\].*/\1/' "$1"; }
old_enabled=$(chosen $thp/enabled)
old_small=$(chosen $thp/hugepages-64kB/enabled)
old_huge=$(chosen $thp/hugepages-2048kB/enabled)
back() {
  echo "$old_enabled" > $thp/enabled
  echo "$old_small" > $thp/hugepages-64kB/enabled
  echo "$old_huge" > $thp/hugepages-2048kB/enabled
  rm -rf "$work"
}
trap back EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

set_thp() {
  echo "$1" > $thp/enabled
  echo "$2" > $thp/hugepages-64kB/enabled
  echo inherit > $thp/hugepages-2048kB/enabled
}

seq 1 400000 | shuf --random-source=<(openssl enc -aes-128-ctr -pass pass:0 -nosalt -pbkdf2 < /dev/zero 2> /dev/null) \
  > "$work/numbers"
g++ -O2 -o "$work/graph" examples/huge-pages/graph.cpp
g++ -O2 -o "$work/gups" examples/huge-pages/gups.cpp
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
names=(sort gzip xz awk perl python sqlite graph gups cc1 bc tac)
declare -A command=(
  [sort]="sort -n $work/numbers -o /dev/null"
  [gzip]="gzip -c $work/numbers"
  [xz]="xz -T1 -3 -c $work/numbers"
  [awk]="awk {s[\$1%50000]+=\$1}END{print(length(s))} $work/numbers"
  [perl]="perl -ne \$h{\$_}=1;END{print(scalar(keys(%h)))} $work/numbers"
  [python]="$python -c d={i:str(i)for(i)in(range(300000))};print(len(d))"
  [sqlite]="sqlite3 -init $work/sql :memory: .quit"
  [graph]="$work/graph pagerank 1000000 8 1"
  [gups]="$work/gups 64 2000000"
  [cc1]="$(gcc -print-prog-name=cc1) -quiet -O1 fixtures/programs/demo.c -o /dev/null"
  [bc]="bc -lq $work/bc"
  [tac]="tac $work/numbers"
)
echo 'scale=1500;4*a(1)' > "$work/bc"
cat > "$work/sql" <<'SQL'
CREATE TABLE t(k INTEGER, v TEXT);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200000)
  INSERT INTO t SELECT i * 7919 % 200003, 'value ' || i FROM c;
CREATE INDEX x ON t(k);
SELECT count(*) FROM t;
SQL

native() {
  for _ in 1 2 3; do
    # shellcheck disable=SC2086 # words of a command
    setarch -R /usr/bin/time -f %R -o "$work/faults" $1 > /dev/null 2>&1 < /dev/null
    tail -1 "$work/faults"
  done | sort -n | sed -n 2p
}

# KB of memory and of pages of 2 MB, at the look with most of three runs with a look each 2 ms.
native_memory() {
  # shellcheck disable=SC2086
  python3 - $1 <<'PY'
import subprocess, sys, time
most = (0, 0)
for _ in range(3):
    program = subprocess.Popen(["setarch", "-R", *sys.argv[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while program.poll() is None:
        try:
            with open(f"/proc/{program.pid}/smaps_rollup") as lines:
                words = {w[0]: int(w[1]) for w in map(str.split, lines) if w[-1] == "kB"}
            most = max(most, (words.get("Rss:", 0), words.get("AnonHugePages:", 0)))
        except OSError:
            pass  # it has ended
        time.sleep(0.002)
print(*most)
PY
}

simulated() {
  # shellcheck disable=SC2086
  "$farreach" run --align linux --json -o "$work/result.json" -m today/zen5:placement=this -- $1 \
    > /dev/null 2>&1 < /dev/null
  python3 - "$work/result.json" <<'PY'
import json, sys
machine = json.load(open(sys.argv[1]))["machines"][0]
os = machine["counts"]
# Faults of smaller sizes are among those of superpages.
huge = os["collapses"] + (os["superpage_faults"] if os["largest_fault_pages"] >= 512 else 0)
print(os["page_faults"] + os["protection_faults"], machine["memory"]["resident_bytes"] // 1024, 2048 * huge)
PY
}

# How much more the first is than the second.
percent() { echo $(((1000 * ($1 - $2) / $2 + 5) / 10)); }

{
  echo -n "| program | setting | faults, Linux | faults, \`placement=this\` | difference, %"
  echo " | MB, Linux | MB, policy | difference, % | of it 2 MB pages, Linux | policy |"
  echo "|---|---|---|---|---|---|---|---|---|---|"
  for name in "${names[@]}"; do
    if ! type -P "${command[$name]%% *}" > /dev/null; then
      echo "| $name | | not here | | | | | | | |"
      continue
    fi
    for setting in "never never" "always never" "never always"; do
      # shellcheck disable=SC2086 # two words
      set_thp $setting
      kernel=$(native "${command[$name]}")
      read -r memory huge <<< "$(native_memory "${command[$name]}")"
      read -r model resident made <<< "$(simulated "${command[$name]}")"
      echo -n "| $name | ${setting/ /, 64 KB } | $kernel | $model | $(percent "$model" "$kernel")"
      echo -n " | $((memory / 1024)) | $((resident / 1024)) | $(percent "$resident" "$memory")"
      echo " | $((huge / 1024)) | $((made / 1024)) |"
    done
  done
} > "$out"
