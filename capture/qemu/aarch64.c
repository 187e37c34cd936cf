/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* AArch64 at exception level 1: instructions that matter, page tables with granules of 4, 16 and 64 KB, vectors. */

#include <stdlib.h>
#include <string.h>

#include "recorder.h"

enum { VALID = 1, TABLE_OR_PAGE = 3, ACCESS_FLAG = 1 << 10 };
enum { TCR_A1 = 22, TCR_DS = 59, SCTLR_M = 0 };
enum { MRS_MSR = 0xd5180000 };

static u64 line; /* bytes that DC ZVA clears; 0: the guest has not asked yet */

static u32 word_of(const struct insn* insn)
{
   u32 word;
   memcpy(&word, insn->bytes, sizeof word);
   return word;
}

/* movz xzr, #0x5201, lsl #16, and the two behind it */
static int mark(const struct insn* insn)
{
   u32 word = word_of(insn), number = word >> 5 & 0xffff;
   return (word & ~(0xffffu << 5)) == 0xd2a0001f && number > 0x5200 && number <= 0x5203 ? (int)(number & 0xf) : 0;
}

static u16 does(const struct insn* insn)
{
   u32 w = word_of(insn);
   switch (w & ~31u) {
      case 0xd5182000: return DOES_ROOT_0;
      case 0xd5182020: return DOES_ROOT_1;
      case 0xd5182040: return DOES_CONTROL;
      case 0xd5181000: return DOES_MODE;
      case 0xd518c000: return DOES_VECTORS;
      case 0xd50b7420: case 0xd50b7480: return DOES_ZERO; /* DC ZVA, DC GZVA */
      case 0xd53b00e0: return DOES_LINE; /* MRS of DCZID_EL0 */
   }
   if ((w & 0xfff8f000) == 0xd5088000 || (w & 0xfff8f000) == 0xd5089000) /* TLBI */
      return DOES_INVALIDATE;
   if ((w & 0xffe0001f) == 0xd4000001) /* SVC */
      return DOES_CALL;
   if ((w & 0x3b200c00) == 0x19000400) /* copies and sets of memory */
      return DOES_REPEAT | DOES_STRING;
   if ((w & 0xfc000000) == 0x14000000 || (w & 0xff000000) == 0x54000000 || (w & 0x7c000000) == 0x34000000
       || (w & 0xfe000000) == 0xd6000000) /* branches */
      return DOES_REPEAT;
   return mark(insn) ? DOES_MARK : 0;
}

static void decode(struct insn* insn)
{
   insn->does = does(insn);
}

static u64 general(unsigned number)
{
   return number == 31 ? 0 : register_value(REG_GENERAL + number);
}

static int register_named(const char* name)
{
   static const struct { const char* name; int which; } names[] = {
      { "sp", 31 }, { "TTBR0_EL1", REG_ROOT_0 }, { "TTBR1_EL1", REG_ROOT_1 }, { "TCR_EL1", REG_CONTROL },
      { "SCTLR", REG_MODE }, { "SCTLR_EL1", REG_MODE }, { "VBAR", REG_VECTORS }, { "VBAR_EL1", REG_VECTORS },
      { "ELR_EL1", REG_RETURN }, { "pc", REG_PC }, { "cpsr", REG_FLAGS },
   };
   for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
      if (strcmp(name, names[i].name) == 0)
         return names[i].which;
   if (name[0] == 'x' && name[1] >= '0' && name[1] <= '9')
      return atoi(name + 1) < 31 ? atoi(name + 1) : -1;
   return -1;
}

static bool translates(const struct vcpu* v)
{
   if ((register_value(REG_FLAGS) >> 2 & 3) > 1)
      fail("the guest runs at exception level 2 or 3; use the machine without virtualization=on and secure=on");
   return v->mode >> SCTLR_M & 1;
}

/* ---- Tables ---- */

/* How the half of an address is translated. */
struct format {
   u64      root;
   unsigned granule, bits; /* log2 of the bytes of a table and of a page; bits of an address */
   bool     wide;          /* addresses of 52 bits */
};

