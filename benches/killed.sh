#!/usr/bin/env bash
# Settings of the machine are as before after farreach was killed at random moments while it had changed some.
#
#   benches/killed.sh [RUNS]     100 by default; about five seconds each; as root, and it writes to /sys
#
# The runs are in turns: `advise --verify --apply` with THP, the same with the pool of 2 MB pages, and `watch` by the
# best method that works here. The ends are in turns too: SIGKILL, SIGTERM, and SIGKILL to the guards alone before a
# SIGTERM. "Changed": a setting was changed when the signal came. The guard gets a second to restore. Beside each
# `advise` a second one is started, which must be refused, and change nothing. Compared is what all files below /sys/kernel/mm and /proc/sys/vm say
# that are no counters, and which threads of DAMON there are.
set -euo pipefail
cd "$(dirname "$0")/.."
farreach=${FARREACH:-$PWD/target/release/farreach}
[ "$(id -u)" = 0 ] || { echo "skipped: only root may change settings"; exit 0; }
settings() {
  # Not counters, and not files that are commands. `meminfo` and the like are not here.
  { find /sys/kernel/mm /proc/sys/vm -type f -readable \
    ! -path '*/stats/*' ! -path '*/ksm/*' ! -name 'free_hugepages' ! -name 'resv_hugepages' \
    ! -name 'surplus_hugepages' \
    ! -name 'stat_refresh' ! -name 'numa_stat' ! -name pages_collapsed ! -name full_scans \
    -exec grep -H '' {} + 2> /dev/null || true; } | sort
  pgrep -x 'kdamond.*' -a || true
}
# A quick look for the moment of the kill; the whole is compared before and after.
some() { cat /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages \
  /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds 2> /dev/null || true; }
program=(perl -e 'my @a = (1) x 300000; my $s = 0; $s += $_ for @a; exit 0')
method=$("$farreach" doctor watch | awk '$2 == "yes" && !found { print $1; found = 1 }' || true)
echo "watch: by ${method:-nothing}"
folder=$(mktemp -d)
perl -e 'my @a = (1) x 5000000; while (1) { $s += $_ for @a }' &
watched=$!
trap 'kill $watched 2> /dev/null; rm -r "$folder"' EXIT
settings > "$folder/before"
few=$(some)
declare -A runs=() changed=() wrong=()
refused=0 second=0
ended=0
for ((run = 0; run < ${1:-100}; run++)); do
  case $((run % 3)) in
    0) what=thp-always ;;
    1) what=hugetlb-2m ;;
    2) what=watch ;;
  esac
  case $((run / 3 % 3)) in
    0) signal=KILL ;;
    1) signal=TERM ;;
    2) signal=GUARD ;;
  esac
  if [ $what = watch ]; then
    "$farreach" watch -p $watched --for 1h --interval 100ms &> "$folder/said" &
  else
    "$farreach" advise --runs 1 --verify 1000 --apply --change $what -m today/zen3 -- "${program[@]}" \
      &> "$folder/said" &
  fi
  killed=$!
  # Until the first change, or of a watch that changes none a moment, then for a random while.
  for ((wait = 0; wait < 1000; wait++)); do
    if [ "$(some)" != "$few" ] || ! kill -0 $killed 2> /dev/null; then break; fi
    if [ $what = watch ] && [ "$method" != damon ] && ((wait > 5)); then break; fi
    sleep 0.02
  done
  sleep 0.$((RANDOM % 9))$((RANDOM % 10))
  runs[$what]=$((${runs[$what]:-0} + 1))
  if [ "$(some)" != "$few" ]; then changed[$what]=$((${changed[$what]:-0} + 1)); fi
  if [ $what != watch ]; then
    second=$((second + 1))
    if ! "$farreach" advise --verify 1 --apply -- "${program[@]}" &> "$folder/second" &&
      grep -q "another farreach changes settings of this machine: process $killed," "$folder/second"; then
      refused=$((refused + 1))
    else
      echo "run $run, $what: the second was not refused: $(tail -n 1 "$folder/second")"
    fi
  fi
  if [ $signal = GUARD ]; then
    pkill -KILL -P $killed -x farreach-guard || true
    signal=TERM
  fi
  if ! kill -$signal $killed 2> /dev/null; then
    ended=$((ended + 1))
    echo "run $run, $what: it ended by itself: $(tail -n 1 "$folder/said")"
  fi
  wait $killed 2> /dev/null || true
  for ((try = 0; try < 20; try++)); do
    settings > "$folder/after"
    if cmp -s "$folder/before" "$folder/after"; then break; fi
    sleep 0.05
  done
  if ! cmp -s "$folder/before" "$folder/after"; then
    wrong[$what]=$((${wrong[$what]:-0} + 1))
    echo "run $run, $what, SIG$signal: not as before:"
    diff "$folder/before" "$folder/after" || true
  fi
done
all=0
for what in thp-always hugetlb-2m watch; do
  echo "$what: ${runs[$what]:-0} runs, ${changed[$what]:-0} killed while a setting was changed," \
    "${wrong[$what]:-0} not restored"
  all=$((all + ${wrong[$what]:-0}))
done
echo "$(wc -l < "$folder/before") lines of settings compared; $ended runs ended by themselves"
echo "$refused of $second second runs were refused"
# A run that ends by itself proves nothing.
[ "$all" = 0 ] && ((ended * 10 <= run)) && ((refused + ended >= second))
