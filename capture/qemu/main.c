/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The plugin: its arguments, what it instruments when, begin and end of the stream.

     run-dir=PATH            the folder of the run, see stream.h
     from=start|mark|N       what is recorded: from the first paging on, from a mark on (the default), or after N
                             instructions; up to a mark of an end, and from the next mark of a begin on
     check=pages|all         compares translations with QEMU's own at first uses of pages (the default), or each
     status=PATH             gets the exit status of the guest's command, from a mark
     count=on                counts beside the stream, and says on standard error whether both agree */

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder.h"

__attribute__((visibility("default"))) int qemu_plugin_version = API_VERSION;

enum { MARK_BEGIN = 1, MARK_END, MARK_STATUS };

const struct arch* arch;
bool               recording, ending;

static qemu_plugin_id_t own_id;
static const char*      status_path;
static u64              wait_for; /* instructions to go until the recording begins, 0: for a mark */
static bool             wanted;   /* what was marked last is a begin, and no end */
static bool             changing; /* what is instrumented */

static void instrument(qemu_plugin_id_t id);

/* ---- When it records ---- */

static void changed(qemu_plugin_id_t id)
{
   changing = false;
   recording = wanted;
   ending = false;
   if (recording)
      check_begin();
   instrument(id);
}

/* QEMU drops all translations, and makes them anew with what is asked for then. */
static void change(void)
{
   if (changing)
      return;
   changing = true;
   qemu_plugin_reset(own_id, changed);
}

void main_ended(void)
{
   check_end();
   edges_finish_all();
   tables_forget();
   recording = false;
   change();
}

