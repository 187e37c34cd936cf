/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The writing end of the stream: chunks, their order, back-pressure. The protocol is that of ../valgrind/ring.c. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../valgrind/writer.h"
#include "recorder.h"

#define CHUNK_BYTES (FR_CHUNK_WORDS * sizeof(u64))
#define RING_BYTES  (FR_RING_HEAD + FR_CHUNKS * CHUNK_BYTES)
#define PATIENCE    5 /* seconds that QEMU has to end by itself */

static const char*        run_dir;
static int                run_fd, control_fd = -1;
static struct fr_control* control;
static struct fr_ring*    ring;
static u64*               chunk;   /* first word of the chunk being filled */
static time_t             stopped; /* when the reader was found to be gone, 0: it is there */

static void futex_wake(unsigned* word)
{
   syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_wait(unsigned* word, unsigned value)
{
   struct timespec patience = { 0, 200 * 1000 * 1000 };
   syscall(SYS_futex, word, FUTEX_WAIT, value, &patience, NULL, 0);
}

static void tell_failure(const char* text)
{
   if (!control || __atomic_exchange_n(&control->failed, 1, __ATOMIC_SEQ_CST) != 0)
      return;
   memcpy(control->failure, text, strlen(text)); /* the rest is zero, and both have the same size */
   __atomic_store_n(&control->failed, 2, __ATOMIC_SEQ_CST);
   __atomic_fetch_add(&control->wake, 1, __ATOMIC_SEQ_CST);
   futex_wake(&control->wake);
}

/* Says what went wrong in the place where the reader looks, and ends QEMU, which puts the terminal right. */
void fail(const char* format, ...)
{
   char text[sizeof control->failure - 1];
   va_list args;
   va_start(args, format);
   vsnprintf(text, sizeof text, format, args);
   va_end(args);
   fprintf(stderr, "farreach: %s\n", text);
   tell_failure(text);
   recording = false;
   ring = NULL;
   exit(1);
}

/* Ends QEMU if the reader has ended: the guest must not run on unrecorded, nor hang. The kernel releases the reader's
   lock however the reader ends. QEMU is asked first, so that it puts the terminal right and its disks in order. */
static int is_over(void)
{
   bool gone = flock(control_fd, LOCK_SH | LOCK_NB) == 0;
   if (!stopped && (__atomic_load_n(&control->closed, __ATOMIC_SEQ_CST) || gone)) {
      stopped = time(NULL);
      kill(getpid(), SIGTERM);
   }
   return ring_stopped();
}

bool ring_is_open(void)
{
   return ring != NULL;
}

bool ring_stopped(void)
{
   if (stopped && time(NULL) > stopped + PATIENCE)
      _exit(128 + SIGKILL);
   return stopped != 0;
}

static int open_here(const char* name, int flags)
{
   int fd = openat(run_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
   if (fd < 0)
      fail("cannot open %s/%s: %s", run_dir, name, strerror(errno));
   return fd;
}

static void* map_file(int fd, const char* name, size_t bytes)
{
   void* mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
   if (mapped == MAP_FAILED)
      fail("cannot map %s/%s: %s", run_dir, name, strerror(errno));
   return mapped;
}

void ring_attach(const char* dir)
{
   run_dir = dir;
   run_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
   if (run_fd < 0)
      fail("cannot open run-dir=%s: %s", dir, strerror(errno));
   control_fd = open_here("control", O_RDWR);
   struct stat about;
   if (fstat(control_fd, &about) != 0 || about.st_size < (off_t)sizeof(struct fr_control))
      fail("%s/control is not of the stream: it has %lld bytes", dir, (long long)about.st_size);
   struct fr_control* found = map_file(control_fd, "control", sizeof(struct fr_control));
   if (found->magic != FR_MAGIC || found->version != FR_VERSION)
      fail("%s is not version %d of the stream; recorder and reader must come from the same build", dir, FR_VERSION);
   control = found;
}

/* Where a block may begin, so that it fits with any references. */
static void set_limit(void)
{
   hot.limit = chunk + FR_CHUNK_WORDS - 2 * (MAX_REFS + 1);
}

void ring_open(void)
{
   char name[32];
   struct stat here;
   unsigned number = __atomic_fetch_add(&control->next_ring, 1, __ATOMIC_SEQ_CST);
   snprintf(name, sizeof name, "ring.%u", number);
   int fd = open_here(name, O_RDWR | O_CREAT | O_EXCL);
   /* Not ftruncate: missing memory must show here, not as a bus error later. */
   int error = posix_fallocate(fd, 0, RING_BYTES);
   if (error != 0) {
      unlinkat(run_fd, name, 0);
      fail("cannot reserve %zu bytes for %s/%s: %s", RING_BYTES, run_dir, name, strerror(error));
   }
   ring = map_file(fd, name, RING_BYTES);
   close(fd);
   ring->pid = getpid();
   if (stat("/proc/self/ns/pid", &here) == 0 && (unsigned)here.st_ino != control->pid_namespace)
      ring->foreign = here.st_ino;
   ring->number = number;
   __atomic_store_n(&ring->magic, FR_MAGIC, __ATOMIC_SEQ_CST);
   chunk = (u64*)((u8*)ring + FR_RING_HEAD);
   hot.at = chunk;
   set_limit();
}

u32 ring_new_block(void)
{
   u32 id = __atomic_fetch_add(&control->next_block, 1, __ATOMIC_RELAXED);
   if (id >= 1U << 26)
      fail("more than 2^26 blocks of code in one run");
   return id;
}

/* Goes to the next chunk as soon as it is free. Without a reader, the words go to the chunk of before, and nowhere. */
static void take_chunk(u64 n)
{
   writer_wait(ring, n);
   chunk = (u64*)((u8*)ring + FR_RING_HEAD + (n % FR_CHUNKS) * CHUNK_BYTES);
}

static void publish(unsigned words)
{
   if (ring_stopped())
      return;
   writer_publish(control, ring, words);
   take_chunk(ring->produced);
}

/* Hands over all words but those of the piece in progress, which go on in the next chunk. */
void ring_publish(void)
{
   u64 piece[MAX_REFS + 1];
   size_t words = hot.head ? hot.at - hot.head : 0;
   u64* end = hot.head ? hot.head : hot.at;
   if (!ring || end == chunk)
      return;
   memcpy(piece, end, words * sizeof(u64));
   /* A chunk is zero behind its words: see stream.h. */
   memset(end, 0, words * sizeof(u64));
   publish(end - chunk);
   memcpy(chunk, piece, words * sizeof(u64));
   hot.at = chunk + words;
   if (hot.head)
      hot.head = chunk;
   set_limit();
}

/* Room for a record, in front of the piece in progress. */
u64* ring_record(u32 type, u32 words)
{
   if (hot.at + 1 + words + 2 * (MAX_REFS + 1) > chunk + FR_CHUNK_WORDS)
      ring_publish();
   u64* place = hot.head ? hot.head : hot.at;
   if (hot.head) {
      memmove(place + 1 + words, place, (hot.at - place) * sizeof(u64));
      hot.head += 1 + words;
   }
   hot.at += 1 + words;
   place[0] = FR_OP | (u64)type << 32 | words;
   return place + 1;
}

u64* ring_text(u64* to, const char* text, unsigned bytes)
{
   unsigned words = (bytes + 7) / 8;
   for (unsigned i = 0; i < words; i++)
      to[i] = 0;
   memcpy(to, text, bytes);
   return to + words;
}
