// PageRank or BFS on a random graph: "pagerank" or "bfs", NODES, EDGES per node, ROUNDS.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
int main(int argc, char **argv) {
    bool rank = argc > 1 && !strcmp(argv[1], "pagerank");
    uint32_t nodes = argc > 2 ? atol(argv[2]) : 4000000, degree = argc > 3 ? atol(argv[3]) : 8;
    int rounds = argc > 4 ? atoi(argv[4]) : 3;
    uint64_t x = 1;
    std::vector<uint32_t> to(size_t(nodes) * degree);
    for (auto &t : to) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        t = (x >> 33) % nodes;
    }
    double sum = 0;
    if (rank) {
        std::vector<float> now(nodes, 1), next(nodes);
        for (int r = 0; r < rounds; r++) {
            for (uint32_t v = 0; v < nodes; v++) {
                float s = 0;
                for (uint32_t e = 0; e < degree; e++) s += now[to[size_t(v) * degree + e]];
                next[v] = 0.15f + 0.85f * s / degree;
            }
            now.swap(next);
        }
        for (float f : now) sum += f;
    } else {
        for (int r = 0; r < rounds; r++) {
            std::vector<int32_t> depth(nodes, -1);
            std::vector<uint32_t> queue{uint32_t(r)};
            depth[r] = 0;
            for (size_t at = 0; at < queue.size(); at++) {
                uint32_t v = queue[at];
                for (uint32_t e = 0; e < degree; e++) {
                    uint32_t w = to[size_t(v) * degree + e];
                    if (depth[w] < 0) { depth[w] = depth[v] + 1; queue.push_back(w); }
                }
            }
            sum += queue.size();
        }
    }
    printf("%f\n", sum);
}
