/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Walks of the guest's page tables in its RAM, and the pages that need none: those of which the reader has all tables,
   as long as no way to them changed.

   A page is known under a stamp: that of the address space, or of the kernel's half. Where a way through tables
   changes, their owner gets another stamp. */

#include <stdlib.h>
#include <string.h>

#include "recorder.h"

#define FETCHED 65536

u64 known[2][KNOWN];

/* Pages in which code may have run, and pieces of memory of 512 pages, by their numbers. */
static u8 fetched[2][FETCHED];

static u8* fetched_at(u64 page, bool piece)
{
   return &fetched[piece][(piece ? page >> 9 : page) % FETCHED];
}

/* The pages in known[STORES], in a list for each frame that has some. Places are numbered from 1. */
static u32* frame_pages;                          /* the first, by place in RAM; 0: none */
static struct { u32 frame, next, before; } links[KNOWN + 1];

void walk_has_ram(u64 bytes)
{
   frame_pages = calloc(bytes >> 12, sizeof *frame_pages);
   if (!frame_pages)
      fail("no memory for a table of the guest's frames");
}

void walk_known_clear(void)
{
   memset(known, 0xff, sizeof known);
   memset(fetched, 0, sizeof fetched);
   spaces_all_changed();
}

static void unlink_store(u32 at)
{
   if (links[at].before)
      links[links[at].before].next = links[at].next;
   else if (frame_pages[links[at].frame] == at)
      frame_pages[links[at].frame] = links[at].next;
   links[links[at].next].before = links[at].before;
   links[at].next = links[at].before = 0;
}

static void know_store(u64 page, u64 key, u64 place)
{
   u32 at = page % KNOWN + 1, frame = place >> 12;
   if (place == ~0ULL)
      return;
   known[STORES][at - 1] = key;
   unlink_store(at);
   links[at].frame = frame;
   links[at].next = frame_pages[frame];
   links[frame_pages[frame]].before = at;
   frame_pages[frame] = at;
}

/* Stores to this frame are to be seen from now on. */
void walk_forget_stores(u64 place)
{
   for (u32 at = frame_pages[place >> 12]; at; at = links[at].next)
      known[STORES][at - 1] = ~0ULL;
}

/* These lead elsewhere now. Blocks are known under stamps, not in the tables here. */
bool walk_forget(u64 page, u64 pages)
{
   if (pages > KNOWN / 8)
      return false;
   for (u64 p = page; p < page + pages; p += 512)
      if (*fetched_at(p, pages > 1))
         return false;
   for (u64 p = page; p < page + pages; p++)
      for (unsigned i = 0; i < 2; i++)
         if ((known[i][p % KNOWN] ^ p) << STAMP_BITS == 0)
            known[i][p % KNOWN] = ~0ULL;
   return true;
}

u64 canonical(u64 va)
{
   return (arch->number == FR_AARCH64 ? (u64)((int64_t)(va << 8) >> 8) : va) & ADDRESS_MASK;
}

static u64 key_of(u64 page)
{
   return page | hot.stamps[page >> (FR_ADDRESS_BITS - 13)];
}

/* Before a block runs. False: its page is not in the tables. */
bool walk_fetch(u64 pc)
{
   u64 page = canonical(pc) >> 12, *slot = &known[LOADS][page % KNOWN];
   *fetched_at(page, false) = *fetched_at(page, true) = 1;
   if (*slot == key_of(page))
      return true;
   struct walk to = arch->walk(pc, true);
   if (to.found && !hot.checks_all)
      *slot = key_of(page);
   return to.found;
}

bool walk_stale(u64 va, u64 pa, struct walk* to)
{
   struct walk before = past_walk(va, pa);
   if (!before.found)
      return false;
   u64* payload = ring_record(FR_STALE, 2);
   payload[0] = canonical(va) & ~4095ULL;
   payload[1] = before.pa & ~4095ULL;
   counters[FR_STALE_USES]++;
   *to = before;
   return true;
}

/* RAM is where it was thought to be: what is loaded is there. Devices store into it unseen, so one difference is
   none. */
static void check_ram(u32 info, u64 pa, unsigned bytes)
{
   enum { ENOUGH = 256 };
   static unsigned checked, different;
   const u64* word = tables_word(pa);
   if (checked == ENOUGH || !word || bytes > 8 || (pa & 7) + bytes > 8)
      return;
   qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
   different += memcmp((const u8*)word + (pa & 7), &value.data, bytes) != 0;
   if (++checked == ENOUGH && different > ENOUGH / 8)
      fail("guest memory is not laid out as expected (%u of %u loads differ); "
           "x86-64: machines pc and q35, AArch64 and RISC-V: virt",
           different, checked);
}

/* A reference that was just made: its tables are told, its translation is compared. */
void walk_access(u32 info, u64 va, unsigned bytes, bool store, struct walk to[2])
{
   unsigned pages = 1 + ((va & 4095) + bytes > 4096);
   bool     is_ram = true, stale[2] = { false, false };
   for (unsigned i = 0; i < pages; i++)
      to[i] = arch->walk(i ? (va | 4095) + 1 : va, true);
   struct qemu_plugin_hwaddr* at = qemu_plugin_get_hwaddr(info, va);
   if (at) {
      u64 pa = qemu_plugin_hwaddr_phys_addr(at);
      is_ram = !qemu_plugin_hwaddr_is_io(at);
      counters[FR_DEVICE] += !is_ram;
      counters[FR_COMPARED]++;
      if (!to[0].found || to[0].pa != pa) {
         stale[0] = walk_stale(va, pa, &to[0]);
         counters[FR_DIFFERENT] += !stale[0];
      }
      if (is_ram && !store)
         check_ram(info, pa, bytes);
   }
   /* QEMU does not say where the second page is. */
   if (pages > 1 && !to[1].found)
      stale[1] = walk_stale((va | 4095) + 1, PAST_ANY, &to[1]);
   if (hot.checks_all || !is_ram)
      return;
   for (unsigned i = 0; i < pages; i++) {
      u64 page = canonical(i ? (va | 4095) + 1 : va) >> 12;
      if (!to[i].found || stale[i])
         continue;
      if (!store)
         known[LOADS][page % KNOWN] = key_of(page);
      if (store && !tables_watched(to[i].pa) && !tables_has_vectors(to[i].pa))
         know_store(page, key_of(page), tables_place(to[i].pa));
   }
}

bool walk_read(u64 va, void* to, unsigned bytes)
{
   u8* out = to;
   while (bytes > 0) {
      unsigned    here = 4096 - (va & 4095) < bytes ? 4096 - (va & 4095) : bytes;
      struct walk at = arch->walk(va, false);
      u64*        word = at.found ? tables_word(at.pa) : NULL;
      if (!word)
         return false;
      memcpy(out, (u8*)word + (at.pa & 7), here);
      out += here;
      va += here;
      bytes -= here;
   }
   return true;
}
