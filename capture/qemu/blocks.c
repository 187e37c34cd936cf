/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Translation blocks of QEMU, the shapes that their executions have, and the two callbacks that run all the time.

   A shape is a path in a trie: each reference leads to a successor. Where a path ended once, its block word is kept, so
   that an execution of a known shape costs a comparison per reference, and a word. QEMU does not say when it drops a
   translation; a block that is translated again is known by its code, and keeps its shapes. */

#include <stdlib.h>
#include <string.h>

#include "recorder.h"

#define BUCKETS 65536
#define ARENA   (1 << 20)

struct piece {
   struct piece* next;
   struct node   root;
};

struct hot  hot;
struct node nowhere = { .next = &nowhere };

static struct code* buckets[BUCKETS];
static struct tb*   starts[BUCKETS]; /* the first of those that begin at a place */

/* Nothing is given back: what was defined in the stream stays. */
static void* new(size_t bytes)
{
   static u8*    arena;
   static size_t left;
   bytes = (bytes + 15) & ~(size_t)15;
   if (bytes > left) {
      left = bytes > ARENA ? bytes : ARENA;
      arena = calloc(1, left);
      if (!arena)
         fail("no memory for translation blocks");
   }
   void* result = arena;
   arena += bytes;
   left -= bytes;
   return result;
}

/* ---- Shapes ---- */

static struct node* root_of(struct tb* tb, unsigned first)
{
   if (first == 0)
      return &tb->root;
   for (struct piece* p = tb->pieces; p; p = p->next)
      if (p->root.first == first)
         return &p->root;
   struct piece* p = new(sizeof *p);
   p->root = (struct node){ .next = &nowhere, .first = first };
   p->next = tb->pieces;
   tb->pieces = p;
   return &p->root;
}

static struct node* successor(struct node* from, const struct insn* insn, u32 info)
{
   struct node* n = from->children;
   while (n && (n->insn != insn || n->info != info))
      n = n->sibling;
   if (!n) {
      unsigned shift = qemu_plugin_mem_size_shift(info);
      bool     store = qemu_plugin_mem_is_store(info);
      n = new(sizeof *n);
      *n = (struct node){ .next = &nowhere, .insn = insn, .info = info, .last = 4096 - (1u << shift),
                          .known = store ? known_stores : known_loads, .parent = from, .sibling = from->children,
                          .depth = from->depth + 1, .first = from->first, .shift = shift, .store = store };
      from->children = n;
   }
   from->next = n;
   return n;
}

/* Tells the reader of the block that has the instructions of the piece up to `end`, and the references up to n. */
static struct end define(const struct tb* tb, const struct node* n, unsigned end)
{
   unsigned instrs = end - n->first, loads = 0, stores = 0;
   u32      id = ring_new_block();
   u64*     payload = ring_record(FR_DEFINE, 2 + instrs + n->depth);
   payload[0] = id;
   payload[1] = instrs | (u64)n->depth << 32;
   const struct insn* insn = tb->code->insn;
   for (unsigned i = n->first; i < end; i++)
      payload[2 + i - n->first] = canonical(tb->pc + insn[i].offset) | (u64)insn[i].length << FR_ADDRESS_BITS;
   for (const struct node* r = n; r->parent; r = r->parent) {
      u64 after = r->insn->index + 1 - (u64)n->first;
      payload[2 + instrs + r->depth - 1] = after | (u64)(r->depth - 1) << 16 | 1ULL << (r->shift + 32)
                                           | (u64)r->store << 63;
      loads += !r->store;
      stores += r->store;
   }
   return (struct end){ NULL, end, id | (u64)n->depth << 32, FR_TALLY(instrs, loads, stores) };
}

static const struct end* end_of(const struct tb* tb, struct node* n, unsigned instrs)
{
   for (struct end* e = n->ends; e; e = e->next)
      if (e->instrs == instrs)
         return e;
   struct end* e = new(sizeof *e);
   *e = define(tb, n, instrs);
   e->next = n->ends;
   n->ends = e;
   if (instrs == tb->code->instrs) {
      n->tally = e->tally;
      n->word = e->word;
   }
   return e;
}

void blocks_open(struct tb* tb, unsigned first)
{
   if (hot.at >= hot.limit)
      ring_publish();
   hot.head = hot.at++;
   hot.tb = tb;
   hot.code = tb->code;
   hot.node = root_of(tb, first);
}

void blocks_close(unsigned end)
{
   struct node* n = hot.node;
   unsigned     first = n->first;
   while (n->parent && n->insn->index >= end && n->insn->index >= first) {
      *--hot.at = 0;
      check_left(0, 1);
      n = n->parent;
   }
   if (end < first)
      end = first;
   if (end == first && !n->parent) {
      hot.at = hot.head;
   } else {
      const struct end* e = end_of(hot.tb, n, end);
      *hot.head = e->word;
      hot.tally += e->tally;
   }
   hot.head = NULL;
   hot.node = &nowhere;
}

