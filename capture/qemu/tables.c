/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Guest RAM, as QEMU has it in this process, and the frames in it that are watched as page tables: the reader has their
   words, and each store to them is told. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder.h"

#define RAM_NAME   "memfd:memory-backend-memfd"
#define HIGH       (1ULL << 32)
#define LARGE_Q35  0xb0000000ULL /* RAM of this size or more has a hole below 4 GB, */
#define LOW_Q35    0x80000000ULL /* from here on */
#define LARGE_PC   0xe0000000ULL
#define LOW_PC     0xc0000000ULL

static u8* ram;
static u64 ram_bytes, base, low_bytes; /* the first low_bytes are at base, others from HIGH on */
static struct frame** frames;          /* by place in RAM */

/* By the value of -machine or -M. */
static bool is_q35(void)
{
   char*  word = NULL;
   size_t room = 0;
   bool   found = false, behind = false;
   FILE*  file = fopen("/proc/self/cmdline", "r");
   while (file && getdelim(&word, &room, 0, file) > 0) {
      found |= behind && strstr(word, "q35");
      const char* name = word + (word[0] == '-') + (word[0] == '-' && word[1] == '-');
      behind = name != word && (strcmp(name, "machine") == 0 || strcmp(name, "M") == 0);
   }
   free(word);
   if (file)
      fclose(file);
   return found;
}

void tables_find_ram(void)
{
   char  line[4096];
   FILE* maps = fopen("/proc/self/maps", "r");
   if (!maps)
      fail("cannot read /proc/self/maps, where the guest's memory is looked for");
   while (fgets(line, sizeof line, maps)) {
      unsigned long start, end;
      if (!strstr(line, RAM_NAME) || sscanf(line, "%lx-%lx", &start, &end) != 2)
         continue;
      if (ram && (u8*)start != ram + ram_bytes)
         fail("the guest has several pieces of memory; one is allowed: no NUMA nodes, no slots for more");
      if (!ram)
         ram = (u8*)start;
      ram_bytes += end - start;
   }
   fclose(maps);
   if (!ram)
      fail("the guest's memory is not found; farreach adds to the command line of QEMU: -object memory-backend-memfd,"
           "id=farreach-ram,size=SIZE,share=on -machine memory-backend=farreach-ram");
   low_bytes = ram_bytes;
   base = arch->ram_base;
   if (arch->number == FR_X86) {
      bool q35 = is_q35();
      if (ram_bytes >= (q35 ? LARGE_Q35 : LARGE_PC))
         low_bytes = q35 ? LOW_Q35 : LOW_PC;
   }
   frames = calloc(ram_bytes >> 12, sizeof *frames);
   if (!frames)
      fail("no memory for a table of the guest's frames");
   walk_has_ram(ram_bytes);
}

u64 tables_ram_bytes(void)
{
   return ram_bytes;
}

u64 tables_place(u64 pa)
{
   if (pa - base < low_bytes)
      return pa - base;
   if (pa >= HIGH && low_bytes < ram_bytes && pa - HIGH < ram_bytes - low_bytes)
      return pa - HIGH + low_bytes;
   return ~0ULL;
}

u64* tables_word(u64 pa)
{
   u64 place = tables_place(pa & ~7ULL);
   return place == ~0ULL ? NULL : (u64*)(ram + place);
}

struct frame* tables_frame(u64 pa)
{
   u64 place = tables_place(pa);
   return place == ~0ULL ? NULL : frames[place >> 12];
}

bool tables_watched(u64 pa)
{
   struct frame* f = tables_frame(pa);
   return f && f->watched;
}

/* Tells the words of a frame from one to another that are not as told last. Few words that are lie between two that are
   not, or they are two records. */
static void tell(struct frame* f, u64 pa, unsigned from, unsigned to)
{
   enum { GAP = 2 };
   const u64* now = tables_word(pa & ~4095ULL);
   while (true) {
      while (from < to && now[from] == f->word[from])
         from++;
      if (from == to)
         return;
      unsigned end = from + 1;
      for (unsigned i = end; i < to && i <= end + GAP; i++)
         if (now[i] != f->word[i])
            end = i + 1;
      u64* payload = ring_record(FR_ENTRIES, 1 + end - from);
      payload[0] = (pa & ~4095ULL) + from * 8;
      memcpy(payload + 1, now + from, (end - from) * 8);
      memcpy(f->word + from, now + from, (end - from) * 8);
      from = end;
   }
}

static struct frame* made(u64 pa)
{
   u64 place = tables_place(pa);
   if (place == ~0ULL)
      return NULL;
   struct frame** f = &frames[place >> 12];
   if (!*f && !(*f = calloc(1, sizeof **f)))
      fail("no memory for a copy of a page table");
   return *f;
}

struct frame* tables_use(u64 pa, int level, bool kernel)
{
   struct frame* f = made(pa);
   if (!f)
      return NULL;
   bool new = !(f->levels >> level & 1);
   f->levels |= 1 << level;
   if (kernel)
      f->kernel = true;
   else if (!f->owner)
      f->owner = vcpu->space;
   else if (f->owner != vcpu->space)
      f->shared = true;
   if (!f->watched) {
      f->watched = true;
      counters[FR_TABLE_FRAMES]++;
      walk_forget_stores(tables_place(pa));
      new = true;
   }
   /* In a new place, too: AArch64 clears pages by an instruction whose stores QEMU does not show. */
   if (new)
      tell(f, pa, 0, 512);
   return f;
}

void tables_walk(u64 pa, int level, unsigned shift, u64 va)
{
   u64           at = canonical(va);
   struct frame* f = tables_use(pa, level, at >> (FR_ADDRESS_BITS - 1));
   u64           first = (at >> shift) - (pa >> 3 & 511);
   if (!f)
      return;
   if (f->shift != 0 && (f->shift != shift || f->first != first))
      f->several = true;
   f->first = first;
   f->shift = shift;
}

