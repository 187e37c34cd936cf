/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* A reader for tests: makes the run's folder, runs QEMU, checks the stream, and says what was in it.

     drain [-q] FOLDER COMMAND...     -q: takes the words and looks at none, for speed

   Checked: each block is defined, once; words fit; the tally agrees; each page is in the tables that the stream told,
   at each reference (walked anew after every change of tables), in the form of x86-64, of satp, or as TCR_EL1 says. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../valgrind/stream.h"

typedef unsigned long long u64;
#define MASK ((1ULL << 57) - 1)
#define CACHE 65536

struct block { unsigned words, instrs, refs, loads, stores; u64 tally; u64 first, last; unsigned char* size; };
static struct block* blocks[1 << 26 >> 10];
static u64 records[40], tally, n_blocks, n_refs, n_instrs, words_in, bad, hash = 14695981039346656037ULL;
static u64 kernel_refs, refs_only;
static u64* mirror[1 << 24];
static u64 root0[64], root1[64], control[64], cpu, space_root[1 << 20], space, arch, counters[FR_COUNTERS];
static struct known { u64 page, era, space; } cache[CACHE];
static u64 era = 1, privilege, walks;
static int ended, quick;

static struct block* block(u64 id)
{
   struct block** piece = &blocks[id >> 10];
   if (!*piece)
      *piece = calloc(1024, sizeof **piece);
   return &(*piece)[id & 1023];
}

static void wrong(const char* what, u64 a, u64 b)
{
   if (bad++ < 20)
      fprintf(stderr, "drain: %s %llx %llx (block %llu)\n", what, a, b, n_blocks);
}

static u64 word_at(u64 pa)
{
   u64* f = pa >> 12 < 1 << 24 ? mirror[pa >> 12] : NULL;
   return f ? f[pa >> 3 & 511] : 0;
}

/* Whether the page is there. */
static int is_mapped(u64 va)
{
   int upper = va >> 56 & 1;
   walks++;
   if (arch == FR_X86) {
      u64 table = root0[cpu] & 0xffffffffff000;
      for (int level = control[cpu] >> 12 & 1 ? 4 : 3; level >= 0; level--) {
         u64 w = word_at(table + (va >> (12 + 9 * level) & 511) * 8);
         if (!(w & 1)) return 0;
         if (level == 0 || (level < 3 && w & 0x80)) return 1;
         table = w & 0xffffffffff000;
      }
   }
   if (arch == FR_RISCV64) {
      int level = (int)(root0[cpu] >> 60) - 6;
      u64 table = (root0[cpu] & 0xfffffffffff) << 12;
      for (; level >= 0; level--) {
         u64 w = word_at(table + (va >> (12 + 9 * level) & 511) * 8);
         if (!(w & 1)) return 0;
         if (w & 14) return 1;
         table = (w >> 10 & 0xfffffffffff) << 12;
      }
      return 0;
   }
   static const int lower_g[4] = { 12, 16, 14, 12 }, upper_g[4] = { 12, 14, 12, 16 };
   u64 tcr = control[cpu];
   int g = upper ? upper_g[tcr >> 30 & 3] : lower_g[tcr >> 14 & 3];
   int bits = 64 - (upper ? tcr >> 16 & 63 : tcr & 63), stride = g - 3;
   int top = (bits - g + stride - 1) / stride - 1;
   u64 table = (upper ? root1[cpu] : root0[cpu]) & 0xfffffffffffe;
   u64 in = va & ((1ULL << bits) - 1);
   for (int level = top; level >= 0; level--) {
      u64 w = word_at(table + (in >> (g + stride * level) & ((1 << stride) - 1)) * 8);
      if (!(w & 1)) return 0;
      if (level == 0 || (w & 2) == 0) return 1;
      table = w & 0xfffffffff000 & ~((1ULL << g) - 1);
   }
   return 1;
}

