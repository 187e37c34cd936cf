/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The callbacks that run at each block and at each reference. What is as it was the last time costs a few comparisons
   and a word; what is not goes on elsewhere. */

#include "recorder.h"

/* QEMU 10.0 tells the wrong number of the processor where several run in one thread: it is that of the one for which
   the block was translated. But generated code has the address of the processor's state in a register, which the C
   code that it calls keeps, and which this file leaves alone. The register is known for x86-64 hosts only; on others
   there is one processor, which has no state. */
#ifdef __x86_64__
register const void* state __asm__("rbp");
const bool           blocks_know_processors = true;
#else
#define state NULL
const bool blocks_know_processors = false;
#endif

struct hot hot;

/* ---- Blocks ---- */

static inline __attribute__((always_inline)) void begin(struct code* code, struct tb* tb, struct node* root)
{
   hot.head = hot.at++;
   hot.node = root;
   hot.tb = tb;
   hot.code = code;
   *hot.reached = 0;
}

/* Whether the block word of this end is known. */
static inline __attribute__((always_inline)) bool ends_known(struct code* code, struct node* n)
{
   if (likely(code->ended == n))
      return true;
   if (n->word == 0)
      return false;
   code->ended = n;
   code->word = n->word;
   code->tally = n->tally;
   return true;
}

/* Under icount, each part of a string instruction is a block of its own. */
static inline __attribute__((always_inline)) bool goes_on(struct code* code)
{
   struct tb* tb = hot.tb;
   if (code != hot.code || !tb || tb != code->now || !tb->again || tb->known != hot.begins || state != hot.state
       || *hot.reached != (u64)code || hot.at >= hot.limit || !ends_known(code, hot.node))
      return false;
   *hot.head = code->word;
   hot.tally += code->tally;
   check_left(1, 0);
   begin(code, tb, tb->again);
   return true;
}

static __attribute__((noinline)) void block_slowly(struct code* code)
{
   struct tb* tb;
   if (!goes_on(code) && (tb = edges_begin(state, code)))
      begin(code, tb, &tb->root);
}

void callbacks_block(unsigned number, void* user)
{
   struct code *code = user, *last = hot.code;
   (void)number;
   if (unlikely(code->begins != hot.begins || state != hot.state || *hot.reached != (u64)last || hot.at >= hot.limit
                || !ends_known(last, hot.node))) {
      block_slowly(code);
      return;
   }
   *hot.head = last->word;
   hot.tally += last->tally;
   begin(code, code->now, &code->now->root);
}

void callbacks_last(unsigned number, void* code)
{
   (void)number;
   *hot.reached = (u64)code;
}

/* ---- References ---- */

/* Nothing is to be done for this page: the reader has all tables on the way there, and no store there is watched. */
static inline __attribute__((always_inline)) bool is_in(const u64* pages, u64 a)
{
   u64 page = a >> 12;
   return pages[page % KNOWN] == (page | hot.stamps[a >> (FR_ADDRESS_BITS - 1)]);
}

static inline __attribute__((always_inline)) void write_word(u64 a, struct node* to)
{
   *hot.at++ = a;
   hot.node = to;
}

static __attribute__((noinline)) void access_slowly(u32 info, u64 va, const struct insn* insn)
{
   if (!recording)
      return;
   insn = edges_access(state, insn);
   if (!insn) {
      counters[vcpu && vcpu->mode == arch->firmware_mode ? FR_FIRMWARE : FR_UNTRANSLATED]++;
      check_left(0, 1);
      if (qemu_plugin_mem_is_store(info))
         tables_stored_unseen(info, va);
      return;
   }
   if (hot.node->depth == MAX_REFS)
      blocks_split();
   u64          a = canonical(va);
   struct node* to = blocks_successor(hot.node, insn, info);
   if ((va & 4095) <= to->last && is_in(known[to->store], a)) {
      write_word(a, to);
      return;
   }
   unsigned    bytes = 1u << to->shift, in_first = 4096 - (va & 4095);
   struct walk ways[2];
   walk_access(info, va, bytes, to->store, ways);
   write_word(a, to);
   if (to->store) {
      tables_stored(&ways[0], bytes < in_first ? bytes : in_first);
      if (bytes > in_first)
         tables_stored(&ways[1], bytes - in_first);
   }
}

/* A reference that its predecessor had as successor. */
static inline __attribute__((always_inline)) void access_next(u32 info, u64 va, u64 a, const struct guess* g)
{
   struct node* to = hot.node->next;
   if (likely(to->guess == g && to->info == info && (va & 4095) <= to->last && is_in(known[to->store], a)))
      write_word(a, to);
   else
      access_slowly(info, va, insn_of(g));
}

/* Not the first reference of its instruction, or not as the last time. */
static __attribute__((noinline)) void access_otherwise(u32 info, u64 va, u64 a, const struct guess* g)
{
   access_next(info, va, a, g);
}

static inline __attribute__((always_inline)) void access_guessed(u32 info, u64 va, u64 a, const struct guess* g)
{
   if (likely(g->from == hot.node && g->info == info && (va & 4095) <= g->last && is_in(g->known, a)))
      write_word(a, g->to);
   else
      access_otherwise(info, va, a, g);
}

/* Of AArch64, the top byte is ignored, and bit 55 decides the half. */
#define CALLBACK(name, access, address)                                       \
   static void name(unsigned number, u32 info, u64 va, void* guess)           \
   {                                                                          \
      (void)number;                                                           \
      access(info, va, (address) & ADDRESS_MASK, guess);                      \
   }
CALLBACK(on_access, access_guessed, va)
CALLBACK(on_access_aarch64, access_guessed, (u64)((int64_t)(va << 8) >> 8))
CALLBACK(on_string, access_next, va)
CALLBACK(on_string_aarch64, access_next, (u64)((int64_t)(va << 8) >> 8))

/* A string instruction makes many references, of which one in a piece is the first. */
mem_cb callbacks_access(const struct insn* insn)
{
   bool string = insn->does & DOES_STRING;
   return arch->number == FR_AARCH64 ? string ? on_string_aarch64 : on_access_aarch64 : string ? on_string : on_access;
}
