/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The bytes of an instruction, where the core's translation does not tell what the recorder needs to know of it. */

#include "recorder.h"

/* The core has decoded it; it is complete, unless it reaches into a page that cannot be read (border.c). */
struct code code_at(Addr at, UInt len)
{
   UChar bytes[32] = { 0 };
   tl_assert(len < sizeof bytes - 8);
   VG_(memcpy)(bytes, (void*)at, len);
   const UChar *byte = bytes, *end = byte + len;
   struct code  c = { .operand = 4, .address = 8 };
   for (;; byte++) {
      switch (*byte) {
         case 0x66: c.p66 = True; continue;
         case 0x67: c.address = 4; continue;
         case 0xf2: c.f2 = True; continue;
         case 0xf3: c.f3 = True; continue;
         case 0x64: case 0x65: c.segment = *byte; continue;
         case 0x26: case 0x2e: case 0x36: case 0x3e: case 0xf0: continue;
      }
      break;
   }
   if (*byte == 0xc5 || *byte == 0xc4) { /* VEX; LES and LDS do not exist in 64-bit mode */
      const UChar* last = byte + (*byte == 0xc5 ? 1 : 2);
      c.vex = True;
      c.map = *byte == 0xc5 ? 1 : byte[1] & 31;
      c.rex = *byte == 0xc5 ? (~byte[1] & 0x80) >> 5 : (~byte[1] & 0xe0) >> 5 | (byte[2] & 0x80) >> 4;
      c.wide = *last & 4;
      c.p66 = (*last & 3) == 1;
      c.f3 = (*last & 3) == 2;
      c.f2 = (*last & 3) == 3;
      byte = last + 1;
   } else {
      if ((*byte & 0xf0) == 0x40)
         c.rex = *byte++ & 15;
      if (*byte == 0x0f) {
         byte++;
         c.map = *byte == 0x38 ? 2 : *byte == 0x3a ? 3 : 1;
         byte += c.map > 1;
      }
   }
   c.opcode = byte[0];
   c.modrm = byte + 1 < end ? byte[1] : 0; /* or an immediate */
   if (c.rex & 8)
      c.operand = 8;
   else if (c.p66)
      c.operand = 2;
   return c;
}

/* MOVS, CMPS, STOS, LODS, SCAS. */
Bool code_is_string(const struct code* c)
{
   return !c->vex && c->map == 0 && c->opcode >= 0xa4 && c->opcode <= 0xaf && c->opcode != 0xa8 && c->opcode != 0xa9;
}

/* One of them with a prefix that repeats it. */
Bool code_repeats(const struct code* c)
{
   return (c->f2 || c->f3) && code_is_string(c);
}

/* VPGATHERxx and VGATHERxPx. */
Bool code_is_gather(const struct code* c)
{
   return c->vex && c->map == 2 && c->opcode >= 0x90 && c->opcode <= 0x93;
}

/* BT, BTS, BTR and BTC with the number of the bit in a register. */
Bool code_is_bit_test(const struct code* c)
{
   return !c->vex && c->map == 1 && (c->opcode & 0xe7) == 0xa3;
}

/* MASKMOVQ, MASKMOVDQU. */
Bool code_is_masked_move(const struct code* c)
{
   return c->map == 1 && c->opcode == 0xf7;
}

/* CLFLUSH. */
Bool code_is_flush(const struct code* c)
{
   return !c->vex && c->map == 1 && c->opcode == 0xae && c->modrm < 0xc0 && (c->modrm >> 3 & 7) == 7 && !c->p66;
}

/* XSAVE or XRSTOR. */
Bool code_is_xsave(const struct code* c)
{
   UInt which = c->modrm >> 3 & 7;
   return !c->vex && c->map == 1 && c->opcode == 0xae && c->modrm < 0xc0 && (which == 4 || which == 5) && !c->f3;
}

/* Size in bytes of a memory operand of which the core reads or writes only the part that it needs; else 0. */
UInt code_whole_operand(const struct code* c)
{
   if (c->map == 1) {
      switch (c->opcode) {
         case 0xd1: case 0xd2: case 0xd3: case 0xe1: case 0xe2: case 0xf1: case 0xf2: case 0xf3:
            return c->vex || c->p66 ? 16 : 8; /* shifts: the count */
         case 0x60: case 0x61: case 0x62:
            return c->vex || c->p66 ? 0 : 4; /* PUNPCKLxx of MMX */
         case 0x12:
            return c->vex && c->wide && c->f2 ? 32 : 0; /* VMOVDDUP */
         case 0xae:
            return (c->modrm >> 3 & 7) < 2 && !c->f3 ? 512 : 0; /* FXSAVE, FXRSTOR */
      }
   }
   if (c->map == 3 && (c->opcode == 0x06 || c->opcode == 0x46))
      return 32; /* VPERM2F128, VPERM2I128 */
   return 0;
}

/* ---- The bytes of a block, for its definition. Instructions are address | length << 57. ---- */

static UInt length_of(ULong instr)
{
   return instr >> 57;
}

/* Words that they take. */
UInt code_words(const ULong* instr, UInt instrs)
{
   UInt bytes = 0;
   for (UInt i = 0; i < instrs; i++)
      bytes += length_of(instr[i]);
   return (bytes + 7) / 8;
}

/* The core has just decoded them all: they can be read. */
void code_put(ULong* to, const ULong* instr, UInt instrs)
{
   UChar* byte = (UChar*)to;
   for (UInt i = 0; i < instrs; i++) {
      VG_(memcpy)(byte, (void*)(Addr)(instr[i] & ((1ULL << 57) - 1)), length_of(instr[i]));
      byte += length_of(instr[i]);
   }
   while ((Addr)byte % 8 != 0)
      *byte++ = 0;
}
