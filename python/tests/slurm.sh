#!/usr/bin/env bash
# Starts Slurm on this machine, one node, and runs a command under it: slurm.sh COMMAND ARG...
# To be run in mount, network and process namespaces of its own (unshare): nothing of it is seen outside, and all of it
# ends with them. Exit status 77: it cannot be had here.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "slurm.sh: root is needed" >&2; exit 77; }
command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null \
  || { echo "slurm.sh: Debian's slurm-wlm and munge are needed" >&2; exit 77; }

work=$(mktemp -d)
mkdir -p "$work"/{etc,state,spool,munge,log}
ip link set lo up
# Slurm does not take the loopback address for a node's.
address=10.111.0.1
ip address add "$address/32" dev lo
host=$(hostname -s)
cp /etc/hosts "$work/hosts"
echo "$address $host" | cat - /etc/hosts > "$work/hosts"
mount --bind "$work/hosts" /etc/hosts
mount -o remount,ro,bind /sys 2>/dev/null || mount --bind -o ro /sys /sys || true

# Keys and sockets of its own.
chown munge: "$work/munge" && chmod 755 "$work" && chmod 711 "$work/munge"
dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 status=none
chown munge: "$work/munge/key" && chmod 400 "$work/munge/key"
socket=$work/munge/socket
setpriv --reuid munge --regid munge --clear-groups munged --force --socket "$socket" --key-file "$work/munge/key" \
  --log-file "$work/munge/log" --pid-file "$work/munge/pid" --seed-file "$work/munge/seed"

cat > "$work/etc/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host($address)
AuthType=auth/munge
AuthInfo=socket=$socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=$address CPUs=$(nproc) RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
echo "CgroupPlugin=cgroup/v1" > "$work/etc/cgroup.conf"
export SLURM_CONF=$work/etc/slurm.conf
slurmctld
slurmd -N "$host"
for _ in $(seq 100); do
  sinfo -h -o %T 2>/dev/null | grep -q idle && break
  sleep 0.2
done
sinfo -h -o %T | grep -q idle || { echo "slurm.sh: the node does not come up" >&2; tail -n 20 "$work"/log/* >&2; exit 77; }
status=0
"$@" || status=$?
scancel --user "$(id -un)" 2>/dev/null || true
[ "$status" = 0 ] || tail -n 30 "$work"/log/* >&2
kill "$(cat "$work/slurmd.pid")" "$(cat "$work/slurmctld.pid")" "$(cat "$work/munge/pid")" 2>/dev/null || true
# They end with the namespaces in any case.
sleep 1
rm -rf "$work" 2>/dev/null || true
exit "$status"
