/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Registers of translation, address spaces and their stamps.

   An address space is a root whose lower half has entries. Its number ends with its program: when the lower half has
   no entry any more, the frame's next use as a root is another space. A root without any (that of kernel threads) is
   none: the space of before goes on, as nothing but the kernel's half is used. */

#include <stdlib.h>
#include <string.h>

#include "recorder.h"

#define BUCKETS 4096
#define HALVES  16

static struct space* spaces[BUCKETS]; /* by root */
static u32           numbers;
static u64           last_stamp;
static u64           all = 1;         /* spaces with another have a stamp of before */

/* Roots whose upper halves are alike share its stamp. */
static struct { u64 sign, stamp; } halves[HALVES];
static unsigned half_count, half_next;

static u64 new_stamp(void)
{
   u64 mask = (1ULL << STAMP_BITS) - 1;
   if ((++last_stamp & mask) == mask) { /* what fits beside page numbers comes again */
      last_stamp += 2;
      walk_known_clear();
   }
   return last_stamp;
}

static void refresh_lower(void)
{
   struct space* s = vcpu->space;
   if (s && s->all != all) {
      s->stamp = new_stamp();
      s->all = all;
   }
   hot.full[0] = s ? s->stamp : 0;
}

static void refresh_upper(void)
{
   u64 sign = arch->upper_sign();
   for (unsigned i = 0; i < half_count; i++)
      if (halves[i].sign == sign) {
         hot.full[1] = halves[i].stamp;
         return;
      }
   if (half_count < HALVES)
      half_count++;
   unsigned i = half_next++ % HALVES;
   halves[i].sign = sign;
   halves[i].stamp = new_stamp();
   hot.full[1] = halves[i].stamp;
}

static void refresh(void)
{
   u64 before;
   do { /* new stamps can end the life of all */
      before = all;
      refresh_lower();
      refresh_upper();
   } while (before != all);
   for (unsigned half = 0; half < 2; half++)
      hot.stamps[half] = hot.full[half] << (64 - STAMP_BITS);
   edges_see_next();
}

void spaces_all_changed(void)
{
   all++;
   half_count = half_next = 0;
}

/* Ways through this table are others than they were. */
void spaces_changed(struct frame* f)
{
   if (f->kernel)
      half_count = half_next = 0;
   if (f->shared)
      all++;
   else if (f->owner)
      f->owner->stamp = new_stamp();
   if (vcpu && vcpu->introduced)
      refresh();
}

/* ---- Roots ---- */

static const u64* root_words(u64 root, unsigned* entries)
{
   const u64* words = tables_word(root);
   *entries = arch->lower_entries();
   if (!words)
      *entries = 0;
   return words;
}

static bool is_empty(u64 root)
{
   unsigned   entries;
   const u64* words = root_words(root, &entries);
   for (unsigned i = 0; i < entries; i++)
      if (words[i] & 1)
         return false;
   return true;
}

/* A store to a frame with roots. True: no space has its root there any more, and no processor uses it. */
bool spaces_root_stored(struct frame* f)
{
   bool unused = true;
   for (struct space* s = f->spaces; s; s = s->in_frame) {
      if (!is_empty(s->root))
         s->used = true;
      else if (s->used)
         s->emptied = true;
      unused &= s->emptied;
      for (unsigned i = 0; i < MAX_VCPUS; i++)
         unused &= !vcpus[i].seen || arch->root(vcpus[i].root[0]) != s->root;
   }
   return unused;
}

/* Whether all spaces with their root in this frame have ended before: what is stored there now is none of a table. */
bool spaces_root_dead(const struct frame* f)
{
   for (struct space* s = f->spaces; s; s = s->in_frame) {
      bool alive = !s->emptied;
      for (unsigned i = 0; i < MAX_VCPUS; i++)
         alive |= vcpus[i].seen && arch->root(vcpus[i].root[0]) == s->root;
      if (alive)
         return false;
   }
   return f->spaces != NULL;
}

/* The frame may become anything, a table of another level among it. */
void spaces_leave_frame(struct frame* f)
{
   for (struct space* s = f->spaces; s; s = s->in_frame)
      s->frame = NULL;
   f->spaces = NULL;
}

static struct space* space_at(u64 root, u64 tag, bool empty)
{
   struct space** bucket = &spaces[(root >> 12 ^ root >> 6) % BUCKETS];
   struct space*  s = *bucket;
   while (s && s->root != root)
      s = s->chain;
   if (s && !s->emptied && (s->tag == tag || empty))
      return s;
   if (!s) {
      s = calloc(1, sizeof *s);
      if (!s)
         fail("no memory for an address space");
      s->chain = *bucket;
      *bucket = s;
      s->root = root;
   }
   s->number = ++numbers;
   s->tag = tag;
   s->used = !empty;
   s->emptied = false;
   s->entered = false;
   s->name[0] = 0;
   s->stamp = new_stamp();
   s->all = all;
   return s;
}

