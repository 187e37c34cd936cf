/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* How a writer of a stream (see stream.h) and its reader wait for each other, for all recorders. Each of them has these
   three functions of its own. */

#ifndef FARREACH_WRITER_H
#define FARREACH_WRITER_H

#include "stream.h"

/* Returns after a wake-up, after a while, or at once if the word is no longer value: callers look again. */
static void futex_wait(unsigned* word, unsigned value);
static void futex_wake(unsigned* word);
/* Not 0: the reader has ended, and nothing is waited for any more. It need not return. */
static int  is_over(void);

/* Until chunk n is free. */
static inline void writer_wait(struct fr_ring* ring, unsigned long long n)
{
   for (;;) {
      unsigned long long consumed = __atomic_load_n(&ring->consumed, __ATOMIC_SEQ_CST);
      if (n < consumed + FR_CHUNKS)
         return;
      __atomic_store_n(&ring->writer_waits, 1, __ATOMIC_SEQ_CST);
      if (__atomic_load_n(&ring->consumed, __ATOMIC_SEQ_CST) == consumed)
         futex_wait((unsigned*)&ring->consumed, (unsigned)consumed);
      __atomic_store_n(&ring->writer_waits, 0, __ATOMIC_SEQ_CST);
      if (is_over())
         return;
   }
}

/* Hands the next chunk over, with these words. */
static inline void writer_publish(struct fr_control* control, struct fr_ring* ring, unsigned words)
{
   unsigned long long n = ring->produced;
   ring->used[n % FR_CHUNKS] = words;
   __atomic_store_n(&ring->produced, n + 1, __ATOMIC_SEQ_CST);
   unsigned long long seq = __atomic_fetch_add(&control->head, 1, __ATOMIC_SEQ_CST);
   unsigned* place = &control->order[seq % FR_ORDER];
   unsigned taken;
   while ((taken = __atomic_load_n(place, __ATOMIC_SEQ_CST)) != 0) { /* only with thousands of processes alive */
      if (is_over())
         return;
      futex_wait(place, taken);
   }
   __atomic_store_n(place, ring->number + 1, __ATOMIC_SEQ_CST);
   __atomic_fetch_add(&control->wake, 1, __ATOMIC_SEQ_CST);
   if (__atomic_load_n(&control->reader_waits, __ATOMIC_SEQ_CST))
      futex_wake(&control->wake);
}

#endif