static void page(u64 va, const char* what)
{
   struct known now = { va >> 12, era, va >> 56 & 1 ? 0 : space }, *slot = &cache[(va >> 12) % CACHE];
   if (memcmp(slot, &now, sizeof now) == 0)
      return;
   if (!is_mapped(va))
      wrong(what, va, space);
   *slot = now;
}

static void record(u64 head, const u64* p)
{
   unsigned type = head >> 32 & 0x7fffffff, words = (unsigned)head;
   records[type < 40 ? type : 39]++;
   switch (type) {
      case FR_DEFINE: {
         struct block* b = block(p[0]);
         if (b->instrs || b->refs) wrong("defined twice", p[0], 0);
         b->instrs = (unsigned)p[1]; b->refs = p[1] >> 32; b->words = b->refs;
         if (words != 2 + b->instrs + b->refs) wrong("definition of another length", words, b->instrs + b->refs);
         if (!b->instrs && !b->refs) wrong("empty block", p[0], 0);
         unsigned before = 0;
         b->size = malloc(b->refs + 1);
         for (unsigned i = 0; i < b->refs; i++) {
            u64 r = p[2 + b->instrs + i];
            unsigned after = r & 0xffff;
            if (after < before || after > b->instrs || (r >> 16 & 0xffff) != i) wrong("reference", r, i);
            before = after;
            b->size[i] = r >> 32;
            if (r >> 63) b->stores++; else b->loads++;
         }
         b->tally = FR_TALLY(b->instrs, b->loads, b->stores);
         if (b->instrs) { b->first = p[2] & MASK; b->last = (p[1 + b->instrs] & MASK) + (p[1 + b->instrs] >> 57) - 1; }
         break;
      }
      case FR_MACHINE: arch = (unsigned)p[0]; break;
      case FR_PROCESSOR: cpu = p[0]; break;
      case FR_SPACE: space = p[0]; space_root[space] = root0[cpu]; break;
      case FR_REGISTER: (p[0] == 0 ? root0 : p[0] == 1 ? root1 : control)[cpu] = p[1]; era++; break;
      case FR_PRIVILEGE: privilege = p[0]; break;
      case FR_ENTRIES: {
         u64** f = &mirror[p[0] >> 12];
         if (!*f) *f = calloc(512, 8);
         for (unsigned i = 1; i < words; i++) (*f)[(p[0] >> 3 & 511) + i - 1] = p[i];
         era++;
         break;
      }
      case FR_NAME:
         if (getenv("NAMES"))
            printf("name %u: %.*s\n", (unsigned)p[0], (int)(p[0] >> 32), (char*)(p + 1));
         break;
      case FR_SUMMARY: memcpy(counters, p, sizeof counters); break;
      case FR_END: ended = 1; if (p[1] != tally) wrong("tally", p[1], tally); break;
   }
}

static void chunk(const u64* w, unsigned n)
{
   words_in += n;
   for (unsigned i = 0; i < n;) {
      if (w[i] >> 63) { record(w[i], w + i + 1); i += 1 + (unsigned)w[i]; continue; }
      u64 id = (unsigned)w[i], k = w[i] >> 32;
      struct block* b = block(id);
      if (w[i] == 0 || (!b->instrs && !b->refs) || b->words != k) { wrong("block", w[i], b->words); return; }
      n_blocks++; n_instrs += b->instrs; n_refs += b->refs; tally += b->tally; refs_only += b->instrs == 0;
      if (b->instrs) {
         page(b->first, "fetch"); page(b->last, "fetch");
         if ((b->first >> 56 & 1) != privilege) wrong("privilege", b->first, privilege);
      }
      for (unsigned r = 0; r < k; r++) {
         u64 a = w[i + 1 + r];
         kernel_refs += a >> 56;
         page(a, "reference"); 
         if ((a & 4095) + b->size[r] > 4096) page(a + b->size[r] - 1, "end of reference");
      }
      i += 1 + k;
   }
}

