/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* x86-64: instructions that matter, page tables of 4 and 5 levels, the table of interrupts. */

#include <string.h>

#include "recorder.h"

#define ADDRESS 0x000ffffffffff000ULL
enum { PRESENT = 1, ACCESSED = 0x20, DIRTY = 0x40, LARGE = 0x80 };
enum { CR0_PG = 31, CR4_LA57 = 12, CR4_PCIDE = 17, EFER_LME = 8 };
enum { RSP = 4, RDI = 7 };

/* An instruction, taken apart as far as needed. */
struct parts {
   u8        rex;
   bool      p66, repeat, address32;
   int       segment;
   const u8* op; /* behind prefixes */
};

static struct parts parts_of(const struct insn* insn)
{
   struct parts p = { .segment = -1, .op = insn->bytes };
   for (;; p.op++) {
      switch (*p.op) {
         case 0x66: p.p66 = true; continue;
         case 0x67: p.address32 = true; continue;
         case 0xf2: case 0xf3: p.repeat = true; continue;
         case 0x64: p.segment = REG_FS; continue;
         case 0x65: p.segment = REG_GS; continue;
         case 0x26: case 0x2e: case 0x36: case 0x3e: case 0xf0: continue;
      }
      break;
   }
   if ((*p.op & 0xf0) == 0x40)
      p.rex = *p.op++;
   return p;
}

static int mark(const struct insn* insn)
{
   u32 number;
   if (insn->length != 8 || memcmp(insn->bytes, "\x0f\x1f\x84\x00", 4) != 0)
      return 0;
   memcpy(&number, insn->bytes + 4, sizeof number);
   return number > 0x46521000 && number <= 0x46521003 ? (int)(number & 0xf) : 0;
}

static u16 does(const struct insn* insn)
{
   struct parts p = parts_of(insn);
   const u8*    op = p.op;
   int          reg = op[2] >> 3 & 7;
   bool         memory = op[2] < 0xc0;
   if (p.repeat && ((*op >= 0xa4 && *op <= 0xa7) || (*op >= 0xaa && *op <= 0xaf) || (*op >= 0x6c && *op <= 0x6f)))
      return DOES_REPEAT | DOES_STRING;
   if ((*op & 0xf0) == 0x70 || (*op >= 0xe0 && *op <= 0xe3) || *op == 0xe9 || *op == 0xeb || *op == 0xc3
       || *op == 0xc2 || *op == 0xff)
      return DOES_REPEAT;
   if (*op != 0x0f)
      return 0;
   switch (op[1]) {
      case 0x01: return memory && reg == 7 ? DOES_INVALIDATE : memory && reg == 3 ? DOES_VECTORS : 0;
      case 0x05: return DOES_CALL;
      case 0x1f: return mark(insn) ? DOES_MARK : 0;
      case 0x22: return p.rex & 4 ? 0 : reg == 0 ? DOES_MODE : reg == 3 ? DOES_ROOT_0 : reg == 4 ? DOES_CONTROL : 0;
      case 0x30: case 0xaa: return DOES_MODE;
      case 0x38: return p.p66 && op[2] == 0x82 ? DOES_INVALIDATE : 0;
   }
   return (op[1] & 0xf0) == 0x80 ? DOES_REPEAT : 0;
}

static void decode(struct insn* insn)
{
   insn->does = does(insn);
}

static u64 general(unsigned number)
{
   return register_value(REG_GENERAL + number);
}

/* Address of the operand in memory. */
static u64 operand(const struct insn* insn, const struct parts* p, const u8* modrm, u64 pc)
{
   unsigned  mod = *modrm >> 6, rm = *modrm & 7;
   const u8* rest = modrm + 1;
   u64       address = 0;
   int32_t   wide;
   if (rm == 4) {
      unsigned scale = *rest >> 6, index = (*rest >> 3 & 7) | (p->rex & 2) << 2, from = (*rest & 7);
      rest++;
      if (index != 4)
         address += general(index) << scale;
      if (from == 5 && mod == 0)
         mod = 2;
      else
         address += general(from | (p->rex & 1) << 3);
   } else if (rm == 5 && mod == 0) {
      address = pc + insn->length;
      mod = 2;
   } else {
      address = general(rm | (p->rex & 1) << 3);
   }
   if (mod == 1)
      address += (int8_t)*rest;
   if (mod == 2) {
      memcpy(&wide, rest, sizeof wide);
      address += wide;
   }
   if (p->address32)
      address = (u32)address;
   return p->segment >= 0 ? address + register_value(p->segment) : address;
}

/* INVPCID: its kind is in the register, tag and address in memory. */
static void invalidates_tag(struct event* e, u64 kind, u64 descriptor)
{
   u64 words[2];
   e->flags = FR_NO_INVALIDATE;
   if (kind > 3 || !walk_read(descriptor, words, sizeof words))
      return;
   u64 tag = (words[0] & 0xfff) << 32;
   e->start = words[1] & ADDRESS_MASK & ~4095ULL;
   e->bytes = 4096;
   e->flags = kind == 0 ? FR_ADDRESSED | FR_TAGGED | tag : kind == 1 ? FR_TAGGED | tag : kind == 2 ? FR_GLOBAL : 0;
}

