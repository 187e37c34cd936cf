/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* A count beside the stream, for tests (count=on): QEMU's own inline operations add up instructions that began and
   references that were made. Both must agree with the blocks of the stream and what was left out of it. */

#include <stdio.h>

#include "recorder.h"

struct counts { u64 instrs, refs; };

static bool            on;
static qemu_plugin_u64 instrs, refs;
static struct counts   sum, begin; /* of the stream; QEMU's where it began */

void check_on(void)
{
   on = true;
   instrs.score = refs.score = qemu_plugin_scoreboard_new(sizeof(struct counts));
   refs.offset = offsetof(struct counts, refs);
}

void check_count(struct qemu_plugin_insn* insn)
{
   if (!on)
      return;
   qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, instrs, 1);
   qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, QEMU_PLUGIN_MEM_RW, QEMU_PLUGIN_INLINE_ADD_U64, refs, 1);
}

void check_left(int more_instrs, int more_refs)
{
   sum.instrs -= more_instrs;
   sum.refs -= more_refs;
}

/* Of these blocks it is not known where they end. */
void check_untranslated(bool now_is)
{
   static bool   is;
   static u64    since;
   if (!on)
      return;
   u64 now = ((const struct counts*)qemu_plugin_scoreboard_find(instrs.score, 0))->instrs;
   if (is)
      sum.instrs -= now - since;
   is = now_is;
   since = now;
}

void check_begin(void)
{
   if (on)
      begin = *(const struct counts*)qemu_plugin_scoreboard_find(instrs.score, 0);
}

void check_end(void)
{
   if (!on)
      return;
   check_untranslated(false);
   const struct counts* now = qemu_plugin_scoreboard_find(instrs.score, 0);
   sum.instrs += now->instrs - begin.instrs;
   sum.refs += now->refs - begin.refs;
}

void check_print(void)
{
   if (on)
      fprintf(stderr, "farreach: by QEMU's count the stream has instrs %llu refs %llu\n",
              (unsigned long long)sum.instrs, (unsigned long long)sum.refs);
}
