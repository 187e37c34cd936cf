/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Names of programs. A new address space that begins to run behind a system call is a child's, and has its parent's
   name. Any other begins where the kernel started a program: then the stack has the arguments, the environment, and the
   auxiliary vector, which has the path. What ran before the recording has no name. */

#include <string.h>

#include "recorder.h"

#define CALLERS 256

enum { AT_NULL = 0, AT_PAGESZ = 6, AT_EXECFN = 31, MOST_WORDS = 1 << 16 };

/* Who called for a child last at a place. */
static struct { u64 pc; char name[sizeof ((struct space*)0)->name]; } callers[CALLERS];

static bool read_word(u64 at, u64* word)
{
   return walk_read(at, word, sizeof *word);
}

/* The program that was started with this stack. */
static bool read_path(u64 stack, char* name, size_t bytes)
{
   u64 word, path = 0, page = 0, kind, value;
   u64 at = stack + 8;
   if (!read_word(stack, &word) || word == 0 || word > MOST_WORDS)
      return false;
   at += word * 8;
   if (!read_word(at, &word) || word != 0)
      return false;
   for (unsigned i = 0; at += 8, read_word(at, &word) && word != 0; i++)
      if (i == MOST_WORDS)
         return false;
   for (unsigned i = 0; i < 64; i++) {
      if (!read_word(at + 8, &kind) || !read_word(at + 16, &value) || kind == AT_NULL)
         break;
      path = kind == AT_EXECFN ? value : path;
      page = kind == AT_PAGESZ ? value : page;
      at += 16;
   }
   if (path == 0 || page < 4096 || page > 65536)
      return false;
   for (size_t i = 0; i + 1 < bytes; i++)
      if (!walk_read(path + i, name + i, 1) || name[i] == 0)
         return name[0] != 0;
   return true;
}

static unsigned slot(u64 pc)
{
   return (pc >> 1 ^ pc >> 12) % CALLERS;
}

/* A program is about to call the kernel here. */
void names_call(u64 pc_behind)
{
   u64 number = register_value(arch->call);
   if (!vcpu->space || !vcpu->space->name[0])
      return;
   for (const int* fork = arch->forks; *fork; fork++)
      if (number == (u64)*fork) {
         callers[slot(pc_behind)].pc = pc_behind;
         memcpy(callers[slot(pc_behind)].name, vcpu->space->name, sizeof vcpu->space->name);
      }
}

/* A program goes on here. */
void names_entered(u64 pc)
{
   struct space* s = vcpu->space;
   char          name[sizeof s->name] = { 0 };
   u32           before;
   if (s->entered)
      return;
   s->entered = true;
   if (walk_read(pc - sizeof before, &before, sizeof before) && arch->is_call(before)) {
      if (callers[slot(pc)].pc != pc)
         return;
      memcpy(name, callers[slot(pc)].name, sizeof name);
   } else if (!read_path(register_value(arch->stack), name, sizeof name)) {
      return;
   }
   memcpy(s->name, name, sizeof name);
   u32  bytes = strlen(name);
   u64* payload = ring_record(FR_NAME, 1 + (bytes + 7) / 8);
   payload[0] = s->number | (u64)bytes << 32;
   ring_text(payload + 1, name, bytes);
}
