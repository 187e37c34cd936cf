/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Translation blocks of QEMU, and what is asked of it for each. QEMU does not say when it drops a translation; a block
   that is translated again is known by its code, and keeps its shapes. */

#include <stdlib.h>
#include <string.h>

#include "recorder.h"

#define BUCKETS 65536
#define LINE    64 /* of the cache */
#define ARENA   (1u << 20)

static struct code* buckets[BUCKETS];
static struct tb*   starts[BUCKETS]; /* the first of those that begin at a place */

/* ---- Memory ---- */

/* Nothing is given back: what was defined in the stream stays. */
void* keep(size_t bytes, size_t alignment)
{
   static u8 *free, *end;
   u8*       result = (u8*)(((u64)free + alignment - 1) & ~(u64)(alignment - 1));
   if (!free || result + bytes > end) {
      size_t size = (bytes > ARENA ? bytes : ARENA) + LINE;
      u8*    arena = calloc(1, size);
      if (!arena)
         fail("no memory for translation blocks");
      result = (u8*)(((u64)arena + LINE - 1) & ~(u64)(LINE - 1));
      end = arena + size;
   }
   free = result + bytes;
   return result;
}

/* ---- Blocks ---- */

static u64 hash_of(u64 hash, const void* bytes, unsigned n)
{
   const u8* b = bytes;
   for (unsigned i = 0; i < n; i++)
      hash = (hash ^ b[i]) * 0x100000001b3;
   return hash;
}

struct tb* code_at(u64 pc, struct tb* after)
{
   struct tb* tb = after ? after->same_start : starts[hash_of(0, &pc, sizeof pc) % BUCKETS];
   while (tb && tb->pc != pc)
      tb = tb->same_start;
   return tb;
}

void code_classify(struct tb* tb)
{
   tb->special = tb->vector >= 0 || tb->code->doubled || tb->code->insn[0].does & DOES_STRING;
   tb->again = NULL;
   if (tb->special && tb->code->now == tb)
      tb->code->begins = NO_STAMP;
}

struct tb* code_run(struct code* code, u64 pc)
{
   struct tb* tb = code->tbs;
   while (tb && tb->pc != pc)
      tb = tb->next;
   if (!tb) {
      tb = keep(sizeof *tb, 32);
      *tb = (struct tb){ .code = code, .pc = pc, .end = pc + code->bytes, .next = code->tbs };
      tb->root.next = &nowhere;
      tb->half = canonical(pc) >> (FR_ADDRESS_BITS - 1);
      tb->vector = vectors_find(pc);
      struct tb** start = &starts[hash_of(0, &pc, sizeof pc) % BUCKETS];
      tb->same_start = *start;
      *start = tb;
      code->tbs = tb;
      code_classify(tb);
   }
   if (code->now != tb)
      code->begins = NO_STAMP;
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
   size_t       before = (candidate->instrs * sizeof(struct guess) + LINE - 1) / LINE * LINE;
   struct code* code = (struct code*)((u8*)keep(before + bytes, LINE) + before);
   memcpy(code, candidate, bytes);
   for (unsigned i = 0; i < code->instrs; i++) {
      code->insn[i].code = code;
      guess_of(code, i)->index = i;
      arch->decode(&code->insn[i]);
   }
   code->chain = *bucket;
   *bucket = code;
   code_run(code, code->pc);
   return code;
}

/* ---- Translation ---- */

/* QEMU 10.0 spoils the number of the processor, and with it each constant of that value in the block, where it computes
   the place of an inline operation; 0 stays 0. So several processors have a call. */
static void mark_last(struct qemu_plugin_insn* insn, struct code* code)
{
   if (edges_processors == 1)
      qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_STORE_U64, edges_reached, (u64)code);
   else
      qemu_plugin_register_vcpu_insn_exec_cb(insn, callbacks_last, QEMU_PLUGIN_CB_NO_REGS, code);
}

static void on_special(unsigned number, void* user)
{
   (void)number;
   edges_special(user);
}

/* Such an instruction need not be the last of its block. */
static void on_after(unsigned number, void* user)
{
   (void)number;
   edges_after(user);
}

void code_translated(qemu_plugin_id_t id, struct qemu_plugin_tb* translated)
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
      qemu_plugin_register_vcpu_tb_exec_cb(translated, callbacks_block, QEMU_PLUGIN_CB_R_REGS, code);
   for (unsigned i = 0; i < instrs; i++) {
      struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(translated, i);
      struct insn*             own = &code->insn[i];
      if (recording) {
         if (i == instrs - 1)
            mark_last(insn, code);
         bool shows = !(own->does & DOES_ZERO);
         if (shows)
            qemu_plugin_register_vcpu_mem_cb(insn, callbacks_access(own), QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                             guess_of(code, i));
         check_count(insn, shows);
      }
      if (recording && i > 0 && code->insn[i - 1].does & DOES_EVENT)
         qemu_plugin_register_vcpu_insn_exec_cb(insn, on_after, QEMU_PLUGIN_CB_R_REGS, own);
      if (i > 0 && code->insn[i - 1].does & DOES_LINE)
         qemu_plugin_register_vcpu_insn_exec_cb(insn, aarch64_line_known, QEMU_PLUGIN_CB_R_REGS, own - 1);
      if (own->does & (recording ? DOES_SPECIAL : DOES_MARK))
         qemu_plugin_register_vcpu_insn_exec_cb(insn, on_special, QEMU_PLUGIN_CB_R_REGS, own);
      if (own->does & DOES_VECTORS && arch->number == FR_X86)
         qemu_plugin_register_vcpu_mem_cb(insn, x86_vectors_loaded, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, own);
   }
}
