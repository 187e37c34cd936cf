/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Edges: where an execution of a translation block ended, and what came between it and the next.

   QEMU leaves a block in the middle for an exception, or to try an instruction again (a store into its own code, a
   device). A store of the block's address, before its last instruction, shows that it came so far. If it did not, the
   place is that where the guest resumes, or where the next block begins. An execution is written when the next one
   begins, so the stream has only what happened. */

#define _GNU_SOURCE
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "recorder.h"

struct vcpu     vcpus[MAX_VCPUS];
struct vcpu*    vcpu;
u64             counters[FR_COUNTERS];
qemu_plugin_u64 edges_reached;

bool            vectors_stored;

unsigned        edges_processors; /* of the machine */

static int      told = -1; /* the processor that the stream is about */

void edges_see_next(void)
{
   hot.begins = 0;
}

void edges_forget_told(void)
{
   told = -1;
}

static int index_of(const struct tb* tb, u64 pc)
{
   for (unsigned i = 0; i < tb->code->instrs && pc - tb->pc < tb->code->bytes; i++)
      if (tb->pc + tb->code->insn[i].offset == pc)
         return i;
   return -1;
}

/* Instructions of the block in progress that ran, where this one begins. */
static unsigned ran(const struct tb* next, int64_t trap)
{
   const struct tb*   tb = hot.tb;
   unsigned           last = hot.code->instrs - 1;
   const struct insn* end = &hot.code->insn[last];
   bool               reached = *hot.reached == (u64)hot.code;
   u64                resume = next->pc;
   bool               fault = true, known = true;
   if (vcpu->stop)
      return vcpu->stop;
   if (trap >= 0) {
      known = arch->resume(trap, &resume);
      fault = arch->fault(trap);
   } else if (reached && end->does & DOES_REPEAT) {
      return last + 1;
   }
   if (reached) {
      if (!known || !fault || resume != tb->pc + end->offset)
         return last + 1;
      counters[FR_RETRIES] += trap < 0;
      check_left(1, 0);
      /* An instruction that goes on where it stopped did the first part of its work. */
      bool began = hot.node->parent ? hot.node->insn == end : hot.node->first > last;
      if (end->does & (DOES_STRING | DOES_PARTS) && began) {
         check_left(-1, 0);
         return last + 1;
      }
      return last;
   }
   int at = known ? index_of(tb, resume) : -1;
   if (at < 0) {
      counters[FR_UNKNOWN_EDGES]++;
      return blocks_done();
   }
   if (at > 0 && tb->code->insn[at - 1].does & DOES_WAIT)
      return at;
   if (tb->code->insn[at].does & DOES_PARTS && hot.node->parent && hot.node->insn == &tb->code->insn[at])
      return at + 1;
   counters[FR_RETRIES] += trap < 0;
   check_left(1, 0); /* this one began, and did not happen */
   return at;
}

/* Whether the next block goes on with a string instruction with which the last one ended. */
static bool continues(const struct tb* next)
{
   if (!hot.tb || !(next->code->insn[0].does & DOES_STRING) || *hot.reached != (u64)hot.code)
      return false;
   const struct insn* end = &hot.code->insn[hot.code->instrs - 1];
   return end->does & DOES_STRING && hot.tb->pc + end->offset == next->pc;
}

/* ---- Processors ---- */

static void tell_privilege(void)
{
   ring_record(FR_PRIVILEGE, 1)[0] = vcpu->half;
}

static void tell_processor(void)
{
   told = vcpu - vcpus;
   ring_record(FR_PROCESSOR, 1)[0] = told;
   if (!vcpu->introduced)
      spaces_introduce();
   else
      spaces_take_over();
   vcpu->introduced = true;
   tell_privilege();
}

/* What is told next is of the processor that runs. It may have been in firmware while another took over. */
static void tell_this_one(void)
{
   if (vcpu->introduced && told != vcpu - vcpus)
      tell_processor();
}

/* What the processor does is seen for the first time in this recording. */
static void meet(void)
{
   *vcpu = (struct vcpu){ .seen = true, .state = vcpu->state };
   vectors_stored = true;
   spaces_read_registers();
}

/* Another processor takes over. What surely ran of the last block is written; the rest when its processor goes on. */
static void park(void)
{
   vcpu->tb = hot.tb;
   vcpu->reached = *hot.reached;
   if (hot.tb) {
      vcpu->first = blocks_done();
      blocks_close(vcpu->first);
   }
   hot.tb = NULL;
}

/* All processors run in one thread, or there is no order. */
void edges_thread(void)
{
   static pid_t thread;
   if (!thread)
      thread = gettid();
   if (thread != gettid())
      fail("several threads run virtual processors, so their references have no order; use -accel tcg,thread=single");
}

