// Does the price of a walk depend on where the frames lie? Loads of one line in each of many pages of 4 KB, at random,
// in several pieces of memory one after the other, each beside the same in huge pages: MEGABYTES, PIECES. Nothing is
// freed, so each piece has other frames. Prints nanoseconds of processor time a load: loads that wait for each other
// (chain), and loads that do not (gather); the least of 8 rounds, after one that does not count.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

static double now() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

template <class Work> static double least(size_t loads, Work work) {
    double best = 1e300;
    for (int round = 0; round < 9; round++) {
        double began = now();
        work();
        if (round) best = std::min(best, (now() - began) / loads);
    }
    return best;
}

int main(int argc, char **argv) {
    constexpr size_t page = 4096, huge = 2 << 20, line = 64;
    size_t pages = (argc > 1 ? atoll(argv[1]) : 64) << 8, pieces = argc > 2 ? atoll(argv[2]) : 6;
    std::mt19937_64 random(1);
    std::vector<size_t> at(pages);
    for (size_t i = 0; i < pages; i++) at[i] = i * page + random() % (page / line) * line;
    std::shuffle(at.begin(), at.end(), random);
    for (size_t piece = 1; piece <= pieces; piece++) {
        printf("piece %zu:", piece);
        for (int advice : {MADV_NOHUGEPAGE, MADV_HUGEPAGE}) {
            size_t bytes = pages * page + huge;
            void *all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (all == MAP_FAILED) return perror("mmap"), 1;
            char *start = (char *)((uintptr_t(all) + huge - 1) & -huge);
            madvise(start, pages * page, advice);
            for (size_t i = 0; i < pages; i++) *(char **)(start + at[i]) = start + at[(i + 1) % pages];
            char *volatile end = start + at[0];
            double chain = least(pages, [&] {
                char *p = end;
                for (size_t i = 0; i < pages; i++) p = *(char **)p;
                end = p;
            });
            uintptr_t sum = 0;
            double gather = least(pages, [&] {
                for (size_t offset : at) sum += *(volatile uintptr_t *)(start + offset);
            });
            printf("  %s chain %5.1f gather %4.1f", advice == MADV_HUGEPAGE ? "huge pages" : "4 KB", chain, gather);
            if (sum == 1) puts("");
        }
        puts("");
    }
}
