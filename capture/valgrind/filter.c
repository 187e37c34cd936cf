/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Programs of seccomp filters: checked, run, kept over an exec. */

#include "filter.h"

extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord);
extern Int    VG_(safe_fd)(Int fd);
extern Int    VG_(fcntl)(Int fd, Int command, Addr argument);

enum { MOST_STEPS = 4096, MOST_IN_ALL = 32768, SLOTS = 16, MEMFD_CREATE = 319, SETFD = 2 };

/* Parts of an instruction's code. */
enum { CLASS = 0x07, LD = 0, LDX = 1, ST = 2, STX = 3, ALU = 4, JMP = 5, RET = 6, MISC = 7 };
enum { IMM = 0x00, ABS = 0x20, MEM = 0x60, LEN = 0x80, X = 0x08 };
enum { ADD = 0x00, SUB = 0x10, MUL = 0x20, DIV = 0x30, OR = 0x40, AND = 0x50, LSH = 0x60, RSH = 0x70, NEG = 0x80,
       XOR = 0xa0 };
enum { JA = 0x00, JEQ = 0x10, JGT = 0x20, JGE = 0x30, JSET = 0x40 };
enum { RET_K = 0x06, RET_A = 0x16, TAX = 0x07, TXA = 0x87 };

/* ---- Checking ---- */

static Bool step_is_valid(const struct fr_step* s, UInt left)
{
   UInt operation = s->code & 0xf0;
   switch (s->code) {
      case LD | ABS:
         return s->k < sizeof(struct fr_call) && s->k % 4 == 0;
      case LD | LEN: case LDX | LEN: case LD | IMM: case LDX | IMM: case RET_K: case RET_A: case TAX: case TXA:
         return True;
      case LD | MEM: case LDX | MEM: case ST: case STX:
         return s->k < SLOTS;
      case JMP | JA:
         return s->k < left;
      default:
         break;
   }
   if (s->code >> 8 || s->code & ~(0xf0 | X | CLASS))
      return False;
   switch (s->code & CLASS) {
      case ALU:
         if (operation == NEG)
            return !(s->code & X);
         if (!(s->code & X) && operation == DIV && s->k == 0)
            return False;
         if (!(s->code & X) && (operation == LSH || operation == RSH) && s->k > 31)
            return False;
         return operation <= RSH || operation == XOR;
      case JMP:
         return operation >= JEQ && operation <= JSET && s->then < left && s->otherwise < left;
      default:
         return False;
   }
}

static Bool is_valid(const struct filter* f)
{
   for (UInt i = 0; i < f->steps; i++)
      if (!step_is_valid(&f->step[i], f->steps - i - 1))
         return False;
   return (f->step[f->steps - 1].code & CLASS) == RET;
}

static SizeT bytes_of(UInt steps)
{
   return steps * sizeof(struct fr_step);
}

static struct filter* new_filter(UInt steps, struct filter* older)
{
   struct filter* f = VG_(malloc)("filter", sizeof *f + bytes_of(steps));
   f->older = older;
   f->steps = steps;
   return f;
}

Long filter_make(Addr program, struct filter* older, struct filter** made)
{
   struct { UShort steps; Addr step; } *given = (void*)program;
   if (!VG_(am_is_valid_for_client)(program, sizeof *given, VKI_PROT_READ))
      return -VKI_EFAULT;
   UInt steps = given->steps, all = steps;
   if (steps == 0 || steps > MOST_STEPS)
      return -VKI_EINVAL;
   for (struct filter* f = older; f; f = f->older)
      all += f->steps + 4;
   if (all > MOST_IN_ALL)
      return -VKI_ENOMEM;
   if (!VG_(am_is_valid_for_client)(given->step, bytes_of(steps), VKI_PROT_READ))
      return -VKI_EFAULT;
   struct filter* f = new_filter(steps, older);
   VG_(memcpy)(f->step, (void*)given->step, bytes_of(steps));
   if (!is_valid(f)) {
      VG_(free)(f);
      return -VKI_EINVAL;
   }
   *made = f;
   return 0;
}

/* ---- Running ---- */

