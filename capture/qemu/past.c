/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* What tables said before. A processor may use a translation that is no longer in the tables until it drops it: another
   processor has changed the word, and the interrupt that says so is still on its way. So changes of words are kept, and
   when each processor dropped which translations. A walk can then be made as of an earlier moment.

   A moment is the number of changes that there had been. Of long ago nothing is kept: then no such walk is found, and
   the translation counts as different. */

#include "recorder.h"

enum { CHANGES = 65536, DROPS = 4096 };

/* The change of a word, number n of them at n % CHANGES. Numbers begin with 1. */
static struct { u64 pa, before, last_of_frame; } changes[CHANGES];
static u64 count;

/* Translations that a processor dropped, not all of them; vcpu NULL: those of all processors. */
static struct { const struct vcpu* vcpu; u64 start, end, moment; } drops[DROPS];
static u64 drop_count;
static u64 all_dropped[MAX_VCPUS]; /* moment at which a processor dropped all */

static u64 moment = ~0ULL; /* of the walk */
static u64 last;           /* change on its way */

void past_changed(struct frame* f, u64 pa, u64 before)
{
   u64 n = ++count % CHANGES;
   changes[n].pa = pa;
   changes[n].before = before;
   changes[n].last_of_frame = f->changes;
   f->changes = count;
}

static void dropped_all(const struct vcpu* which, u64 at)
{
   for (unsigned i = 0; i < MAX_VCPUS; i++)
      if ((!which || which == &vcpus[i]) && all_dropped[i] < at)
         all_dropped[i] = at;
}

void past_dropped(const struct vcpu* which, u64 start, u64 bytes)
{
   if (bytes == ~0ULL) {
      dropped_all(which, count);
      return;
   }
   u64 n = drop_count++ % DROPS;
   if (drop_count > DROPS) /* what is forgotten here counts as more than it was */
      dropped_all(drops[n].vcpu, drops[n].moment);
   drops[n].vcpu = which;
   drops[n].start = canonical(start);
   drops[n].end = canonical(start) + bytes;
   drops[n].moment = count;
}

/* The first moment from which the running processor may still have a translation of this address. */
static u64 kept_since(u64 va)
{
   u64 since = all_dropped[vcpu - vcpus], at = canonical(va);
   for (u64 n = drop_count; n > 0 && n + DROPS > drop_count; n--) {
      u64 i = (n - 1) % DROPS;
      if (drops[i].moment <= since)
         break;
      if ((!drops[i].vcpu || drops[i].vcpu == vcpu) && at - drops[i].start < drops[i].end - drops[i].start)
         since = drops[i].moment;
   }
   return count < CHANGES || since > count - CHANGES + 1 ? since : count - CHANGES + 1;
}

u64 past_word(u64 pa, const u64* word)
{
   if (likely(moment == ~0ULL))
      return *word;
   const struct frame* f = tables_frame(pa);
   u64 value = *word;
   for (u64 n = f ? f->changes : 0; n > 0 && n + CHANGES > count; n = changes[n % CHANGES].last_of_frame) {
      if (changes[n % CHANGES].pa != pa)
         continue;
      if (n <= moment) {
         last = n > last ? n : last;
         break;
      }
      value = changes[n % CHANGES].before;
   }
   return value;
}

struct walk past_walk(u64 va, u64 pa)
{
   u64         since = kept_since(va);
   struct walk to = { 0, false };
   /* Between two changes on the way there is only one way. */
   for (moment = count; moment >= since; moment = last - 1) {
      last = 0;
      to = arch->walk(va, false);
      to.found &= pa == PAST_ANY || to.pa == pa;
      if (to.found || last == 0)
         break;
   }
   moment = ~0ULL;
   return to;
}
