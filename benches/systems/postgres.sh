#!/bin/sh
# A database of one table of 100,000 rows, and 1,000 transactions of pgbench.
bin=$(echo /usr/lib/postgresql/*/bin)
echo 'postgres:x:70:70::/tmp:/bin/sh' >> /etc/passwd
mkdir /tmp/db && chown 70:70 /tmp/db && chmod 1777 /tmp && mkdir -p /dev/shm && chmod 1777 /dev/shm
run() { setpriv --reuid=70 --regid=70 --clear-groups env HOME=/tmp PATH="$bin:$PATH" "$@"; }
run initdb -A trust -D /tmp/db > /dev/null
run pg_ctl -w -D /tmp/db -o "-k /tmp -c fsync=off" -l /tmp/log start > /dev/null
run pgbench -h /tmp -i -s 1 -q postgres > /dev/null 2>&1
run pgbench -h /tmp -n -t 1000 postgres > /dev/null 2>&1
run pg_ctl -w -D /tmp/db stop > /dev/null
