/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* What is used of QEMU's interface for plugins, version 4 (QEMU 9.2 and newer). Debian has no package with its header,
   qemu-plugin.h, so the facts are stated here. */

#ifndef FARREACH_API_H
#define FARREACH_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_VERSION 4

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_plugin_scoreboard;
struct qemu_plugin_register;

typedef struct {
   const char* target_name;
   struct { int min, cur; } version;
   bool system_emulation;
   struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;

/* A place of 64 bits per virtual processor. */
typedef struct {
   struct qemu_plugin_scoreboard* score;
   size_t offset;
} qemu_plugin_u64;

typedef struct {
   struct qemu_plugin_register* handle;
   const char* name;
   const char* feature;
} qemu_plugin_reg_descriptor;

enum { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
enum { QEMU_PLUGIN_INLINE_ADD_U64, QEMU_PLUGIN_INLINE_STORE_U64 };

/* What an access loaded or stored. Type: log2 of its bytes. */
typedef struct {
   int type;
   union {
      uint8_t u8;
      uint16_t u16;
      uint32_t u32;
      uint64_t u64;
      struct { uint64_t low, high; } u128;
   } data;
} qemu_plugin_mem_value;

/* Of GLib, in which QEMU hands out registers. */
typedef struct { uint8_t* data; unsigned len; } GByteArray;
typedef struct { char* data; unsigned len; } GArray;
GByteArray* g_byte_array_new(void);
GByteArray* g_byte_array_set_size(GByteArray*, unsigned);
char*       g_array_free(GArray*, int segment);

typedef void (*simple_cb)(qemu_plugin_id_t);
typedef void (*user_cb)(qemu_plugin_id_t, void*);
typedef void (*vcpu_cb)(qemu_plugin_id_t, unsigned vcpu);
typedef void (*exec_cb)(unsigned vcpu, void*);
typedef void (*mem_cb)(unsigned vcpu, qemu_plugin_meminfo_t, uint64_t vaddr, void*);
typedef void (*trans_cb)(qemu_plugin_id_t, struct qemu_plugin_tb*);

void qemu_plugin_reset(qemu_plugin_id_t, simple_cb);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, trans_cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, user_cb, void*);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb*, exec_cb, int flags, void*);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*, exec_cb, int flags, void*);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn*, int op, qemu_plugin_u64, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*, mem_cb, int flags, int rw, void*);
void qemu_plugin_register_vcpu_mem_inline_per_vcpu(struct qemu_plugin_insn*, int rw, int op, qemu_plugin_u64, uint64_t);

size_t   qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
size_t   qemu_plugin_insn_data(const struct qemu_plugin_insn*, void* to, size_t bytes);
size_t   qemu_plugin_insn_size(const struct qemu_plugin_insn*);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn*);

unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool     qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t);
struct qemu_plugin_hwaddr* qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t vaddr);
bool     qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr*);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr*);

struct qemu_plugin_scoreboard* qemu_plugin_scoreboard_new(size_t bytes);
void*    qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard*, unsigned vcpu);
GArray*  qemu_plugin_get_registers(void);
int      qemu_plugin_read_register(struct qemu_plugin_register*, GByteArray*);

#endif
