# A dictionary with the given number of entries, filled; a fifth of them is read in another order.
import sys

n = int(sys.argv[1])
d = {i * 7919: i for i in range(n)}
total = 0
for j in range(n // 5):
    total += d[j * 48271 % n * 7919]
print(total)
