/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Code that changes. The core compares code with what it translated, each time before it runs, but not code of mapped
   files. Some compilers at run time keep theirs in a file, which they map twice, once to write and once to run. So code
   of files is compared, too, if the file has been mapped shared, or if the program may write to the mapping. */

#include "recorder.h"
#include "pub_tool_oset.h"
#include "libvex.h"

/* Files that were mapped shared. Two that look alike cost time only. */
static OSet* shared;

static UWord key(ULong device, ULong inode)
{
   return device << 40 ^ inode;
}

void changing_file_shared(Int fd)
{
   struct vg_stat about;
   if (VG_(fstat)(fd, &about) != 0)
      return;
   if (!shared)
      shared = VG_(OSetWord_Create)(VG_(malloc), "farreach.shared", VG_(free));
   UWord file = key(about.dev, about.ino);
   if (!VG_(OSetWord_Contains)(shared, file))
      VG_(OSetWord_Insert)(shared, file);
}

static Bool may_change(Addr at)
{
   const NSegment* s = VG_(am_find_nsegment)(at);
   return s && s->kind == SkFileC
          && (s->hasW || (shared && VG_(OSetWord_Contains)(shared, key(s->dev, s->ino))));
}

static UInt (*core_checks)(void* closure, VexRegisterUpdates* control, const VexGuestExtents* code);

/* The parts of a piece of code to be compared: a bit for each. */
static UInt checks(void* closure, VexRegisterUpdates* control, const VexGuestExtents* code)
{
   UInt parts = core_checks ? core_checks(closure, control, code) : 0;
   for (Int i = 0; i < code->n_used; i++)
      if (may_change(code->base[i]))
         parts |= 1U << i;
   return parts;
}

extern VexTranslateResult __real_LibVEX_Translate(VexTranslateArgs* args);
VexTranslateResult __wrap_LibVEX_Translate(VexTranslateArgs* args);
VexTranslateResult __wrap_LibVEX_Translate(VexTranslateArgs* args)
{
   core_checks = args->needs_self_check;
   args->needs_self_check = checks;
   return __real_LibVEX_Translate(args);
}