/* The state of a processor has the address of the block that begins, always in the same place. */
static void check_state(const void* state)
{
   enum { MOST = 1024 };
   static int   place = -1;
   u64          words[MOST], pc = register_value(REG_PC), bytes = arch->state_words[1] * sizeof *words;
   struct iovec from = { (void*)state, bytes }, to = { words, bytes };
   if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)bytes)
      for (int i = arch->state_words[0]; i < arch->state_words[1]; i++)
         if (words[i] == pc && (place < 0 || place == i)) {
            place = i;
            return;
         }
   fail("this QEMU has the state of its processors in another place than expected; record one processor, without -smp");
}

/* The processor that has this state. They are numbered as they come. */
static struct vcpu* vcpu_of(const void* state, bool may_be_new)
{
   unsigned i = 0;
   if (edges_processors == 1)
      return &vcpus[0];
   while (i < MAX_VCPUS && vcpus[i].state && vcpus[i].state != state)
      i++;
   if (i < MAX_VCPUS && vcpus[i].state)
      return &vcpus[i];
   if (!may_be_new)
      return NULL;
   if (i == MAX_VCPUS || i >= edges_processors)
      fail("there are more than the %u virtual processors of the begin", edges_processors);
   check_state(state);
   vcpus[i].state = state;
   return &vcpus[i];
}

/* At the begin of a block registers can be read: it may have been reset meanwhile. */
static void take_over(struct vcpu* next, const void* state, bool begins)
{
   edges_thread();
   if (vcpu == next) {
      hot.state = state;
      return;
   }
   if (vcpu)
      park();
   vcpu = next;
   hot.state = state;
   *hot.reached = vcpu->reached;
   hot.node = &nowhere;
   edges_see_next();
   if (begins && vcpu->introduced && !vcpu->event.does)
      spaces_read_registers();
   if (!vcpu->seen || !vcpu->introduced || !vcpu->translates)
      return;
   tell_processor();
   if (vcpu->tb)
      blocks_open(vcpu->tb, vcpu->first);
}

/* Tables that are in use are as they were told. */
static void compare_tables(void)
{
   struct vcpu* before = vcpu;
   for (unsigned i = 0; i < MAX_VCPUS; i++)
      if (vcpus[i].seen && vcpus[i].introduced && vcpus[i].translates) {
         vcpu = &vcpus[i];
         for (unsigned root = 0; root < 2; root++)
            counters[FR_DIFFERENT] += tables_missed(arch->root(vcpu->root[root]));
      }
   vcpu = before;
}

void edges_finish_all(void)
{
   if (!ring_stopped())
      compare_tables();
   if (vcpu && hot.tb && *hot.reached == (u64)hot.code)
      blocks_close(hot.code->instrs), hot.tb = NULL;
   if (vcpu)
      park();
   vcpu = NULL;
   told = -1;
   hot.tb = NULL;
   hot.state = NULL;
   hot.node = &nowhere;
   for (unsigned i = 0; i < MAX_VCPUS; i++)
      vcpus[i].seen = false;
   edges_see_next();
}

/* ---- Blocks ---- */

static void finish(struct tb* next, int64_t trap)
{
   if (hot.tb) {
      unsigned end = ran(next, trap);
      if (end < hot.code->instrs) {
         counters[FR_CUTS]++;
         if (vcpu->event.index >= end)
            vcpu->event.does = 0;
      }
      if (vcpu->event.does & DOES_ZERO)
         blocks_zeroed(&hot.code->insn[vcpu->event.index], vcpu->event.start, vcpu->event.bytes);
      blocks_close(end);
   }
   hot.tb = NULL;
   vcpu->stop = 0;
   if (trap >= 0 && trap < FIRMWARE_TRAP && vcpu->translates) {
      tell_this_one();
      ring_record(FR_EXCEPTION, 1)[0] = trap;
   }
}

/* The instruction that ended the block, or the part of it, has run. */
static void follow_event(void)
{
   if (!(vcpu->event.does & DOES_REGISTERS)) {
      vcpu->event.does = 0;
      return;
   }
   tell_this_one();
   spaces_after();
   vcpu->event.does = 0;
}

enum mapped { MAPPED_NOWHERE, MAPPED, MAPPED_STALE };

/* Whether the pages of the block are, before it runs. Nowhere: nothing is translated here. Stale: they are to be looked
   at each time that it runs. */
static enum mapped is_mapped(const struct tb* tb)
{
   u64      at[2] = { tb->pc, tb->end - 1 };
   unsigned pages = 1 + ((tb->pc ^ (tb->end - 1)) >> 12 != 0), missing = 0;
   for (unsigned i = 0; i < pages; i++)
      missing |= !walk_fetch(at[i]) << i;
   if (!missing)
      return MAPPED;
   spaces_read_registers(); /* in system management mode there is no paging */
   if (!vcpu->translates)
      return MAPPED_NOWHERE;
   struct walk to;
   bool found = true;
   for (unsigned i = 0; i < pages; i++)
      found &= !(missing >> i & 1) || walk_stale(at[i], PAST_ANY, &to);
   counters[FR_COMPARED]++;
   counters[FR_DIFFERENT] += !found;
   return MAPPED_STALE;
}