static unsigned granule_of(unsigned half)
{
   static const u8 lower[4] = { 12, 16, 14, 12 }, upper[4] = { 12, 14, 12, 16 };
   return half ? upper[vcpu->control >> 30 & 3] : lower[vcpu->control >> 14 & 3];
}

static struct format format_of(unsigned half)
{
   struct format f = { .granule = granule_of(half) };
   f.bits = 64 - (half ? vcpu->control >> 16 & 63 : vcpu->control & 63);
   f.wide = vcpu->control >> TCR_DS & 1 || f.granule == 16;
   u64 value = vcpu->root[half];
   f.root = value & 0x0000ffffffffffc0ULL;
   if (f.wide && (vcpu->control >> 32 & 7) == 6)
      f.root |= (value >> 2 & 0xf) << 48;
   else
      f.root = value & 0x0000fffffffffffeULL;
   return f;
}

static u64 root_of(u64 value)
{
   return value & 0x0000fffffffffffeULL;
}

/* What a descriptor names: a table or a page. */
static u64 output(const struct format* f, u64 word)
{
   u64 address = word & 0x0000fffffffff000ULL & ~((1ULL << f->granule) - 1);
   if (f->granule == 16)
      address |= (word >> 12 & 0xf) << 48;
   else if (f->wide)
      address = (word & 0x0003fffffffff000ULL & ~((1ULL << f->granule) - 1)) | (word >> 8 & 3) << 50;
   return address;
}

/* Levels count from the last here: level 0 is level 3 of the architecture. */
static int first_level(const struct format* f)
{
   return (f->bits - f->granule + f->granule - 4) / (f->granule - 3) - 1;
}

static struct walk walk_tables(u64 va, bool tell)
{
   bool          kernel = va >> 55 & 1;
   struct format f = format_of(kernel);
   unsigned      stride = f.granule - 3;
   u64           table = f.root, in = va & ((1ULL << f.bits) - 1);
   for (int level = first_level(&f); level >= 0; level--) {
      unsigned shift = f.granule + stride * level;
      u64      at = table + (in >> shift & ((1u << stride) - 1)) * 8;
      u64*     place = tables_word(at);
      if (!place)
         break;
      if (tell)
         tables_walk(at, level, shift, va);
      u64 word = past_word(at, place);
      if (!(word & VALID) || (level == 0 && (word & 3) != TABLE_OR_PAGE))
         break;
      if (level == 0 || (word & 3) != TABLE_OR_PAGE) {
         u64 below = (1ULL << shift) - 1;
         return (struct walk){ (output(&f, word) & ~below) | (in & below), true };
      }
      table = output(&f, word);
   }
   return (struct walk){ 0, false };
}

static u64 table_of(u64 word, int level, u64* bytes)
{
   struct format f = format_of(1);
   (void)level;
   *bytes = 1ULL << f.granule;
   return (word & 3) == TABLE_OR_PAGE ? output(&f, word) : 0;
}

static struct frame* use_root(u64 root)
{
   struct format f = format_of(0);
   return tables_use(root, first_level(&f), false);
}

/* Of the table at the root, as far as it lies in the frame in which the root lies. */
static unsigned lower_entries(void)
{
   struct format f = format_of(0);
   unsigned      shift = f.granule + (f.granule - 3) * first_level(&f);
   unsigned      entries = 1u << (f.bits - shift), here = (4096 - (f.root & 4095)) / 8;
   return entries < here ? entries : here;
}

static u64 upper_sign(void)
{
   return root_of(vcpu->root[1]);
}

static u64 tag(void)
{
   return vcpu->root[vcpu->control >> TCR_A1 & 1] >> 48;
}

/* ---- Invalidations ---- */

