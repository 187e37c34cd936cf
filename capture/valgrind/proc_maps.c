/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The mappings of this process in /proc/self/maps and smaps. In a few rare cases neither the arguments of a system call
   nor the core tell what became of a mapping; the system does. */

#include "recorder.h"

/* A mapping, as /proc/self/maps shows it. */
struct proc_mapping {
   Addr  start, end;
   UInt  flags; /* FR_READ, FR_WRITE, FR_EXECUTE */
   ULong offset, inode;
   Bool  segment;        /* System V shared memory */
   Bool  not_in_child;   /* MADV_DONTFORK; only if asked for children */
   Bool  empty_in_child; /* MADV_WIPEONFORK */
};

/* A growing list of address ranges. */
struct spans {
   struct span { Addr start; SizeT len; }* at;
   UInt n, room;
};

static void add_span(struct spans* s, Addr start, Addr end)
{
   if (s->n == s->room) {
      s->room = s->room ? 2 * s->room : 16;
      s->at = VG_(realloc)("farreach.spans", s->at, s->room * sizeof *s->at);
   }
   s->at[s->n].start = start;
   s->at[s->n++].len = end - start;
}

/* Lines of text that are read piece by piece. Longer ones are cut off: what follows the first fields is not needed. */
struct lines {
   Int   fd;
   Int   at, bytes;
   HChar buffer[4096], line[256];
};

static Bool next_line(struct lines* l)
{
   Int n = 0;
   while (True) {
      if (l->at == l->bytes) {
         l->at = 0;
         l->bytes = VG_(read)(l->fd, l->buffer, sizeof l->buffer);
         if (l->bytes <= 0)
            return False;
      }
      HChar c = l->buffer[l->at++];
      if (c == '\n') {
         l->line[n] = 0;
         return True;
      }
      if (n < (Int)sizeof l->line - 1)
         l->line[n++] = c;
   }
}

/* "start-end rwxp offset device inode name". Names begin with a slash or a bracket. */
static Bool parse(const HChar* line, struct proc_mapping* m)
{
   HChar* at;
   m->start = VG_(strtoull16)(line, &at);
   if (at == line || *at != '-')
      return False;
   m->end = VG_(strtoull16)(at + 1, &at);
   for (Int i = 0; i < 5; i++)
      if (at[i] == 0)
         return False;
   m->flags = (at[1] == 'r' ? FR_READ : 0) | (at[2] == 'w' ? FR_WRITE : 0) | (at[3] == 'x' ? FR_EXECUTE : 0);
   m->offset = VG_(strtoull16)(at + 6, &at);
   while (*at == ' ')
      at++;
   while (*at && *at != ' ')
      at++;
   m->inode = VG_(strtoull10)(at, &at);
   while (*at == ' ')
      at++;
   m->segment = VG_(strncmp)(at, "/SYSV", 5) == 0;
   m->not_in_child = m->empty_in_child = False;
   return True;
}

/* Whether a line "VmFlags: rd wr ..." has this flag. */
static Bool has_vm_flag(const HChar* line, const HChar* flag)
{
   for (const HChar* at = line; (at = VG_(strchr)(at, ' ')) != NULL; at++)
      if (VG_(strncmp)(at + 1, flag, 2) == 0)
         return True;
   return False;
}

/* Calls `each` for every mapping, by ascending addresses. False without /proc. */
static Bool all_mappings(const HChar* file, void (*each)(const struct proc_mapping*, void*), void* to)
{
   struct lines l = { .fd = VG_(fd_open)(file, VKI_O_RDONLY, 0) };
   struct proc_mapping  m, next;
   Bool         some = False;
   if (l.fd < 0)
      return False;
   while (next_line(&l)) {
      if (VG_(strncmp)(l.line, "VmFlags:", 8) == 0) {
         m.not_in_child = has_vm_flag(l.line, "dc");
         m.empty_in_child = has_vm_flag(l.line, "wf");
      } else if (parse(l.line, &next)) {
         if (some)
            each(&m, to);
         m = next;
         some = True;
      }
   }
   if (some)
      each(&m, to);
   VG_(close)(l.fd);
   return True;
}

/* ---- A change of protection that fails at some mapping: those before it are changed ---- */

struct changed {
   Addr at, end; /* up to `at` everything has the protection wanted */
   UInt flags;
};

static void extend_changed(const struct proc_mapping* m, void* to)
{
   struct changed* c = to;
   if (m->start <= c->at && c->at < m->end && m->flags == c->flags)
      c->at = m->end < c->end ? m->end : c->end;
}

SizeT proc_maps_protected(Addr start, SizeT len, UInt flags)
{
   struct changed c = { start, start + len, flags };
   /* A range that starts in no mapping of the program was refused as a whole. */
   const NSegment* s = VG_(am_find_nsegment)(start);
   if (start % 4096 != 0 || c.end <= start || !s || (s->kind != SkAnonC && s->kind != SkFileC && s->kind != SkShmC))
      return 0;
   all_mappings("/proc/self/maps", extend_changed, &c);
   return c.at - start;
}

/* ---- System V shared memory: shmdt detaches the pieces that earlier calls have not unmapped ---- */

struct detaching {
   Addr  start;
   ULong inode;
   Bool  found;
};

static struct spans pieces; /* of the segment that is being detached */

static void collect_piece(const struct proc_mapping* m, void* to)
{
   struct detaching* d = to;
   if (!m->segment || m->start - m->offset != d->start || (d->found && m->inode != d->inode))
      return;
   d->found = True;
   d->inode = m->inode;
   add_span(&pieces, m->start, m->end);
}

void proc_maps_detach_begins(Addr start)
{
   struct detaching d = { start };
   pieces.n = 0;
   if (all_mappings("/proc/self/maps", collect_piece, &d))
      return;
   const NSegment* s = VG_(am_find_nsegment)(start);
   if (s && s->kind == SkShmC)
      add_span(&pieces, s->start, s->end + 1);
}

void proc_maps_detached(void)
{
   for (UInt i = 0; i < pieces.n; i++)
      space_unmapped(pieces.at[i].start, pieces.at[i].len);
   pieces.n = 0;
}

/* ---- Children that do not get all memory ---- */

static struct spans not_in_child, empty_in_child;
static Bool children_differ; /* advice about children was given */

static void collect_for_child(const struct proc_mapping* m, void* unused)
{
   if (m->not_in_child)
      add_span(&not_in_child, m->start, m->end);
   if (m->empty_in_child)
      add_span(&empty_in_child, m->start, m->end);
}

void proc_maps_children_differ(void)
{
   children_differ = True;
}

void proc_maps_fork_begins(void)
{
   not_in_child.n = empty_in_child.n = 0;
   if (children_differ)
      all_mappings("/proc/self/smaps", collect_for_child, NULL);
}

void proc_maps_fork_in_child(void)
{
   for (UInt i = 0; i < not_in_child.n; i++)
      space_unmapped(not_in_child.at[i].start, not_in_child.at[i].len);
   for (UInt i = 0; i < empty_in_child.n; i++)
      space_emptied(empty_in_child.at[i].start, empty_in_child.at[i].len);
}
