/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Gives the program the environment it would have without a recorder.

   The core adds LD_PRELOAD (a library of which this tool needs nothing) and, for children, VALGRIND_LIB; exec.c may add
   FARREACH_PROGRAM and FARREACH_FILTERS. All are taken out of the new program's stack again before its first
   instruction. */

#include "recorder.h"

static Bool begins(const HChar* text, const HChar* with)
{
   return VG_(strncmp)(text, with, VG_(strlen)(with)) == 0;
}

/* What the variable ought to be, in place: NULL if it ought not to exist. */
static HChar* restored(HChar* variable)
{
   if (begins(variable, "VALGRIND_LIB=") || begins(variable, "FARREACH_PROGRAM=")
       || begins(variable, "FARREACH_FILTERS="))
      return NULL;
   if (!begins(variable, "LD_PRELOAD="))
      return variable;
   /* LD_PRELOAD=<core>[:<what the user wanted>] */
   HChar* list = variable + VG_(strlen)("LD_PRELOAD=");
   if (VG_(strstr)(list, "/vgpreload_core") == NULL)
      return variable;
   HChar* own = VG_(strchr)(list, ':');
   if (own == NULL)
      return NULL;
   for (own++; (*list = *own) != 0; list++)
      own++;
   return variable;
}

void environment_restore(ThreadId tid)
{
   /* argc, argv ... 0, environment ... 0, pairs of the auxiliary vector ... 0 */
   UWord* sp = (UWord*)VG_(get_SP)(tid);
   UWord* from = sp + 1 + sp[0] + 1;
   UWord* to = from;
   for (; *from; from++) {
      HChar* kept = restored((HChar*)*from);
      if (kept)
         *to++ = (UWord)kept;
   }
   while (to < from && *from == 0) {
      *to++ = *from++;
      while (True) {
         UWord type = *to++ = *from++;
         *to++ = *from++;
         if (type == 0)
            return;
      }
   }
}
