#!/usr/bin/env bash
# The misses that `farreach trap` counts beside those of `farreach run`, for the same programs and machines.
#
#   benches/trap-against-run.sh [PROGRAM...]     cc1 sqlite3 perl redis
#
# What both see is made equal: hashes have no seed; mappings lie bottom-up, as under Valgrind, and no address is random.
# "By the kernel": misses at references that the kernel made for the program, which `run` does not see.
# "Top-down": how far the misses of `trap` are from that with mappings top-down, as they are natively. Run it as root.
# Counts do not depend on other load, but for redis, which also does something once a second.
set -euo pipefail
cd "$(dirname "$0")/.."
farreach=${FARREACH:-$PWD/target/release/farreach}
export FARREACH_VALGRIND_DIR=${FARREACH_VALGRIND_DIR:-$PWD/target/valgrind} PERL_HASH_SEED=0
[ -x "$farreach" ] || { echo "trap-against-run.sh: $farreach is missing; run make first" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
machines=()
for policy in fifo random used-bit; do
  for entries in 512 1536; do machines+=("t94/single:replacement=$policy,entries=$entries"); done
done

echo 'my %c; $c{($_ * 7919) % 60013} .= $_ for 1 .. 120000; print scalar(keys %c), "\n";' > "$dir/hash.pl"
cat > "$dir/table.sql" <<'S'
create table t (a integer primary key, b integer, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  insert into t select i, i * 7919 % 60013, 'text ' || i from n;
create index by_b on t (b);
select count(*), sum(length(c)) from t where b in (select a from t where a % 3 = 0);
S

awk 'BEGIN {
  for (i = 0; i < 100; i++) value = value "x"
  for (i = 0; i < 60000; i++) {
    x = (x * 1664525 + 1013904223) % 4294967296
    key = "key:" int(x / 65536) % 25000
    print i % 3 ? "SET " key " " value : "GET " key
  }
}' > "$dir/requests"

# observed LAYOUT OUTPUT HOW OPTIONS...: the program is in $command; redis has its load beside it.
observed() {
  local layout=$1 output=$2
  shift 2
  setarch "$layout" "$farreach" "$@" --json -o "$output" -- "${command[@]}" \
    > "$dir/out" 2> "$dir/err" < /dev/null &
  local observer=$!
  if [ "$program" = redis ]; then
    until redis-cli -s "$dir/socket" ping > /dev/null 2>&1; do sleep 0.2; done
    redis-cli -s "$dir/socket" < "$dir/requests" > /dev/null 2>&1 # each after the answer to the one before
    redis-cli -s "$dir/socket" shutdown nosave > /dev/null 2>&1 || true
  fi
  wait "$observer" || { cat "$dir/err" >&2; exit 1; }
}
value() { python3 -c 'import json, sys
result = json.load(open(sys.argv[1]))
print(eval(sys.argv[2], {"machines": result["machines"], "workload": result["workload"]}))' "$@"; }

for program in ${*:-perl sqlite3 cc1 redis}; do
  case $program in
    cc1)
      gcc -E -o "$dir/script.i" fixtures/debian/script.c
      command=("$(gcc -print-prog-name=cc1)" -fpreprocessed -quiet -O3 -w "$dir/script.i" -o /dev/null)
      ;;
    sqlite3) command=(sqlite3 :memory: -init "$dir/table.sql" .quit) ;;
    perl) command=(perl "$dir/hash.pl") ;;
    redis)
      command=(redis-server --port 0 --unixsocket "$dir/socket" --save '' --appendonly no --hz 1 --activerehashing no)
      ;;
    *) echo "trap-against-run.sh: '$program': cc1, sqlite3, perl or redis is expected" >&2; exit 1 ;;
  esac
  all=()
  for machine in "${machines[@]}"; do all+=(-m "$machine"); done
  observed -R "$dir/run.json" run "${all[@]}"
  echo
  echo "$program: $(value "$dir/run.json" 'workload["instructions"]') instructions"
  echo
  printf '| %-40s | %9s | %9s | %-10s | %-13s | %-9s |\n' "" run trap difference "by the kernel" top-down
  echo "|---|---|---|---|---|---|"
  for number in "${!machines[@]}"; do
    observed -L "$dir/trap.json" trap --kernel -m "${machines[number]}"
    by=$(sed -n 's/^ *the kernel, for the program: .* \([0-9]*\) misses.*/\1/p' "$dir/err")
    observed -R "$dir/else.json" trap -m "${machines[number]}"
    awk -v name="${machines[number]}" -v run="$(value "$dir/run.json" "machines[$number]['counts']['misses']")" \
      -v trap="$(value "$dir/trap.json" "machines[0]['counts']['misses']")" -v by="$by" \
      -v other="$(value "$dir/else.json" "machines[0]['counts']['misses']")" 'BEGIN {
        printf "| %-40s | %9d | %9d | %+8.2f %% | %13d | %+7.2f %% |\n", name, run, trap, 100 * (trap - run) / run, by,
          100 * (other - trap) / trap }'
  done
  pages='workload["touched_bytes"] // 4096'
  echo
  echo "touched pages: $(value "$dir/run.json" "$pages") run, $(value "$dir/trap.json" "$pages") trap"
done
