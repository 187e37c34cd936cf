#!/usr/bin/env bash
# What `farreach advise` predicts for programs of today, and what the changes bring when they are made: one table.
#
#   benches/advise-table.sh [-n ROUNDS] [-o FOLDER] [-c ROW] [PROGRAM...]
#
# -n ROUNDS   native runs each way, in turns; 7 by default
# -o FOLDER   for the results, one NAME.json a program, and table.md of all of them; target/advise-table by default
# -c ROW      only this row of `advise`, instead of every change that is possible here
# PROGRAM     of those below; all by default
# -l          lists them
#
# As root, as most changes are settings of the kernel; they are as before at every end. Ctrl-C ends it with the table of
# the results so far. NICE is the niceness of all that runs (-15 on a quiet machine), FARREACH the command.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
farreach=${FARREACH:-$root/target/release/farreach}
rounds=7 folder=$root/target/advise-table change=all
programs=(bfs-400m bfs-1g pagerank-400m pagerank-1g gups chain cc1 cpython perl sqlite go java redis memcached
  postgresql mariadb nginx)
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
while getopts n:o:c:lh option; do
  case $option in
    n) rounds=$OPTARG ;;
    o) mkdir -p "$OPTARG" && folder=$(cd "$OPTARG" && pwd) ;;
    c) change=$OPTARG ;;
    l) printf '%s\n' "${programs[@]}"; exit ;;
    h) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
for name in "$@"; do
  if ! printf '%s\n' "${programs[@]}" | grep -qx "$name"; then
    echo "$0: $name: one of ${programs[*]} is allowed" >&2
    exit 2
  fi