static UInt computed(UInt operation, UInt a, UInt b)
{
   switch (operation) {
      case ADD: return a + b;
      case SUB: return a - b;
      case MUL: return a * b;
      case DIV: return a / b; /* by 0: the caller has looked */
      case OR:  return a | b;
      case AND: return a & b;
      case LSH: return a << (b & 31);
      case RSH: return a >> (b & 31);
      case XOR: return a ^ b;
      default:  return -a; /* NEG */
   }
}

static Bool holds(UInt operation, UInt a, UInt b)
{
   switch (operation) {
      case JEQ: return a == b;
      case JGT: return a > b;
      case JGE: return a >= b;
      default:  return (a & b) != 0; /* JSET */
   }
}

static UInt run(const struct filter* f, const struct fr_call* call)
{
   UInt a = 0, x = 0, slot[SLOTS] = { 0 };
   for (const struct fr_step* s = f->step;; s++) {
      UInt operation = s->code & 0xf0, b = s->code & X ? x : s->k;
      switch (s->code) {
         case LD | ABS:  VG_(memcpy)(&a, (const UChar*)call + s->k, sizeof a); break;
         case LD | LEN:  a = sizeof *call; break;
         case LDX | LEN: x = sizeof *call; break;
         case LD | IMM:  a = s->k; break;
         case LDX | IMM: x = s->k; break;
         case LD | MEM:  a = slot[s->k]; break;
         case LDX | MEM: x = slot[s->k]; break;
         case ST:        slot[s->k] = a; break;
         case STX:       slot[s->k] = x; break;
         case TAX:       x = a; break;
         case TXA:       a = x; break;
         case RET_K:     return s->k;
         case RET_A:     return a;
         case JMP | JA:  s += s->k; break;
         default:
            if ((s->code & CLASS) == JMP)
               s += holds(operation, a, b) ? s->then : s->otherwise;
            else if (operation == DIV && b == 0)
               return FR_FILTER_KILL_THREAD;
            else
               a = computed(operation, a, b);
            break;
      }
   }
}

UInt filter_judge(const struct filter* newest, const struct fr_call* call)
{
   UInt strictest = FR_FILTER_ALLOW;
   for (; newest; newest = newest->older) {
      UInt verdict = run(newest, call);
      if ((Int)(verdict & FR_FILTER_ACTION) < (Int)(strictest & FR_FILTER_ACTION))
         strictest = verdict;
   }
   return strictest;
}

Bool filter_knows(UInt verdict)
{
   switch (verdict) {
      case FR_FILTER_KILL_PROCESS: case FR_FILTER_KILL_THREAD: case FR_FILTER_TRAP: case FR_FILTER_ERRNO:
      case FR_FILTER_TRACE: case FR_FILTER_LOG: case FR_FILTER_ALLOW:
         return True;
      default:
         return False;
   }
}

/* ---- Over an exec: of each filter, the oldest last, the number of steps and the steps ---- */

Int filter_save(const struct filter* newest)
{
   SysRes made = VG_(do_syscall)(MEMFD_CREATE, (UWord)"filters", 0, 0, 0, 0, 0, 0, 0);
   if (sr_isError(made))
      return -1;
   Int fd = VG_(safe_fd)(sr_Res(made));
   VG_(fcntl)(fd, SETFD, 0);
   for (; newest; newest = newest->older) {
      VG_(write)(fd, &newest->steps, sizeof newest->steps);
      VG_(write)(fd, newest->step, bytes_of(newest->steps));
   }
   return fd;
}

struct filter* filter_load(Int fd)
{
   struct filter*  newest = NULL;
   struct filter** place = &newest;
   UInt            steps;
   VG_(lseek)(fd, 0, VKI_SEEK_SET);
   while (VG_(read)(fd, &steps, sizeof steps) == sizeof steps && steps > 0 && steps <= MOST_STEPS) {
      struct filter* f = new_filter(steps, NULL);
      if (VG_(read)(fd, f->step, bytes_of(steps)) != bytes_of(steps) || !is_valid(f))
         fail("the filters of system calls that the program had before its exec were not passed on");
      *place = f;
      place = &f->older;
   }
   VG_(close)(fd);
   return newest;
}
