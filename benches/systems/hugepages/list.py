# A list that is sorted, and a dictionary of it.
a = [i * 7919 % 1000003 for i in range(400000)]
a.sort()
print(len(dict(zip(a, a))))
