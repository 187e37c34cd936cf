#!/usr/bin/env bash
# Settings of the machine are as before after `farreach advise --verify --apply` was killed at random moments.
#
#   benches/advise-killed.sh [RUNS]     100 by default; about five seconds each; as root, and it writes to /sys
#
# Half of the runs change THP, half the pool of 2 MB pages. Of the signals half are SIGKILL, half SIGTERM. "Changed": a
# setting was changed when the signal came. The guard gets a second to restore.
set -euo pipefail
cd "$(dirname "$0")/.."
farreach=${FARREACH:-$PWD/target/release/farreach}
thp=/sys/kernel/mm/transparent_hugepage/enabled
pool=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
settings() { cat "$thp" "$pool"; }
program=(perl -e 'my @a = (1) x 300000; my $s = 0; $s += $_ for @a; exit 0')
before=$(settings)
changed=0 wrong=0 ended=0
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
for ((run = 1; run <= ${1:-100}; run++)); do
  change=thp-always signal=KILL
  if ((run % 2)); then change=hugetlb-2m; fi
  if ((run / 2 % 2)); then signal=TERM; fi
  "$farreach" advise --runs 1 --verify 1000 --apply --change "$change" -m today/zen3 -- "${program[@]}" \
    > /dev/null 2> "$errors" &
  advise=$!
  # Until the first change, then for a random while.
  until [ "$(settings)" != "$before" ] || ! kill -0 $advise 2> /dev/null; do sleep 0.02; done
  sleep 0.$((RANDOM % 9))$((RANDOM % 10))
  if [ "$(settings)" != "$before" ]; then changed=$((changed + 1)); fi
  if ! kill -$signal $advise 2> /dev/null; then
    ended=$((ended + 1))
    echo "run $run, $change: it ended by itself: $(tail -n 1 "$errors")"
  fi
  wait $advise 2> /dev/null || true
  for ((try = 0; try < 20; try++)); do
    if [ "$(settings)" = "$before" ]; then break; fi
    sleep 0.05
  done
  if [ "$(settings)" != "$before" ]; then
    wrong=$((wrong + 1))
    echo "run $run, $change, SIG$signal: not restored: $(settings | tr '\n' ' ')"
  fi
done
echo "$((run - 1 - ended)) runs killed, $changed while a setting was changed, $wrong not restored"
[ "$wrong" = 0 ]