/* Instructions that surely began, as their references show. */
unsigned blocks_done(void)
{
   unsigned first = hot.node->first;
   unsigned done = hot.node->parent ? hot.node->insn->index + 1u : 0;
   return done > first ? done : first;
}

/* One piece ends with the instruction of the last reference, another begins. */
void blocks_split(void)
{
   unsigned done = blocks_done();
   blocks_close(done);
   blocks_open(hot.tb, done);
}

/* ---- Callbacks ---- */

/* QEMU 10.0 tells the wrong number of the processor where several run in one thread: it is that of the one for which
   the block was translated. But generated code has the address of the processor's state in this register, which the C
   code that it calls keeps. The register is known for x86-64 hosts only; on others there is one processor, which has
   no state. */
#ifdef __x86_64__
#define WITH_STATE(callback, argument, function, parameters, arguments)                                            \
   static __attribute__((naked)) void callback(void)                                                               \
   {                                                                                                               \
      __asm__("mov %rbp, %" argument "\n\tjmp " #function);                                                        \
   }
const bool blocks_know_processors = true;
#else
#define WITH_STATE(callback, argument, function, parameters, arguments)                                            \
   static void callback parameters                                                                                 \
   {                                                                                                               \
      function arguments;                                                                                          \
   }
const bool blocks_know_processors = false;
#endif
#define BLOCK_STATE(callback, function)                                                                            \
   WITH_STATE(callback, "rdx", function, (unsigned number, void* user), (number, user, NULL))
#define ACCESS_STATE(callback, function)                                                                           \
   WITH_STATE(callback, "r8", function, (unsigned number, u32 info, u64 va, void* user),                           \
              (number, info, va, user, NULL))

__attribute__((used)) void block_begins(unsigned number, void* user, const void* state)
{
   (void)number;
   struct code*       code = user;
   struct tb*         tb = code->now;
   const struct node* n = hot.node;
   if (likely(tb->class == hot.class && tb->known == hot.stamp && state == hot.state && n->word != 0
              && *hot.reached == (u64)hot.code && hot.at < hot.limit)) {
      *hot.head = n->word;
      hot.tally += n->tally;
   } else if (!(tb = edges_begin(state, code))) {
      return;
   }
   hot.head = hot.at++;
   hot.tb = tb;
   hot.code = code;
   hot.node = &tb->root;
   *hot.reached = 0;
}
BLOCK_STATE(on_block, block_begins)

static __attribute__((noinline)) void access_slowly(const void* state, u32 info, u64 va,
                                                    const struct insn* insn)
{
   if (!recording)
      return;
   insn = edges_access(state, insn);
   if (!insn) {
      counters[FR_UNTRANSLATED]++;
      check_left(0, 1);
      return;
   }
   if (hot.node->depth == MAX_REFS)
      blocks_split();
   bool     store = qemu_plugin_mem_is_store(info);
   unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
   struct walk to[2];
   walk_access(info, va, bytes, store, to);
   hot.node = successor(hot.node, insn, info);
   *hot.at++ = canonical(va);
   if (store) {
      unsigned in_first = 4096 - (va & 4095);
      tables_stored(&to[0], bytes < in_first ? bytes : in_first);
      if (bytes > in_first)
         tables_stored(&to[1], bytes - in_first);
   }
}

/* A reference that its predecessor had as successor, to a page where nothing is to be done, is a word. */
static inline __attribute__((always_inline)) bool access_quickly(u32 info, u64 va, u64 a, const struct insn* insn)
{
   struct node* n = hot.node->next;
   u64          page = a >> 12;
   if (unlikely(n->insn != insn || n->info != info || (va & 4095) > n->last
                || n->known[page % KNOWN] != (page | hot.stamps[a >> (FR_ADDRESS_BITS - 1)])))
      return false;
   *hot.at++ = a;
   hot.node = n;
   return true;
}

__attribute__((used)) void access_x86(unsigned number, u32 info, u64 va, void* user, const void* state)
{
   (void)number;
   if (!access_quickly(info, va, va & ADDRESS_MASK, user))
      access_slowly(state, info, va, user);
}
ACCESS_STATE(on_access_x86, access_x86)

/* The top byte is ignored, and bit 55 decides the half. */
__attribute__((used)) void access_aarch64(unsigned number, u32 info, u64 va, void* user, const void* state)
{
   (void)number;
   if (!access_quickly(info, va, (u64)((int64_t)(va << 8) >> 8) & ADDRESS_MASK, user))
      access_slowly(state, info, va, user);
}
ACCESS_STATE(on_access_aarch64, access_aarch64)

static void on_last(unsigned number, void* code)
{
   (void)number;
   *hot.reached = (u64)code;
}

/* QEMU 10.0 spoils the number of the processor, and with it each constant of that value in the block, where it computes
   the place of an inline operation; 0 stays 0. So several processors have a call. */
static void mark_last(struct qemu_plugin_insn* insn, struct code* code)
{
   if (edges_processors == 1)
      qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_STORE_U64, edges_reached, (u64)code);
   else
      qemu_plugin_register_vcpu_insn_exec_cb(insn, on_last, QEMU_PLUGIN_CB_NO_REGS, code);
}