static void write_status(u64 status)
{
   char text[24];
   int  bytes = snprintf(text, sizeof text, "%d\n", (int)status);
   int  fd = status_path ? open(status_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
   if (status_path && (fd < 0 || write(fd, text, bytes) != bytes))
      fail("cannot write status=%s", status_path);
   if (fd >= 0)
      close(fd);
}

/* The last mark counts: others may be executed before QEMU has made its translations anew. */
void main_mark(int mark)
{
   if (mark == MARK_STATUS) {
      write_status(register_value(arch->status));
   } else if (wait_for == 0) {
      wanted = mark == MARK_BEGIN;
      if (wanted && !recording) {
         change();
      } else if (!wanted && recording) {
         ending = true;
         edges_see_next();
      }
   }
}

/* Counts down to the begin. */
static void on_wait(unsigned number, void* instrs)
{
   (void)number;
   if (wait_for > (u64)instrs) {
      wait_for -= (u64)instrs;
   } else if (wait_for != 0) {
      wait_for = 0;
      wanted = true;
      change();
   }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* tb)
{
   code_translated(id, tb);
   if (wait_for != 0)
      qemu_plugin_register_vcpu_tb_exec_cb(tb, on_wait, QEMU_PLUGIN_CB_NO_REGS, (void*)qemu_plugin_tb_n_insns(tb));
}

/* ---- Begin and end ---- */

static void start_stream(void)
{
   char    program[PATH_MAX];
   ssize_t bytes = readlink("/proc/self/exe", program, sizeof program);
   if (bytes < 0)
      bytes = 0;
   tables_find_ram();
   ring_open();
   walk_known_clear();
   u64* payload = ring_record(FR_START, 1 + (bytes + 7) / 8);
   payload[0] = (u32)getpid() | (u64)bytes << 32;
   ring_text(payload + 1, program, bytes);
   payload = ring_record(FR_MACHINE, 2);
   payload[0] = arch->number | (u64)edges_processors << 32;
   payload[1] = tables_ram_bytes();
}

static void on_processor(qemu_plugin_id_t id, unsigned number)
{
   static bool started;
   (void)id, (void)number;
   registers_find();
   edges_thread();
   hot.reached = qemu_plugin_scoreboard_find(edges_reached.score, 0);
   if (!started)
      start_stream();
   started = true;
}

static void on_end(qemu_plugin_id_t id, void* user)
{
   (void)id, (void)user;
   if (!ring_is_open())
      return;
   if (recording)
      check_end();
   recording = false;
   edges_finish_all();
   u64* payload = ring_record(FR_SUMMARY, FR_COUNTERS);
   memcpy(payload, counters, sizeof counters);
   payload = ring_record(FR_END, 2);
   payload[0] = 0;
   payload[1] = hot.tally;
   ring_publish();
   check_print();
}

static void instrument(qemu_plugin_id_t id)
{
   qemu_plugin_register_vcpu_init_cb(id, on_processor);
   qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
   qemu_plugin_register_atexit_cb(id, on_end, NULL);
}

/* ---- Arguments ---- */

__attribute__((noreturn)) static void refuse(const char* argument, const char* allowed)
{
   fail("argument %.64s is not allowed; %s", argument, allowed);
}

static const char* after(const char* argument, const char* key)
{
   size_t length = strlen(key);
   return strncmp(argument, key, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                                               char** argv)
{
   const char *run_dir = NULL, *value;
   bool counts = false;
   for (int i = 0; i < argc; i++)
      run_dir = (value = after(argv[i], "run-dir")) ? value : run_dir;
   if (!run_dir)
      fail("argument run-dir=PATH is missing");
   ring_attach(run_dir);
   for (int i = 0; i < argc; i++) {
      if (after(argv[i], "run-dir")) {
         continue;
      } else if ((value = after(argv[i], "status"))) {
         status_path = value;
      } else if ((value = after(argv[i], "from"))) {
         char* end;
         wait_for = strtoull(value, &end, 10);
         if (strcmp(value, "start") == 0)
            recording = wanted = true;
         else if (strcmp(value, "mark") != 0 && (*end || wait_for == 0))
            refuse(argv[i], "start, mark, or a number of instructions");
      } else if ((value = after(argv[i], "check"))) {
         hot.checks_all = strcmp(value, "all") == 0;
         if (!hot.checks_all && strcmp(value, "pages") != 0)
            refuse(argv[i], "pages or all");
      } else if ((value = after(argv[i], "count"))) {
         if (strcmp(value, "on") != 0)
            refuse(argv[i], "on");
         counts = true;
      } else {
         refuse(argv[i], "run-dir, from, check, status and count are");
      }
   }
   if (info->version.cur < API_VERSION)
      fail("this QEMU has version %d of the interface for plugins; version %d is needed, which QEMU 9.2 and newer have",
           info->version.cur, API_VERSION);
   if (!info->system_emulation)
      fail("this QEMU runs a program; qemu-system-x86_64, qemu-system-aarch64 and qemu-system-riscv64 run systems");
   static const struct arch* const all[] = { &x86, &aarch64, &riscv };
   for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
      if (strcmp(info->target_name, all[i]->target) == 0)
         arch = all[i];
   if (!arch)
      fail("this QEMU emulates %s; x86_64, aarch64 and riscv64 can be recorded", info->target_name);
   if (info->system.max_vcpus > MAX_VCPUS)
      fail("up to %d virtual processors are asked for; %d can be recorded", info->system.max_vcpus, MAX_VCPUS);
   if (info->system.max_vcpus > info->system.smp_vcpus)
      fail("-smp: %d virtual processors, and up to %d later; all are to be there from the begin, without maxcpus",
           info->system.smp_vcpus, info->system.max_vcpus);
   edges_processors = info->system.smp_vcpus;
   if (edges_processors > 1 && !blocks_know_processors)
      fail("%u virtual processors: on this machine one can be recorded, several on x86-64 only", edges_processors);
   if (counts && info->system.max_vcpus > 1)
      fail("argument count=on is not allowed with several virtual processors: QEMU 10.0 spoils its own counts then");
   if (counts)
      check_on();
   own_id = id;
   edges_reached.score = qemu_plugin_scoreboard_new(sizeof(u64));
   hot.node = &nowhere;
   edges_see_next();
   instrument(id);
   return 0;
}
