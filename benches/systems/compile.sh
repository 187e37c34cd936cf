#!/bin/sh
# The C compiler on a file of 300 functions, twice: as a build does.
cd /tmp
mawk 'BEGIN {
  for (i = 0; i < 300; i++)
    printf "int f%d(int a, int *b) { for (int i = 0; i < a; i++) b[i] += a * %d + b[i / 2]; return b[a]; }\n", i, i
}' > big.c
for i in 1 2; do gcc -O1 -c big.c -o big.o; done
