/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The shapes that executions of translation blocks have.

   A shape is a path in a trie: each reference leads to a successor. Where a path ended once, its block word is kept, so
   that an execution of a known shape costs a comparison per reference, and a word. */

#include "recorder.h"

struct piece {
   struct piece* next;
   struct node   root;
};

struct node nowhere = { .next = &nowhere };

static struct node* root_of(struct tb* tb, unsigned first)
{
   if (first == 0)
      return &tb->root;
   for (struct piece* p = tb->pieces; p; p = p->next)
      if (p->root.first == first)
         return &p->root;
   struct piece* p = keep(sizeof *p, 8);
   p->root = (struct node){ .next = &nowhere, .first = first };
   p->next = tb->pieces;
   tb->pieces = p;
   return &p->root;
}

struct node* blocks_successor(struct node* from, const struct insn* insn, u32 info)
{
   struct node* n = from->children;
   while (n && (n->insn != insn || n->info != info))
      n = n->sibling;
   if (!n) {
      unsigned shift = qemu_plugin_mem_size_shift(info);
      bool     store = qemu_plugin_mem_is_store(info);
      n = keep(sizeof *n, 32);
      *n = (struct node){ .next = &nowhere, .guess = guess_of(insn->code, insn->index), .info = info,
                          .last = 4096 - (1u << shift), .store = store, .shift = shift, .insn = insn, .parent = from,
                          .sibling = from->children, .depth = from->depth + 1, .first = from->first };
      from->children = n;
   }
   from->next = n;
   if (from->insn != insn)
      *n->guess = (struct guess){ from, n, known[n->store], info, n->last, insn->index };
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
   struct end* e = keep(sizeof *e, 8);
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

/* A line of memory was cleared by an instruction of the piece in progress. QEMU does that by itself: it shows no store,
   or one of each byte. Here it is one store of all of them. */
void blocks_zeroed(const struct insn* insn, u64 va, unsigned bytes)
{
   u32         info = (u32)__builtin_ctz(bytes) << 4 | QEMU_PLUGIN_MEM_W << 16;
   struct walk to = arch->walk(va, true);
   if (hot.node->depth == MAX_REFS)
      blocks_split();
   counters[FR_COMPARED] += !to.found;
   counters[FR_DIFFERENT] += !to.found;
   hot.node = blocks_successor(hot.node, insn, info);
   *hot.at++ = canonical(va);
   check_left(0, -1);
   tables_stored(&to, bytes);
}
