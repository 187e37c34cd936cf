// A random cycle through one array, followed: MEGABYTES, STEPS.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>
int main(int argc, char **argv) {
    size_t lines = (argc > 1 ? atoll(argv[1]) : 256) << 14;
    uint64_t steps = argc > 2 ? atoll(argv[2]) : 10000000, x = 1;
    struct Line { uint64_t next, rest[7]; };
    std::vector<Line> line(lines);
    for (size_t i = 0; i < lines; i++) line[i].next = i;
    for (size_t i = lines - 1; i > 0; i--) {  // Sattolo: one cycle
        x = x * 6364136223846793005u + 1442695040888963407u;
        std::swap(line[i].next, line[(x >> 33) % i].next);
    }
    uint64_t at = 0;
    for (uint64_t i = 0; i < steps; i++) at = line[at].next;
    printf("%llu\n", (unsigned long long)at);
}