static void enter(void)
{
   u64           root = arch->root(vcpu->root[0]);
   bool          empty = is_empty(root);
   struct space* from = vcpu->space;
   u32           number = from ? from->number : 0;
   if (!empty || !from) {
      vcpu->space = space_at(root, arch->tag(), empty);
      number = number == vcpu->space->number ? number : 0;
   }
   refresh();
   struct frame* f = arch->use_root(root);
   struct space* s = vcpu->space;
   if (f && s->root == root && s->frame != f) {
      s->frame = f;
      s->in_frame = f->spaces;
      f->spaces = s;
   }
   if (number == 0)
      ring_record(FR_SPACE, 1)[0] = s->number;
}

/* ---- Registers ---- */

static void tell(enum fr_register which, u64 value)
{
   u64* payload = ring_record(FR_REGISTER, 2);
   payload[0] = which;
   payload[1] = value;
}

static void tell_control(void)
{
   tell(FR_CONTROL, vcpu->control);
   vcpu->told_control = vcpu->control;
}

/* A processor begins to translate. What it stored before was not seen, nor what QEMU stores at a reset. If no other
   translates, it may be another kernel, with other programs. */
static void look_again(void)
{
   bool others = false;
   for (unsigned i = 0; i < MAX_VCPUS; i++)
      others |= &vcpus[i] != vcpu && vcpus[i].seen && vcpus[i].translates;
   for (unsigned i = 0; i < BUCKETS && !others; i++)
      for (struct space* s = spaces[i]; s; s = s->chain)
         s->emptied = s->used;
   tables_forget();
   vectors_stored = true;
}

/* As they are, without a record. A processor that begins to translate again, after a reset or where the guest turned
   it off for a while, is a new one to the reader. Firmware runs without translation, and changes nothing of that. */
void spaces_read_registers(void)
{
   vcpu->root[0] = register_value(REG_ROOT_0);
   vcpu->root[1] = register_value(REG_ROOT_1);
   vcpu->control = register_value(REG_CONTROL);
   vcpu->mode = register_value(REG_MODE);
   vcpu->efer = register_value(REG_EFER);
   vcpu->translates = arch->translates(vcpu);
   if (vcpu->introduced && !vcpu->translates && vcpu->mode != arch->firmware_mode) {
      vcpu->introduced = false;
      vcpu->space = NULL;
      edges_forget_told();
   }
}

/* The processor is new in the stream. */
void spaces_introduce(void)
{
   spaces_read_registers();
   look_again();
   tell(FR_ROOT_0, vcpu->root[0]);
   if (register_exists(REG_ROOT_1))
      tell(FR_ROOT_1, vcpu->root[1]);
   if (register_exists(REG_CONTROL))
      tell_control();
   enter();
}

void spaces_take_over(void)
{
   refresh();
   ring_record(FR_SPACE, 1)[0] = vcpu->space->number;
}

/* The instruction that ended the last block did this; the registers are read. */
void spaces_after(void)
{
   const struct event* e = &vcpu->event;
   if (!vcpu->introduced)
      return;
   /* Those of AArch64 have the tag of their space. */
   if (e->does & (DOES_ROOT_0 | DOES_CONTROL) && arch->number != FR_AARCH64)
      past_dropped(vcpu, 0, ~0ULL);
   if (e->does & DOES_CONTROL) {
      u64 before = vcpu->told_control;
      tell_control();
      if ((before ^ vcpu->control) & arch->format) {
         spaces_all_changed();
         refresh();
      }
   }
   if (e->does & DOES_ROOT_1) {
      tell(FR_ROOT_1, vcpu->root[1]);
      refresh();
   }
   if (e->does & DOES_ROOT_0) {
      /* x86-64 does not keep all bits; RISC-V may take fewer than are written, or none. */
      tell(FR_ROOT_0, arch->number == FR_RISCV64 ? vcpu->root[0] : e->value);
      enter();
   }
   if (e->does & DOES_INVALIDATE && e->flags != FR_NO_INVALIDATE) {
      u64* payload = ring_record(FR_INVALIDATE, 3);
      payload[0] = e->flags;
      payload[1] = e->start;
      payload[2] = e->bytes;
      bool addressed = e->flags & FR_ADDRESSED;
      past_dropped(e->flags & FR_BROADCAST ? NULL : vcpu, addressed ? e->start : 0, addressed ? e->bytes : ~0ULL);
   }
}