done
if [ $# -gt 0 ]; then programs=("$@"); fi
work=$folder/work
mkdir -p "$work"

# --- programs: each sets `command`, a server also `load`; it fails with a word of what is missing. --------------------

port=7${RANDOM:0:1}${RANDOM:0:1}5
need() {
  for tool; do
    if ! type -P "$tool" > /dev/null; then missing=$tool; return 1; fi
  done
}
compiled() { need g++ && g++ -O2 -o "$work/$1" "examples/huge-pages/$1.cpp"; }
graph() { compiled graph && command=("$work/graph" "$@"); }

bfs-400m() { graph bfs 10000000 8 1; }
bfs-1g() { graph bfs 25000000 8 1; }
pagerank-400m() { graph pagerank 10000000 8 2; }
pagerank-1g() { graph pagerank 25000000 8 1; }
gups() { compiled gups && command=("$work/gups" 256 20000000); }
chain() { compiled chain && command=("$work/chain" 256 3000000); }

cc1() {
  need gcc && command=("$(gcc -print-prog-name=cc1)" -quiet -O1 "$root/fixtures/programs/demo.c" -o "$work/demo.s")
}

# The interpreter itself: what is found first may be a script.
cpython() {
  need python3 && command=("$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" \
    "$root/benches/advise-table/dict.py" 5000000)
}

perl() { need perl && command=("$(type -P perl)" "$root/benches/advise-table/hash.pl" 500000); }

sqlite() {
  need sqlite3 && command=(sqlite3 :memory: "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v TEXT);
    WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300000)
      INSERT INTO t SELECT i, i * 7919 % 300007, 'value ' || i FROM c;
    CREATE INDEX x ON t(k);
    SELECT sum(length(t.v)) FROM t AS a JOIN t ON t.k = a.id * 104729 % 300007;")
}

go() {
  PATH=$PATH:/usr/local/go/bin
  need go && GOCACHE=$work/go-cache GO111MODULE=off GOTOOLCHAIN=local \
    command go build -o "$work/map" benches/advise-table/map.go && command=("$work/map" 2000000)
}

java() {
  need java javac && javac -d "$work" benches/advise-table/Map.java \
    && command=(java -Xmx512m -cp "$work" Map 1000000)
}

redis() {
  need redis-server redis-benchmark || return
  command=(redis-server --port $port --save '')
  load="redis-benchmark -p $port -r 300000 -n 200000 -t set,get -q"
}

# The recorder lets no program lower the limit of open files.
memcached() {
  need memcached memcaslap || return
  command=(sh -c "exec memcached -u nobody -m 1024 -t 4 -l 127.0.0.1 -p $port -c \$(ulimit -H -n) \"\$@\"" memcached)
  load="memcaslap -s 127.0.0.1:$port -T 1 -c 16 -x 400000"
}

# It does not run as root, and the recorder follows no program that gives up its user: it runs in a namespace where
# root has another number.
postgresql() {
  local bin data=$work/postgresql as='unshare -U --map-user=1000 --map-group=1000'
  bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -n 1)
  need unshare pgbench pg_isready "${bin:-/usr/lib/postgresql}/postgres" || return
  local settings="-c autovacuum=off -c fsync=off -c shared_buffers=256MB -c listen_addresses=127.0.0.1
    -c unix_socket_directories= -p $port"
  settings=${settings//$'\n'/ }
  if [ ! -e "$data/filled" ]; then
    rm -rf "$data"
    $as "$bin/initdb" -D "$data" -U postgres -A trust --no-sync > "$work/log" 2>&1 || return
    $as "$bin/pg_ctl" -D "$data" -o "$settings" -l "$work/log" -w start > /dev/null || return
    pgbench -h 127.0.0.1 -p $port -U postgres -i -s 10 -q postgres >> "$work/log" 2>&1
    $as "$bin/pg_ctl" -D "$data" -w stop > /dev/null && touch "$data/filled"
  fi
  command=(sh -c "exec $as $bin/postgres -D $data $settings \"\$@\"" postgres)
  local server="-h 127.0.0.1 -p $port -U postgres"
  load="until pg_isready -q $server; do sleep 0.1; done; pgbench $server -S -n -c 1 -t 40000 postgres"
}

mariadb() {
  local data=$work/mariadb
  need mariadbd mariadb-install-db sysbench || return
  command=("$(type -P mariadbd)" --no-defaults --user=root --datadir="$data" --silent-startup
    --socket="$work/mariadb.sock" --skip-name-resolve --bind-address=127.0.0.1 --port=$port --innodb-use-native-aio=0
    --innodb-buffer-pool-size=128M --loose-innodb-buffer-pool-size-max=256M)
  local tool="sysbench oltp_read_only --mysql-host=127.0.0.1 --mysql-port=$port --mysql-user=root --mysql-db=test
    --tables=1 --table-size=200000"
  tool=${tool//$'\n'/ }
  load="$tool --threads=1 --time=0 --events=2000 run"
  if [ -e "$data/filled" ]; then return; fi
  rm -rf "$data"
  mariadb-install-db --no-defaults --datadir="$data" --user=root --skip-name-resolve \
    --auth-root-authentication-method=normal > "$work/log" 2>&1 || return
  "${command[@]}" 2>> "$work/log" &
  local server=$!
  until (: < /dev/tcp/127.0.0.1/$port) 2> /dev/null; do
    kill -0 $server || return
    sleep 0.1
  done
  $tool prepare >> "$work/log" 2>&1 && touch "$data/filled"
  kill $server && wait $server
}

# Its worker stays root, as the recorder follows no program that gives up its user.
nginx() {
  local site=$work/nginx
  need nginx ab || return
  mkdir -p "$site/pages" && head -c 16384 /dev/zero > "$site/pages/page.html"
  cat > "$site/nginx.conf" << END
user root;
worker_processes 1;
error_log stderr;
pid $site/nginx.pid;
events {}
http { access_log off; keepalive_requests 1000000; server { listen 127.0.0.1:$port; root $site/pages; } }
END
  command=("$(type -P nginx)" -c "$site/nginx.conf" -g 'daemon off;')
  load="ab -q -k -c 16 -n 100000 http://127.0.0.1:$port/page.html"
}

# --- running them -----------------------------------------------------------------------------------------------------

# Each setting with its value, which is the word in brackets where there is one.
settings() {
  local file value thp=/sys/kernel/mm/transparent_hugepage
  for file in $thp/enabled $thp/shmem_enabled $thp/hugepages-*/enabled /sys/kernel/mm/hugepages/*/nr_hugepages; do
    if [ -e "$file" ]; then
      value=$(< "$file") value=${value##*[} value=${value%%]*}
      echo "$file $value"
    fi
  done
}
before=$(settings)
# advise restores them itself, or its guard does.
finish() {
  rm -f "$folder"/*.part
  python3 benches/advise-table/table.py "$folder" > "$folder/table.md" && cat "$folder/table.md"
  local file value
  for ((try = 0; try < 20; try++)); do
    if [ "$(settings)" = "$before" ]; then return; fi
    sleep 0.1
  done
  echo "$0: settings were not restored: $(diff <(echo "$before") <(settings) | grep '>' | tr '\n' ' ')" >&2
  while read -r file value; do echo "$value" > "$file"; done <<< "$before"
}
# Ctrl-C reaches advise, too, which ends and restores.
trap 'finish; exit 130' INT TERM

failed=0
for name in "${programs[@]}"; do
  command=() load= missing=
  if ! "$name"; then
    echo "$name: skipped: ${missing:-its set-up failed, see $work/log;}${missing:+ is not installed}"
    continue
  fi
  began=$SECONDS
  echo "$name: $(date +%T)"
  # Scattered frames make base pages dearer from run to run: as few as can be.
  echo 1 > /proc/sys/vm/compact_memory 2> /dev/null
  served=() pinned=()
  if [ -n "$load" ]; then served=(--port $port --load "$load"); fi
  # Where server and load wait for each other at each request: on two processors, a run takes once or three times as
  # long, by which of them sleep deeply.
  case $name in postgresql | mariadb | nginx) pinned=(taskset -c 0) ;; esac
  if "${pinned[@]}" nice -n "${NICE:-0}" "$farreach" advise --verify "$rounds" --apply --change "$change" --json \
    "${served[@]}" -- "${command[@]}" > "$folder/$name.part" 2> "$folder/$name.log"; then
    mv "$folder/$name.part" "$folder/$name.json"
    echo "$name: $((SECONDS - began)) s"
  else
    failed=1
    rm -f "$folder/$name.part"
    echo "$name: failed after $((SECONDS - began)) s: $(tail -n 2 "$folder/$name.log" | cut -c 1-300)"
  fi
done
finish
exit $failed