/* The block that runs: the code, at the address where the processor is. */
static struct tb* at_address(struct code* code)
{
   struct tb *last = code->now, *tb = code_run(code, register_value(REG_PC));
   if (tb != last && last->known == tb->known && tb->known != 0 && !code->doubled) {
      code->doubled = true;
      for (struct tb* t = code->tbs; t; t = t->next)
         code_classify(t);
   }
   return tb;
}

struct tb* edges_begin(const void* state, struct code* code)
{
   if (!recording || ring_stopped())
      return NULL;
   check_untranslated(false);
   if (state != hot.state || !vcpu)
      take_over(vcpu_of(state, true), state, true);
   if (!vcpu->seen)
      meet();
   struct tb* tb = at_address(code);
   int64_t trap = tb->vector < 0 ? NO_TRAP : arch->trap(tb->vector);
   /* A reset shows in no instruction. */
   if (tb->half < vcpu->half && vcpu->translates && register_value(REG_MODE) != vcpu->mode)
      spaces_read_registers();
   bool goes_on = continues(tb);
   /* What the last instruction did to the registers holds where the guest resumes. */
   if (vcpu->event.does & DOES_REGISTERS || trap >= FIRMWARE_TRAP)
      spaces_read_registers();
   finish(tb, trap);
   follow_event();
   if (vectors_stored && vcpu->translates)
      arch->vectors();
   if (ending) {
      main_ended();
      return NULL;
   }
   if (hot.at >= hot.limit)
      ring_publish();
   edges_see_next();
   if (vcpu->translates && told != vcpu - vcpus) {
      vcpu->half = tb->half;
      tell_processor();
   }
   enum mapped mapped = vcpu->translates ? is_mapped(tb) : MAPPED_NOWHERE;
   if (mapped == MAPPED_NOWHERE) {
      check_untranslated(true);
      hot.node = &nowhere;
      *hot.reached = 0;
      return NULL;
   }
   if (tb->half != vcpu->half) {
      vcpu->half = tb->half;
      tell_privilege();
   }
   if (!vcpu->half && !vcpu->space->entered)
      names_entered(tb->pc);
   hot.begins = hot.full[vcpu->half];
   tb->known = mapped == MAPPED_STALE ? NO_STAMP : hot.begins;
   code->begins = tb->special ? NO_STAMP : tb->known;
   if (!goes_on)
      return tb;
   check_left(1, 0);
   blocks_open(tb, 1);
   if (code->instrs == 1 && !code->doubled && tb->vector < 0)
      tb->again = hot.node;
   *hot.reached = 0;
   return NULL;
}

const struct insn* edges_access(const void* state, const struct insn* insn)
{
   if (insn->code == hot.code && hot.tb)
      return insn;
   /* The state is known where generated code makes the reference, as it does here. */
   struct vcpu* now = vcpu_of(state, false);
   if (now && now->seen && now != vcpu)
      take_over(now, state, false);
   if (!hot.tb || !vcpu || !vcpu->translates)
      return NULL;
   /* QEMU tries the instruction again in a block of its own, of which it shows no more than its references. That block
      may have been translated at another address. */
   u64 pc = insn->code->pc + insn->offset;
   int at = index_of(hot.tb, hot.tb->pc + ((pc - hot.tb->pc) & 4095));
   if (at < 0 || (unsigned)at + 1 < blocks_done()) {
      counters[FR_UNKNOWN_EDGES]++;
      return NULL;
   }
   vcpu->stop = at + 1;
   *hot.reached = 0;
   edges_see_next();
   return &hot.code->insn[at];
}

/* An instruction that is no mere reference is about to run. */
void edges_special(const struct insn* insn)
{
   if (insn->does & DOES_MARK)
      main_mark(arch->mark(insn));
   if (!recording || !vcpu || (hot.tb && hot.code != insn->code))
      return;
   if (insn->does & DOES_CALL)
      names_call(hot.tb ? hot.tb->pc + insn->offset + insn->length : 0);
   if (insn->does & DOES_EVENT) {
      vcpu->event = (struct event){ .does = insn->does, .index = insn->index };
      arch->before(insn, hot.tb ? hot.tb->pc + insn->offset : 0);
      edges_see_next();
   }
}

/* A block goes on behind such an instruction. What it did holds from here on. */
void edges_after(const struct insn* insn)
{
   struct tb* tb = hot.tb;
   if (!recording || !vcpu || !vcpu->event.does || (tb && hot.code != insn->code))
      return;
   if (vcpu->event.does & DOES_ZERO) {
      if (tb)
         blocks_zeroed(insn - 1, vcpu->event.start, vcpu->event.bytes);
      vcpu->event.does = 0;
      return;
   }
   spaces_read_registers();
   if (tb)
      blocks_close(insn->index);
   hot.tb = NULL;
   follow_event();
   if (tb)
      blocks_open(tb, insn->index);
}
