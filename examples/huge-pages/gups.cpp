// Random updates of one array: MEGABYTES, UPDATES.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
int main(int argc, char **argv) {
    size_t words = (argc > 1 ? atoll(argv[1]) : 256) << 17;
    uint64_t updates = argc > 2 ? atoll(argv[2]) : 20000000, x = 1, sum = 0;
    std::vector<uint64_t> table(words, 1);
    for (uint64_t i = 0; i < updates; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        sum += table[(x >> 33) * words >> 31] ^= x;
    }
    printf("%llu\n", (unsigned long long)sum);
}
