/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Registers of the processor that runs, by the names that QEMU gives them, and the places of its vectors. */

#include <stdlib.h>
#include <string.h>

#include "recorder.h"

#define BUCKETS 1024

static struct qemu_plugin_register* handles[REGISTERS];
static GByteArray*                  buffer;

void registers_find(void)
{
   if (buffer)
      return;
   buffer = g_byte_array_new();
   GArray* all = qemu_plugin_get_registers();
   const qemu_plugin_reg_descriptor* r = (const qemu_plugin_reg_descriptor*)all->data;
   for (unsigned i = 0; i < all->len; i++) {
      int which = arch->register_named(r[i].name);
      if (which >= 0)
         handles[which] = r[i].handle;
   }
   g_array_free(all, 1);
   for (const int* needed = arch->needs; *needed >= 0; needed++)
      if (!handles[*needed])
         fail("this QEMU does not show register %d of %s, which the recorder needs; a processor of 64 bits has it, "
              "such as -cpu max",
              *needed, arch->target);
}

bool register_exists(int which)
{
   return handles[which] != NULL;
}

/* 0 if the architecture has no such register. */
u64 register_value(int which)
{
   u64 value = 0;
   if (!handles[which])
      return 0;
   g_byte_array_set_size(buffer, 0);
   qemu_plugin_read_register(handles[which], buffer);
   memcpy(&value, buffer->data, buffer->len < sizeof value ? buffer->len : sizeof value);
   return value;
}

/* ---- Vectors: where exceptions begin. What was one stays one ---- */

static struct vector {
   u64 pc;
   int number;
   struct vector* next;
}* vectors[BUCKETS];

int vectors_find(u64 pc)
{
   struct vector* v = vectors[(pc >> 3) % BUCKETS];
   while (v && v->pc != pc)
      v = v->next;
   return v ? v->number : -1;
}

int64_t vectors_trap(int vector)
{
   return vector;
}

void vectors_add(u64 pc, int number)
{
   if (vectors_find(pc) >= 0)
      return;
   struct vector* v = calloc(1, sizeof *v);
   if (!v)
      fail("no memory for a vector");
   *v = (struct vector){ pc, number, vectors[(pc >> 3) % BUCKETS] };
   vectors[(pc >> 3) % BUCKETS] = v;
   for (struct tb* tb = code_at(pc, NULL); tb; tb = code_at(pc, tb)) {
      tb->vector = number;
      code_classify(tb);
   }
}
