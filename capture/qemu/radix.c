/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Page tables as x86-64 and RISC-V have them: 512 entries in a frame, and one root for both halves of the addresses.
   The architecture says what an entry means, and how many levels there are. */

#include "recorder.h"

enum { ENTRIES = 512, BITS = 9, PAGE = 12 };

struct walk radix_walk(u64 va, bool tell)
{
   u64 table = arch->root(vcpu->root[0]);
   for (int level = arch->levels() - 1; level >= 0; level--) {
      unsigned shift = PAGE + BITS * level;
      u64      at = table + (va >> shift & (ENTRIES - 1)) * 8;
      u64*     word = tables_word(at);
      if (!word)
         break;
      if (tell)
         tables_walk(at, level, shift, va);
      enum entry kind = arch->entry(past_word(at, word), level, &table, &shift);
      if (kind == ENTRY_NONE)
         break;
      if (kind == ENTRY_LEAF) {
         u64 below = (1ULL << shift) - 1;
         return (struct walk){ (table & ~below) | (va & below), true };
      }
   }
   return (struct walk){ 0, false };
}

u64 radix_table(u64 word, int level, u64* bytes)
{
   u64      table;
   unsigned shift = PAGE + BITS * level;
   *bytes = 1 << PAGE;
   return arch->entry(word, level, &table, &shift) == ENTRY_TABLE ? table : 0;
}

struct frame* radix_use_root(u64 root)
{
   return tables_use(root, arch->levels() - 1, false);
}

unsigned radix_lower_entries(void)
{
   return ENTRIES / 2;
}

u64 radix_upper_sign(void)
{
   const u64* words = tables_word(arch->root(vcpu->root[0]));
   u64        sign = 0;
   for (unsigned i = ENTRIES / 2; words && i < ENTRIES; i++)
      sign = (sign ^ (words[i] & ~arch->soft_bits)) * 0x9e3779b97f4a7c15ULL + i;
   return sign ^ arch->levels();
}
