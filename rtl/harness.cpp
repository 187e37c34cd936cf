// Runs a verilated module through sequences of requests: reads batches of them from standard input, writes the answers
// to standard output. Who checks the answers is at the other end of the pipes (crates/farreach-rtl/src/model.rs).
//
// All numbers are 64 bits, little endian. A message is a kind and its words:
//   1 RUN    count, words, then the words: `count` requests. Answers: `count` of them.
//   2 TRACE  number of a request of the last batch, length of a file name, the name in words. The batch is run again
//            from where it began, and what happens up to a few cycles after the answer is written to that file.
//            Answers: 1 if that went well.
// A request:
//   0 op, bit 3 fetch, bit 4 store, bit 5 state wanted, from bit 8 size, 16 attributes, 24 number of further words, 32
//     address space
//   1 page   2 LIMIT   3 frame or OFFSET   4 root
//   then further words: of a line, page table entries (attributes from bit 0, frame from bit 8, bit 63 valid); of
//   memory, addresses and what is there in turn.
// An answer:
//   0 bit 0 hit, 1 part, 2 evict, 3 memory was read where the request has none; from bit 8 size, 16 attributes, 32 slot
//   1 frame or OFFSET   2 cycle in which the request was accepted   3 cycle of the answer   4 BASE   5 LIMIT
//   then, if wanted, valid, modified and used bits, each in whole words.
#include "Vrtl.h"
#include "verilated.h"
#include "verilated_fst_c.h"
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace {

using Words = std::vector<uint64_t>;

// Ports have the smallest C type that holds them, or are arrays of 32-bit words. Bits that they do not have must be 0.
template <class T> void put(T &port, const uint64_t *words) {
    if constexpr (std::is_integral_v<T>) {
        port = static_cast<T>(*words);
    } else {
        for (size_t i = 0; i < sizeof(port) / 4; i++) port[i] = static_cast<uint32_t>(words[i / 2] >> (i % 2 * 32));
    }
}
template <class T> void put(T &port, uint64_t word) {
    if constexpr (std::is_integral_v<T>) {
        port = static_cast<T>(word);
    } else {
        for (size_t i = 0; i < sizeof(port) / 4; i++) port[i] = i < 2 ? static_cast<uint32_t>(word >> (i * 32)) : 0;
    }
}
template <class T> void append(const T &port, Words &into) {
    if constexpr (std::is_integral_v<T>) {
        into.push_back(port);
    } else {
        for (size_t i = 0; i < sizeof(port) / 4; i += 2) {
            uint64_t high = i + 1 < sizeof(port) / 4 ? port[i + 1] : 0;
            into.push_back(port[i] | high << 32);
        }
    }
}

constexpr int HEAD = 5;
constexpr int SETTLE = 3;      // cycles after which what an answer tells of has happened
constexpr int PATIENCE = 1000000; // cycles without an answer

struct Bench {
    VerilatedContext context;
    Vrtl *top = nullptr;
    VerilatedFstC *wave = nullptr;
    uint64_t cycle = 0;
    // Memory: the request that reads it, when the answer is due, and what it is.
    const uint64_t *memory = nullptr;
    size_t memory_words = 0;
    int answer_in = 0;
    uint64_t answer = 0;
    bool bad = false;

    Bench() {
        context.traceEverOn(true);
        context.randReset(2); // what nothing has set holds anything
        context.randSeed(1);
        top = new Vrtl(&context);
        top->rst = 1;
        top->req_valid = 0;
        put(top->locked, uint64_t{0});
        for (int i = 0; i < 4; i++) half(), rise();
        top->rst = 0;
    }

    void dump(uint64_t time) {
        if (wave) wave->dump(time);
    }
    void half() {
        top->clk = 0;
        top->eval();
        dump(2 * cycle);
    }
    void rise() {
        top->clk = 1;
        top->eval();
        dump(2 * cycle + 1);
        cycle++;
    }

    void ask(const uint64_t *request) {
        uint64_t head = request[0];
        top->req_op = head & 7;
        top->req_fetch = head >> 3 & 1;
        top->req_store = head >> 4 & 1;
        put(top->req_size, head >> 8 & 0xff);
        put(top->req_attr, head >> 16 & 0xff);
        put(top->req_asid, head >> 32);
        put(top->req_vpn, request[1]);
        put(top->req_limit, request[2]);
        put(top->req_pfn, request[3] & ((uint64_t{1} << PFN_W) - 1)); // OFFSET may be negative
#ifdef HAS_ROOT
        put(top->req_root, request[4]);
#endif
#ifdef HAS_LINE
        const size_t bits = sizeof(top->req_line) * 8;
        Words line(bits / 64 + 1, 0);
        size_t at = 0;
        auto push = [&](uint64_t value, int width) {
            for (int i = 0; i < width; i++, at++)
                if (value >> i & 1) line[at / 64] |= uint64_t{1} << (at % 64);
        };
        for (size_t i = 0; i < (head >> 24 & 0xff); i++) {
            uint64_t pte = request[HEAD + i];
            push(pte & 0xff, ATTR_W);
            push(pte >> 8, PFN_W);
            push(pte >> 63, 1);
        }
        put(top->req_line, line.data());
#endif
    }

#ifdef HAS_MEMORY
    // Memory is ready in two of three cycles and takes two cycles to answer.
    void serve_before() {
        top->mem_ready = cycle % 3 != 0;
        top->mem_answer = answer_in == 1;
        top->mem_data = answer_in == 1 ? answer : 0xdeadbeefdeadbeef;
    }
    void serve_after() {
        if (answer_in > 0) answer_in--;
        if (top->mem_valid && top->mem_ready) {
            answer_in = 2;
            answer = 0;
            bool known = false;
            for (size_t i = 0; i + 1 < memory_words; i += 2) {
                if (memory[i] == static_cast<uint64_t>(top->mem_addr)) answer = memory[i + 1], known = true;
            }
            bad = bad || !known;
        }
    }
#else
    void serve_before() {}
    void serve_after() {}
#endif

    void tell(uint64_t accepted, Words &into) {
        uint64_t head = uint64_t{top->ans_hit} | uint64_t{top->ans_part} << 1 | uint64_t{top->ans_evict} << 2 |
                        uint64_t{bad} << 3 | uint64_t{top->ans_size} << 8 | uint64_t{top->ans_attr} << 16 |
                        uint64_t{top->ans_slot} << 32;
        into.insert(into.end(), {head, static_cast<uint64_t>(top->ans_pfn), accepted, cycle});
#ifdef HAS_RANGE
        into.insert(into.end(), {static_cast<uint64_t>(top->ans_base), static_cast<uint64_t>(top->ans_limit)});
#else
        into.insert(into.end(), {0, 0});
#endif
        bad = false;
    }

    // Runs requests up to and including number `last`, and some cycles more.
    Words run(const Words &words, size_t last) {
        Words answers;
        std::vector<const uint64_t *> under_way;
        std::vector<uint64_t> accepted;
        size_t first = 0, place = 0, number = 0; // of those under way; in `words`; of the next request
        int settle = 0, idle = 0;
        bool barrier = false;
        while (number <= last || first < under_way.size() || settle > 0) {
            bool asks = number <= last && !barrier;
            top->req_valid = asks;
            const uint64_t *request = words.data() + place;
            if (asks) ask(request);
            serve_before();
            half();
            if (asks && top->req_ready) {
                under_way.push_back(request);
                accepted.push_back(cycle);
                size_t further = request[0] >> 24 & 0xff;
                memory = request + HEAD;
                memory_words = further;
                place += HEAD + further;
                number++;
                barrier = request[0] >> 5 & 1;
            }
            if (settle > 0 && --settle == 0) {
                append(top->valid, answers);
                append(top->modified, answers);
                append(top->used, answers);
                barrier = false;
            }
            if (top->ans_valid) {
                if (first == under_way.size()) fail("an answer without a request");
                tell(accepted[first], answers);
                if (under_way[first][0] >> 5 & 1) settle = SETTLE;
                first++;
                idle = 0;
            } else if (++idle > PATIENCE) {
                fail("a request that is never answered");
            }
            serve_after();
            rise();
        }
        return answers;
    }

    [[noreturn]] void fail(const char *what) {
        std::fprintf(stderr, "cycle %llu: %s\n", static_cast<unsigned long long>(cycle), what);
        if (wave) wave->close();
        std::exit(3);
    }
};

bool read_words(int from, uint64_t *into, size_t count) {
    char *at = reinterpret_cast<char *>(into);
    size_t left = count * 8;
    while (left > 0) {
        ssize_t n = read(from, at, left);
        if (n <= 0) return false;
        at += n, left -= n;
    }
    return true;
}

bool write_words(int to, const uint64_t *from, size_t count) {
    const char *at = reinterpret_cast<const char *>(from);
    size_t left = count * 8;
    while (left > 0) {
        ssize_t n = write(to, at, left);
        if (n <= 0) return false;
        at += n, left -= n;
    }
    return true;
}

// A copy of this process that waits, so that a batch can be run again from where it began.
struct Snapshot {
    int pipe_to = -1;
    pid_t child = -1;

    void take(Bench &bench, const Words &words) {
        int ends[2];
        if (pipe(ends) != 0) std::exit(4);
        child = fork();
        if (child < 0) std::exit(4);
        if (child > 0) {
            close(ends[0]);
            pipe_to = ends[1];
            return;
        }
        close(ends[1]);
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        uint64_t ask[2];
        if (!read_words(ends[0], ask, 2)) _exit(0);
        Words text(ask[1] / 8 + 1, 0);
        if (!read_words(ends[0], text.data(), text.size())) _exit(0);
        std::string name(reinterpret_cast<const char *>(text.data()), ask[1]);
        bench.wave = new VerilatedFstC;
        bench.top->trace(bench.wave, 99);
        bench.wave->open(name.c_str());
        if (!bench.wave->isOpen()) _exit(5);
        bench.run(words, ask[0]);
        bench.top->req_valid = 0;
        for (int i = 0; i < 4; i++) bench.half(), bench.rise();
        bench.wave->close();
        _exit(0);
    }
    int drop() {
        if (child < 0) return 0;
        close(pipe_to);
        int status = 0;
        waitpid(child, &status, 0);
        child = -1;
        return status;
    }
};

} // namespace

int main() {
    Bench bench;
    Snapshot snapshot;
    Words words;
    uint64_t message[3];
    while (read_words(STDIN_FILENO, message, 3)) {
        if (message[0] == 1) {
            snapshot.drop();
            words.resize(message[2]);
            if (!read_words(STDIN_FILENO, words.data(), words.size())) return 1;
            snapshot.take(bench, words);
            Words answers = bench.run(words, message[1] - 1);
            if (!write_words(STDOUT_FILENO, answers.data(), answers.size())) return 1;
        } else {
            Words name(message[2] / 8 + 1, 0);
            if (!read_words(STDIN_FILENO, name.data(), name.size())) return 1;
            uint64_t well = write_words(snapshot.pipe_to, message + 1, 2) &&
                            write_words(snapshot.pipe_to, name.data(), name.size());
            well = snapshot.drop() == 0 && well;
            if (!write_words(STDOUT_FILENO, &well, 1)) return 1;
        }
    }
    snapshot.drop();
    return 0;
}
