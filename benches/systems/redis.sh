#!/bin/sh
# A redis with small values, set and read by 20 clients over the loopback.
redis-server --port 6379 --save '' --appendonly no --daemonize yes > /dev/null
until redis-cli ping > /dev/null 2>&1; do sleep 0.1; done
redis-benchmark -q -c 20 -n 8000 -r 100000 -d 100 -t set,get > /dev/null
redis-cli shutdown nosave