static void invalidates(struct event* e, u32 w)
{
   unsigned op1 = w >> 16 & 7, crm = w >> 8 & 15, op2 = w >> 5 & 7;
   u64      operand = general(w & 31), tag = (operand >> 48) << 32;
   bool     range = crm == 6 || crm == 2 || crm == 5;
   e->flags = FR_NO_INVALIDATE;
   if (op1 != 0)
      return;
   u64 flags = crm == 7 || crm == 6 ? 0 : FR_BROADCAST;
   if (op2 == 0 && !range) {
      e->flags = flags | FR_GLOBAL;
   } else if (op2 == 2 && !range) {
      e->flags = flags | FR_TAGGED | tag;
   } else if (op2 & 1) {
      flags |= FR_ADDRESSED | FR_GLOBAL | (op2 & 4 ? FR_LEAVES : 0);
      e->flags = op2 & 2 ? flags : flags | FR_TAGGED | tag;
      if (range) {
         static const u8 granules[4] = { 12, 12, 14, 16 };
         unsigned granule = granules[operand >> 46 & 3], scale = operand >> 44 & 3, number = operand >> 39 & 31;
         u64 from = operand & ((1ULL << 37) - 1);
         /* With addresses of 52 bits the base counts 64 KB. */
         e->start = (u64)((int64_t)(from << 27) >> 27) << (vcpu->control >> TCR_DS & 1 ? 16 : granule);
         e->bytes = (number + 1ULL) << (5 * scale + 1 + granule);
      } else {
         unsigned granule = granule_of(operand >> 43 & 1);
         e->start = (operand & ((1ULL << 44) - 1)) << 12 & ~((1ULL << granule) - 1);
         e->bytes = 1ULL << granule;
      }
      e->start = canonical(e->start);
   }
}

static void before(const struct insn* insn, u64 pc)
{
   u32 w = word_of(insn);
   (void)pc;
   if (insn->does & DOES_ROOT_0)
      vcpu->event.value = general(w & 31);
   if (insn->does & DOES_INVALIDATE)
      invalidates(&vcpu->event, w);
   if (insn->does & DOES_VECTORS)
      vectors_stored = true;
   if (insn->does & DOES_ZERO) {
      if (line == 0)
         fail("the guest clears a line of memory (DC ZVA), and never asked how long one is (DCZID_EL0)");
      vcpu->event.start = general(w & 31) & ~(line - 1);
      vcpu->event.bytes = line;
   }
}

/* QEMU does not show DCZID_EL0: it is known by what the guest reads. */
void aarch64_line_known(unsigned number, void* insn)
{
   enum { PROHIBITED = 16 };
   u64 value = general(word_of(insn) & 31);
   (void)number;
   if (!(value & PROHIBITED))
      line = 4ULL << (value & 15);
}

/* ---- Exceptions ---- */

static void vectors(void)
{
   enum { VECTORS = 16, BYTES = 0x80 };
   vectors_stored = false;
   u64 from = register_value(REG_VECTORS);
   for (int i = 0; from && i < VECTORS; i++)
      vectors_add(from + i * BYTES, i * BYTES);
}

/* Synchronous ones. */
static bool fault(int64_t vector)
{
   return (vector & 0x180) == 0;
}

static bool resume(int64_t vector, u64* pc)
{
   (void)vector;
   *pc = register_value(REG_RETURN);
   return true;
}

static bool is_call(u32 word)
{
   return (word & 0xffe0001f) == 0xd4000001;
}

static const int forks[] = { 220, 435, 0 };
static const int needs[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 30, REG_MODE, REG_ROOT_0, REG_ROOT_1, REG_CONTROL, REG_VECTORS,
                             REG_RETURN, REG_FLAGS, REG_PC, -1 };

const struct arch aarch64 = {
   .number = FR_AARCH64, .target = "aarch64", .decode = decode, .register_named = register_named, .needs = needs,
   .translates = translates, .walk = walk_tables, .before = before, .trap = vectors_trap, .fault = fault,
   .resume = resume, .vectors = vectors, .root = root_of, .mark = mark, .table = table_of, .use_root = use_root,
   .lower_entries = lower_entries, .upper_sign = upper_sign, .tag = tag, .soft_bits = ACCESS_FLAG, .format = ~0ULL,
   .ram_base = 1ULL << 30, .frame_bits = 0x0000fffffffff000ULL,
   .writes_noted = 1ULL << 51, .write_bit = 1 << 7,
   .status = 0, .call = 8, .stack = 31, .forks = forks,
   .is_call = is_call, .firmware_mode = NO_FIRMWARE, .state_words = { 0, 128 },
};