static void before(const struct insn* insn, u64 pc)
{
   struct parts  p = parts_of(insn);
   struct event* e = &vcpu->event;
   if (insn->does & DOES_ROOT_0)
      e->value = general((p.op[2] & 7) | (p.rex & 1) << 3);
   if (!(insn->does & DOES_INVALIDATE))
      return;
   if (p.op[1] == 0x38) {
      invalidates_tag(e, general((p.op[3] >> 3 & 7) | (p.rex & 4) << 1), operand(insn, &p, p.op + 3, pc));
      return;
   }
   e->start = operand(insn, &p, p.op + 2, pc) & ADDRESS_MASK & ~4095ULL;
   e->bytes = 4096;
   e->flags = FR_ADDRESSED | FR_GLOBAL;
   if (vcpu->control >> CR4_PCIDE & 1)
      e->flags |= FR_TAGGED | (vcpu->root[0] & 0xfff) << 32;
}

static int register_named(const char* name)
{
   static const struct { const char* name; int which; } names[] = {
      { "rax", 0 }, { "rcx", 1 }, { "rdx", 2 }, { "rbx", 3 }, { "rsp", 4 }, { "rbp", 5 }, { "rsi", 6 }, { "rdi", 7 },
      { "r8", 8 }, { "r9", 9 }, { "r10", 10 }, { "r11", 11 }, { "r12", 12 }, { "r13", 13 }, { "r14", 14 },
      { "r15", 15 }, { "cr0", REG_MODE }, { "cr3", REG_ROOT_0 }, { "cr4", REG_CONTROL }, { "efer", REG_EFER },
      { "rip", REG_PC }, { "fs_base", REG_FS }, { "gs_base", REG_GS },
   };
   for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
      if (strcmp(name, names[i].name) == 0)
         return names[i].which;
   return -1;
}

static bool translates(const struct vcpu* v)
{
   return v->mode >> CR0_PG & 1 && v->efer >> EFER_LME & 1;
}

/* ---- Tables ---- */

static u64 root_of(u64 value)
{
   return value & ADDRESS;
}

static int levels(void)
{
   return vcpu->control >> CR4_LA57 & 1 ? 5 : 4;
}

static enum entry entry(u64 word, int level, u64* to, unsigned* shift)
{
   (void)shift;
   *to = word & ADDRESS;
   if (!(word & PRESENT))
      return ENTRY_NONE;
   return level == 0 || (level <= 2 && word & LARGE) ? ENTRY_LEAF : ENTRY_TABLE;
}

static u64 tag(void)
{
   return 0;
}

/* ---- Exceptions ---- */

static u64 idt; /* the table that was loaded last; processors share one, and what was a vector stays one */

void x86_vectors_loaded(unsigned number, u32 info, u64 va, void* user)
{
   (void)number, (void)va, (void)user;
   if (qemu_plugin_mem_size_shift(info) != 3)
      return;
   idt = qemu_plugin_mem_get_value(info).data.u64;
   vectors_stored = true;
   edges_see_next();
}

static void vectors(void)
{
   struct { u16 low, selector, kind, middle; u32 high, zero; } gate;
   vectors_stored = false;
   for (int i = 0; idt && i < 256; i++) {
      if (!walk_read(idt + i * sizeof gate, &gate, sizeof gate))
         return;
      if (i == 0 || i == 255)
         tables_watch_vectors(arch->walk(idt + i * sizeof gate, false).pa);
      if (gate.kind & 0x8000)
         vectors_add(gate.low | (u64)gate.middle << 16 | (u64)gate.high << 32, i);
   }
}

static bool fault(int64_t vector)
{
   return vector < 32 && vector != 2;
}

/* The processor pushes an error code first with some. */
static bool resume(int64_t vector, u64* pc)
{
   bool error = vector < 32 && 0x60227d00u >> vector & 1;
   return walk_read(general(RSP) + 8 * error, pc, sizeof *pc);
}

static bool is_call(u32 bytes)
{
   return bytes >> 16 == 0x050f;
}

static const int forks[] = { 56, 57, 58, 435, 0 };
static const int needs[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, REG_MODE, REG_ROOT_0, REG_CONTROL, REG_EFER, REG_PC, -1 };

const struct arch x86 = {
   .number = FR_X86, .target = "x86_64", .decode = decode, .register_named = register_named, .needs = needs,
   .translates = translates, RADIX_TABLES, .levels = levels, .entry = entry, .before = before, .trap = vectors_trap,
   .fault = fault, .resume = resume, .vectors = vectors, .root = root_of, .mark = mark, .tag = tag,
   .soft_bits = ACCESSED | DIRTY, .frame_bits = 0x000ffffffffff000ULL, .format = 1ULL << CR4_LA57,
   .status = RDI, .call = 0, .stack = RSP, .forks = forks,
   .is_call = is_call, .firmware_mode = NO_FIRMWARE, .state_words = { 0, 128 },
};
