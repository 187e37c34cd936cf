#!/bin/sh
# A storm of short processes: 300 times fork, exec, exit.
i=0
while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done
