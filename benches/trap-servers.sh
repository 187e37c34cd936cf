#!/usr/bin/env bash
# How much longer the load of a server takes under `farreach trap`: everything simulated, and with `--sample auto`.
#
#   benches/trap-servers.sh [ROUNDS] [SERVER...]     3 rounds; redis memcached mariadb; 1536 entries in sets of 12
#   RECORDS=100000 benches/trap-servers.sh           with less data: a million records are some 200 MB
#
# Each server is filled first, at its own speed (--after). Then the same requests are sent natively and by traps, in
# turns, and the medians of the wall times of the load compared; warm-up and the choice of the sample are in them. Run
# it on an idle machine of two processors or more, as root; the load of the machine is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
shift || true
farreach=${FARREACH:-$PWD/target/release/farreach}
machine=t94/set-associative:entries=1536,ways=12,replacement=used-bit
[ -x "$farreach" ] || { echo "trap-servers.sh: $farreach is missing; run make first" >&2; exit 1; }
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL $server 2> /dev/null || true; rm -rf "$dir"' EXIT
port=$((20000 + RANDOM % 20000))
records=${RECORDS:-1000000}

# Sets command, fill, load.
describe() {
  case $1 in
    redis)
      command=(redis-server --port $port --save '' --appendonly no)
      fill=(redis-benchmark -p $port -r $records -n $((4 * records)) -d 100 -P 32 -t set -q)
      load=(redis-benchmark -p $port -r $records -n 1000000 -d 100 -t set,get -q)
      ;;
    memcached)
      command=(memcached -u nobody -m 2048 -t 4 -l 127.0.0.1 -p $port -c "$(ulimit -H -n)")
      fill=(memcaslap -s 127.0.0.1:$port -T 1 -c 16 -x 600000)
      load=(memcaslap -s 127.0.0.1:$port -T 1 -c 16 -x 1000000)
      ;;
    mariadb)
      local of=(--mysql-host=127.0.0.1 --mysql-port=$port --mysql-user=root --mysql-db=test --tables=1
        --table-size=$records)
      mkdir "$dir/$port"
      mariadb-install-db --no-defaults --datadir="$dir/$port/data" --user=root --skip-name-resolve \
        --auth-root-authentication-method=normal > /dev/null
      command=(/usr/sbin/mariadbd --no-defaults --user=root --datadir="$dir/$port/data" --silent-startup
        --log-warnings=0 --socket="$dir/$port/socket" --skip-name-resolve --bind-address=127.0.0.1 --port=$port
        --innodb-use-native-aio=0 --innodb-buffer-pool-size=512M
        --innodb-flush-log-at-trx-commit=0) # the disk is not what is measured
      fill=(sysbench oltp_read_write "${of[@]}" prepare)
      load=(sysbench oltp_read_write "${of[@]}" --threads=1 --time=0 --events=5000 run)
      ;;
    *) echo "trap-servers.sh: '$1': redis, memcached or mariadb is expected" >&2; exit 1 ;;
  esac
}

# served FILE [OPTIONS...]: appends the seconds of the load; with options by traps.
served() {
  local file=$1 TIMEFORMAT=%R own=()
  shift
  [ $# = 0 ] || own=("$farreach" trap -m $machine --after 1h --json -o "$dir/result.json" "$@" --)
  "${own[@]}" "${command[@]}" > "$dir/out" 2> "$dir/err" < /dev/null &
  server=$!
  until (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do sleep 0.1; done
  "${fill[@]}" > /dev/null 2>&1
  [ $# = 0 ] || kill -USR1 $server
  { time "${load[@]}" > /dev/null 2>&1; } 2>> "$file"
  kill -TERM $server
  wait $server || true
  rm -rf "${dir:?}/$port"
  server=
  port=$((port + 1))
}
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

echo "$machine; $records records; $rounds rounds; $(nproc) cores; load $(cut -d' ' -f1-3 /proc/loadavg)"
echo
printf '| %-12s | %-10s | %-13s | %-20s |\n' "" everything "--sample auto" "misses simulated"
echo "|---|---|---|---|"
for name in ${*:-redis memcached mariadb}; do
  for ((round = 0; round < rounds; round++)); do
    describe "$name"; served "$dir/$name.native"
    describe "$name"; served "$dir/$name.all" --seed 1
    misses=$(python3 -c "import json; print(json.load(open('$dir/result.json'))['machines'][0]['counts']['misses'])")
    describe "$name"; served "$dir/$name.auto" --sample auto
    chosen=$(grep 'sample auto' "$dir/err" || true)
  done
  awk -v name="$name" -v n="$(median "$dir/$name.native")" -v a="$(median "$dir/$name.all")" \
    -v s="$(median "$dir/$name.auto")" -v m="$misses" \
    'BEGIN { printf "| %-12s | %8.2f x | %11.2f x | %20d |\n", name, a / n, s / n, m }'
  [ -z "$chosen" ] || sed "s/^/  /" <<< "$chosen" >&2
done