static void on_special(unsigned number, void* user)
{
   (void)number;
   edges_special(user);
}

/* ---- Translation ---- */

static u64 hash_of(u64 hash, const void* bytes, unsigned n)
{
   const u8* b = bytes;
   for (unsigned i = 0; i < n; i++)
      hash = (hash ^ b[i]) * 0x100000001b3;
   return hash;
}

struct tb* blocks_at(u64 pc, struct tb* after)
{
   struct tb* tb = after ? after->same_start : starts[hash_of(0, &pc, sizeof pc) % BUCKETS];
   while (tb && tb->pc != pc)
      tb = tb->same_start;
   return tb;
}

void blocks_classify(struct tb* tb)
{
   bool special = tb->vector >= 0 || tb->code->doubled || tb->code->insn[0].does & DOES_STRING;
   tb->class = special ? CLASS_SPECIAL : tb->half;
}

struct tb* blocks_run(struct code* code, u64 pc)
{
   struct tb* tb = code->tbs;
   while (tb && tb->pc != pc)
      tb = tb->next;
   if (!tb) {
      tb = new(sizeof *tb);
      *tb = (struct tb){ .code = code, .pc = pc, .end = pc + code->bytes, .next = code->tbs };
      tb->root.next = &nowhere;
      tb->half = canonical(pc) >> (FR_ADDRESS_BITS - 1);
      tb->vector = vectors_find(pc);
      struct tb** start = &starts[hash_of(0, &pc, sizeof pc) % BUCKETS];
      tb->same_start = *start;
      *start = tb;
      code->tbs = tb;
      blocks_classify(tb);
   }
   code->now = tb;
   return tb;
}

static struct code* find(const struct code* candidate, size_t bytes)
{
   struct code** bucket = &buckets[candidate->hash % BUCKETS];
   for (struct code* c = *bucket; c; c = c->chain)
      if (c->hash == candidate->hash && c->pc == candidate->pc && c->instrs == candidate->instrs) {
         bool same = true;
         for (unsigned i = 0; i < c->instrs && same; i++)
            same = c->insn[i].length == candidate->insn[i].length
                   && memcmp(c->insn[i].bytes, candidate->insn[i].bytes, sizeof c->insn[i].bytes) == 0;
         if (same)
            return c;
      }
   struct code* code = new(bytes);
   memcpy(code, candidate, bytes);
   for (unsigned i = 0; i < code->instrs; i++) {
      code->insn[i].code = code;
      arch->decode(&code->insn[i]);
   }
   code->chain = *bucket;
   *bucket = code;
   blocks_run(code, code->pc);
   return code;
}

void blocks_translated(qemu_plugin_id_t id, struct qemu_plugin_tb* translated)
{
   static union { struct code code; u8 room[sizeof(struct code) + FR_BLOCK_INSTRS * sizeof(struct insn)]; } space;
   (void)id;
   struct code* code = &space.code;
   unsigned     instrs = qemu_plugin_tb_n_insns(translated);
   size_t       bytes = sizeof *code + instrs * sizeof(struct insn);
   if (instrs > FR_BLOCK_INSTRS)
      fail("a translation block has %u instructions; %d are allowed", instrs, FR_BLOCK_INSTRS);
   if (instrs == 0)
      return;
   memset(code, 0, bytes);
   code->pc = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(translated, 0));
   code->instrs = instrs;
   code->hash = hash_of(0xcbf29ce484222325, &code->pc, sizeof code->pc);
   for (unsigned i = 0; i < instrs; i++) {
      struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(translated, i);
      struct insn*             own = &code->insn[i];
      own->index = i;
      own->offset = code->bytes;
      own->length = qemu_plugin_insn_size(insn);
      qemu_plugin_insn_data(insn, own->bytes, sizeof own->bytes);
      code->hash = hash_of(code->hash, own->bytes, own->length);
      code->bytes += own->length;
   }
   code = find(code, bytes);
   if (recording)
      qemu_plugin_register_vcpu_tb_exec_cb(translated, (exec_cb)on_block, QEMU_PLUGIN_CB_R_REGS, code);
   for (unsigned i = 0; i < instrs; i++) {
      struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(translated, i);
      struct insn*             own = &code->insn[i];
      if (recording) {
         if (i == instrs - 1)
            mark_last(insn, code);
         qemu_plugin_register_vcpu_mem_cb(insn, (mem_cb)(arch->number == FR_X86 ? on_access_x86 : on_access_aarch64),
                                          QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, own);
         check_count(insn);
      }
      if (own->does & (recording ? DOES_SPECIAL : DOES_MARK))
         qemu_plugin_register_vcpu_insn_exec_cb(insn, on_special, QEMU_PLUGIN_CB_R_REGS, own);
      if (own->does & DOES_VECTORS && arch->number == FR_X86)
         qemu_plugin_register_vcpu_mem_cb(insn, x86_vectors_loaded, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, own);
   }
}