static void* map(const char* dir, const char* name, size_t bytes, int flags)
{
   char path[4096];
   snprintf(path, sizeof path, "%s/%s", dir, name);
   int fd = open(path, flags, 0600);
   if (fd < 0 || (flags & O_CREAT && ftruncate(fd, bytes))) { perror(path); exit(1); }
   if (flags & O_CREAT) flock(fd, LOCK_EX);
   return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

int main(int argc, char** argv)
{
   struct stat ns;
   if (argc > 1 && strcmp(argv[1], "-q") == 0) { quick = 1; argv++; argc--; }
   if (argc < 3) return 2;
   const char* dir = argv[1];
   mkdir(dir, 0700);
   char path[4096];
   snprintf(path, sizeof path, "%s/ring.0", dir); unlink(path);
   snprintf(path, sizeof path, "%s/control", dir); unlink(path);
   struct fr_control* c = map(dir, "control", sizeof *c, O_RDWR | O_CREAT | O_CLOEXEC);
   stat("/proc/self/ns/pid", &ns);
   c->magic = FR_MAGIC; c->version = FR_VERSION; c->pid_namespace = ns.st_ino; c->next_block = 1;
   pid_t child = fork();
   if (child == 0) { execvp(argv[2], argv + 2); perror(argv[2]); _exit(127); }
   struct fr_ring* ring = NULL;
   u64 seq = 0; int status = 0, gone = 0;
   while (1) {
      unsigned place = __atomic_load_n(&c->order[seq % FR_ORDER], __ATOMIC_SEQ_CST);
      if (!place) {
         if (gone) break;
         usleep(200);
         gone = waitpid(child, &status, WNOHANG) == child;
         continue;
      }
      __atomic_store_n(&c->order[seq % FR_ORDER], 0, __ATOMIC_SEQ_CST);
      seq++;
      if (!ring) ring = map(dir, "ring.0", FR_RING_HEAD + FR_CHUNKS * FR_CHUNK_WORDS * 8, O_RDWR);
      unsigned at = ring->consumed % FR_CHUNKS;
      u64* w = (u64*)((char*)ring + FR_RING_HEAD) + (size_t)at * FR_CHUNK_WORDS;
      if (quick) words_in += ring->used[at]; else chunk(w, ring->used[at]);
      if (seq == 1) w[1] &= ~0xffffffffULL; /* the process id */
      if (!quick) for (unsigned i = 0; i < ring->used[at]; i++) hash = (hash ^ w[i]) * 1099511628211ULL;
      memset(w, 0, ring->used[at] * 8ULL);
      __atomic_fetch_add(&ring->consumed, 1, __ATOMIC_SEQ_CST);
      if (__atomic_load_n(&ring->writer_waits, __ATOMIC_SEQ_CST)) {
         /* FUTEX_WAKE */
         extern long syscall(long, ...);
         syscall(202, &ring->consumed, 1, 1, 0, 0, 0);
      }
   }
   struct rusage use;
   getrusage(RUSAGE_CHILDREN, &use);
   printf("processor time of QEMU: %.2f s\n", use.ru_utime.tv_sec + use.ru_stime.tv_sec
          + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
   if (c->failed) printf("failure: %s\n", c->failure);
   if (quick) { printf("words %llu status %x\n", words_in, status); return 0; }
   printf("status %x words %llu blocks %llu instrs %llu refs %llu kernel refs %llu refs-only blocks %llu\n", status,
          words_in, n_blocks, n_instrs, n_refs, kernel_refs, refs_only);
   printf("records:");
   for (int i = 0; i < 40; i++) if (records[i]) printf(" %d:%llu", i, records[i]);
   static const char* names[] = { "compared", "different", "cuts", "retries", "unknown edges", "table frames", "device",
                                  "untranslated", "firmware" };
   printf("\ncounters:");
   for (int i = 0; i < FR_COUNTERS; i++) printf(" %s %llu", names[i], counters[i]);
   printf("\nwalks %llu ended %d hash %016llx wrong %llu\n", walks, ended, hash, bad);
   return bad || !ended;
}