/* A frame with vectors: stores to it are seen, and not told. */
void tables_watch_vectors(u64 pa)
{
   struct frame* f = made(pa);
   if (!f)
      return;
   f->vectors = true;
   walk_forget_stores(tables_place(pa));
}

bool tables_has_vectors(u64 pa)
{
   struct frame* f = tables_frame(pa);
   return f && f->vectors;
}

static void forget(struct frame* f)
{
   f->watched = false;
   f->levels = f->shift = 0;
   f->owner = NULL;
   f->several = f->shared = f->kernel = false;
}

/* Pages from one on. */
struct pages { u64 from, count; };

/* Those to which an entry leads, none where that is not known. */
static struct pages pages_of(const struct frame* f, unsigned entry)
{
   if (f->shift == 0 || f->several)
      return (struct pages){ 0, 0 };
   return (struct pages){ (f->first + entry) << (f->shift - 12), 1ULL << (f->shift - 12) };
}

/* Words of the table there, and of those below it, that mean something else than what was told last: a store was not
   seen. The processor itself sets the bits that say of a page that it was used or written. */
static u64 missed(u64 pa, int level)
{
   const struct frame* f = tables_frame(pa);
   u64 count = 0, bytes = 0;
   if (!f || !f->watched)
      return 0;
   const u64* now = tables_word(pa & ~4095ULL);
   for (unsigned i = 0; i < 512; i++) {
      u64 before = f->word[i], set_by_itself = arch->soft_bits;
      if (before & now[i] & arch->writes_noted)
         set_by_itself |= arch->write_bit;
      count += (before | now[i]) & 1 && (before ^ now[i]) & ~set_by_itself;
      u64 child = level > 0 ? arch->table(before, level, &bytes) : 0;
      for (u64 at = 0; child && at < bytes; at += 4096)
         count += missed(child + at, level - 1);
   }
   return count;
}

static void drop(struct frame* f, struct pages forgotten)
{
   struct pages own = pages_of(f, 0);
   f->watched = false;
   if (own.count == 0 || own.from - forgotten.from >= forgotten.count)
      spaces_changed(f);
   forget(f);
}

/* A table that no entry names any more. Its frame may become anything. */
static void unwatch(u64 pa, struct pages forgotten)
{
   struct frame* f = tables_frame(pa);
   if (!f || !f->watched)
      return;
   counters[FR_DIFFERENT] += missed(pa, 0);
   drop(f, forgotten);
}

/* A store that is not recorded: while paging was off, or by firmware. */
void tables_stored_unseen(u32 info, u64 va)
{
   struct qemu_plugin_hwaddr* at = qemu_plugin_get_hwaddr(info, va);
   if (!at || qemu_plugin_hwaddr_is_io(at))
      return;
   unsigned    bytes = 1u << qemu_plugin_mem_size_shift(info), in_first = 4096 - (va & 4095);
   struct walk to = { qemu_plugin_hwaddr_phys_addr(at), true };
   tables_stored(&to, bytes < in_first ? bytes : in_first);
}

static bool differ(const struct frame* f, u64 pa, unsigned from, unsigned end)
{
   return memcmp(tables_word(pa & ~4095ULL) + from, f->word + from, (end - from) * 8) != 0;
}

/* The program has stored here. */
void tables_stored(const struct walk* to, unsigned bytes)
{
   struct frame* f = to->found ? tables_frame(to->pa) : NULL;
   if (!f)
      return;
   if (f->vectors)
      vectors_stored = true, edges_see_next();
   unsigned from = (to->pa & 4095) / 8, end = ((to->pa & 4095) + bytes + 7) / 8;
   if (!f->watched || !differ(f, to->pa, from, end))
      return;
   if (hot.head)
      blocks_split();
   if (spaces_root_dead(f)) {
      spaces_leave_frame(f);
      drop(f, (struct pages){ 0, 0 });
      return;
   }
   const u64* now = tables_word(to->pa & ~4095ULL);
   bool       changed = false;
   for (unsigned i = from; i < end; i++) {
      u64 before = f->word[i], differing = (before ^ now[i]) & ~arch->soft_bits;
      if (differing == 0 || ((before | now[i]) & 1) == 0)
         continue;
      past_changed(f, (to->pa & ~4095ULL) + i * 8, before);
      if ((before & 1) == 0 || (f->levels == 1 && (differing & (arch->frame_bits | 1)) == 0))
         continue;
      struct pages led = pages_of(f, i);
      if (led.count == 0 || !walk_forget(led.from, led.count)) {
         led.count = 0;
         changed = true;
      }
      for (int level = 1; level < 8; level++) {
         u64 bytes_below = 0, child = f->levels >> level & 1 ? arch->table(before, level, &bytes_below) : 0;
         for (u64 at = 0; child && at < bytes_below; at += 4096)
            unwatch(child + at, led);
      }
   }
   tell(f, to->pa, from, end);
   if (changed)
      spaces_changed(f);
   if (f->spaces && spaces_root_stored(f)) {
      spaces_leave_frame(f);
      unwatch(to->pa, (struct pages){ 0, 0 });
   }
}

u64 tables_missed(u64 root)
{
   const struct frame* f = tables_frame(root);
   return f && f->levels ? missed(root, 31 - __builtin_clz(f->levels)) : 0;
}

/* What is used again is told again, as far as it changed. */
void tables_forget(void)
{
   for (u64 i = 0; i < ram_bytes >> 12; i++)
      if (frames[i])
         forget(frames[i]);
   walk_known_clear();
}
