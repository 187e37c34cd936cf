/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The parts of the recorder of whole systems. All callbacks run in one host thread (`-accel tcg,thread=single`), so
   there is one state of all, without locks.

     ring.c        the stream: chunks, records, waiting for the reader
     callbacks.c   what runs at each block and each reference
     blocks.c      the shapes that executions of translation blocks have
     code.c        translation blocks, and what is asked of QEMU for each
     edges.c       where an execution ended; processors, exceptions
     tables.c      guest RAM, the tables watched in it
     walk.c        pages that are known
     past.c        what tables said before
     spaces.c      registers of translation, address spaces, invalidations
     registers.c   registers by name, places where exceptions begin
     x86.c, aarch64.c, riscv.c  instructions that matter, formats of tables
     radix.c       what the tables of two of them have in common
     names.c       names of programs
     check.c       a count beside the stream, for tests
     main.c        arguments, installation, begin and end */

#ifndef FARREACH_RECORDER_H
#define FARREACH_RECORDER_H

#include "../valgrind/stream.h"
#include "api.h"

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t  u8;

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ADDRESS_MASK ((1ULL << FR_ADDRESS_BITS) - 1)
#define MAX_VCPUS    64
#define MAX_REFS     64   /* most references of a piece of the stream; an execution with more is several */
#define KNOWN        65536 /* pages in each table of known ones */
#define STAMP_BITS   19 /* of a stamp, those that fit beside a page number */

/* ---- Blocks ---- */

/* What an instruction does beside its references. */
enum does {
   DOES_REPEAT = 1,   /* it can begin again with nothing between: a branch to itself, or one with STRING */
   DOES_STRING = 2,   /* it goes on where it stopped: rep */
   DOES_ROOT_0 = 4, DOES_ROOT_1 = 8, DOES_CONTROL = 16, DOES_MODE = 32, /* writes what decides translation */
   DOES_INVALIDATE = 64, DOES_VECTORS = 128, DOES_CALL = 256, DOES_MARK = 512,
   DOES_WAIT = 2048,  /* the processor may leave the block behind it */
   DOES_PARTS = 1024, /* after a fault it goes on where it stopped: loads and stores of vectors */
   DOES_ZERO = 4096,  /* clears a line of memory, which QEMU shows or not */
   DOES_LINE = 8192,  /* reads how long such a line is */
   DOES_REGISTERS = DOES_ROOT_0 | DOES_ROOT_1 | DOES_CONTROL | DOES_MODE | DOES_INVALIDATE | DOES_VECTORS,
   DOES_EVENT = DOES_REGISTERS | DOES_ZERO, /* what it does is known before it runs, and holds behind it */
   DOES_SPECIAL = DOES_EVENT | DOES_CALL | DOES_MARK
};

/* An instruction of a translation. */
struct insn {
   struct code* code;
   u16 index, does, offset; /* offset: from the first, in bytes */
   u8  length, bytes[15];
};

/* How an instruction made its first reference last. It does so again, most times: then nothing else need be read. The
   guesses of a translation lie in front of its struct code, that of the first instruction next to it. */
struct guess {
   struct node* from;  /* the state before */
   struct node* to;    /* and behind it */
   const u64*   known; /* pages where nothing is to be done for such a reference */
   u32          info;  /* what QEMU says of the reference */
   u16          last;  /* greatest offset in a page at which the reference does not cross into the next */
   u16          index; /* of the instruction */
};

/* A state of an execution: the references so far. The root of a piece has none. */
struct node {
   struct node*       next;  /* the last successor seen, never NULL */
   struct guess*      guess; /* of the instruction that made its last reference, */
   u32                info;  /* and, as in a guess, what QEMU says of that, */
   u16                last;
   bool               store;
   u8                 shift; /* log2 of its bytes */
   u64                word;  /* block word of an execution that ends here and with the translation block; 0: none yet */
   u64                tally;
   const struct insn* insn;  /* and that itself */
   struct node*       parent;
   struct node*       children;
   struct node*       sibling;
   struct end*        ends;
   u16                depth; /* references so far */
   u16                first; /* first instruction of the piece */
};

/* Executions that end in a state, before this instruction. */
struct end {
   struct end* next;
   unsigned    instrs;
   u64         word, tally;
};

/* A translation block at an address. */
struct tb {
   struct node   root;       /* of executions from the first instruction on */
   struct code*  code;
   u64           pc, end;
   u64           known;      /* stamp under which it is the one that runs, and its own pages are known */
   u32           half;       /* of the addresses */
   bool          special;    /* its begins are looked at, */
   struct node*  again;      /* but not where a string instruction that is all of it goes on: root of that piece */
   int           vector;     /* the exception that begins here, -1: none */
   struct tb*    next;       /* of the same code, at another address */
   struct tb*    same_start; /* of a bucket of places */
   struct piece* pieces;     /* roots of pieces that begin elsewhere */
};

/* What QEMU translated. It keeps translations by physical address, so one can run at several virtual ones: a library in
   two processes, or a kernel that began to run where it is loaded. The first fields are one line of the cache. */
struct code {
   struct tb*    now;        /* the address at which it ran last */
   u64           begins;     /* stamp under which that may begin with no more ado */
   struct node*  ended;      /* the state in which an execution ended last, as a whole, */
   u64           word, tally;/* and what it is in the stream */
   u32           instrs, bytes;
   bool          doubled;    /* it is at two addresses of one space */
   u64           hash, pc;   /* pc: where it was translated */
   struct tb*    tbs;
   struct code*  chain;      /* of a bucket */
   struct insn   insn[];
};
#define NO_STAMP (~0ULL)

static inline struct guess* guess_of(const struct code* code, unsigned index)
{
   return (struct guess*)code - 1 - index;
}

static inline const struct insn* insn_of(const struct guess* g)
{
   return &((const struct code*)(g + 1 + g->index))->insn[g->index];
}

/* What the callbacks use all the time. */
struct hot {
   u64*         at;       /* the next word */
   struct node* node;
   u64          stamps[2];/* of both halves, in the place behind page numbers */
   u64*         head;     /* block word of the piece in progress, NULL: none */
   u64*         limit;    /* a block that begins behind it may not fit */
   u64          begins;   /* stamp of the half that runs, 0: the next block is to be looked at */
   u64*         reached;  /* the code whose last instruction the processor began */
   struct code* code;     /* of tb */
   struct tb*   tb;
   u64          tally;
   const void*  state;    /* QEMU's of the processor that runs */
   u64          full[2];  /* stamps of both halves */
   bool         checks_all;
} __attribute__((aligned(64)));
extern struct hot  hot;
extern struct node nowhere; /* is no successor, and has none */

struct node* blocks_successor(struct node*, const struct insn*, u32 info);
void         blocks_open(struct tb*, unsigned first);
void         blocks_close(unsigned end); /* the piece ends before this instruction */
void         blocks_split(void);
void         blocks_zeroed(const struct insn*, u64 va, unsigned bytes);
unsigned     blocks_done(void);

/* ---- Callbacks ---- */

extern const bool blocks_know_processors; /* which one runs, of several */
void   callbacks_block(unsigned vcpu, void* code);
void   callbacks_last(unsigned vcpu, void* code); /* the last instruction begins */
mem_cb callbacks_access(const struct insn*);      /* with its guess */

/* ---- Translations ---- */

void*      keep(size_t bytes, size_t alignment); /* memory of zeros, for good; alignment: up to 64 */
void       code_translated(qemu_plugin_id_t, struct qemu_plugin_tb*);
struct tb* code_at(u64 pc, struct tb* after); /* those that begin there, one after the other */
struct tb* code_run(struct code*, u64 pc);    /* it runs at this address */
void       code_classify(struct tb*);

/* ---- Edges, processors ---- */

/* What an instruction does to registers, entries and memory. */
struct event {
   u32 does, index;
   u64 value, start, bytes, flags;
};
#define FR_NO_INVALIDATE (~0ULL)

struct vcpu {
   bool          seen;       /* in this recording */
   bool          introduced; /* to the reader */
   bool          translates; /* 64-bit paging is on */
   const void*   state;      /* QEMU's */
   u64           reached;    /* the code whose last instruction it began, while another runs */
   u64           root[2], control, mode, efer, told_control;
   struct space* space;
   unsigned      half;
   struct event  event;
   struct tb*    tb;         /* what it was in when another took over, and the first instruction that is not told */
   unsigned      first;
   unsigned      stop;       /* the block in progress ended before this instruction; 0: it goes on */
};
extern struct vcpu     vcpus[MAX_VCPUS];
extern struct vcpu*    vcpu; /* the one that runs */
extern bool            recording;
extern u64             counters[FR_COUNTERS];
extern bool            vectors_stored;
extern qemu_plugin_u64 edges_reached;

struct tb* edges_begin(const void* state, struct code*); /* NULL: it is not to be begun */
const struct insn* edges_access(const void* state, const struct insn*); /* NULL: it is not recorded */
void edges_special(const struct insn*);
void edges_after(const struct insn*); /* the one before it was such one */
void edges_see_next(void);   /* the next block begins through edges_begin */
void edges_finish_all(void);
void edges_forget_told(void); /* the processor that runs is to be told before the next block */
void edges_thread(void);
extern unsigned edges_processors;

/* ---- Tables ---- */

struct frame {
   u64           word[512]; /* as told last */
   struct space* owner;     /* of the lower half, the first that was seen */
   struct space* spaces;    /* whose root is here */
   u64           changes;   /* number of the last change of a word, see past.c */
   u64           first;     /* address of what its first entry leads to, in units of 2^shift bytes */
   u8            shift;     /* 0: not known */
   u8            levels;    /* bit of each level at which it was used, bit 0: the last */
   bool          several;   /* it is at several addresses */
   bool          watched, kernel, shared, vectors;
};

struct walk {
   u64  pa;
   bool found;
};

void  tables_find_ram(void);
u64   tables_ram_bytes(void);
u64*  tables_word(u64 pa);  /* NULL: no RAM */
struct frame* tables_frame(u64 pa); /* NULL: it has never been of interest */
u64   tables_place(u64 pa); /* in RAM, ~0: none */
void  walk_has_ram(u64 bytes);
struct frame* tables_use(u64 pa, int level, bool kernel);
void  tables_walk(u64 pa, int level, unsigned shift, u64 va); /* this entry, for 2^shift bytes, is on the way to va */
bool  tables_watched(u64 pa);
bool  tables_has_vectors(u64 pa);
void  tables_watch_vectors(u64 pa);
void  tables_stored(const struct walk*, unsigned bytes);
void  tables_stored_unseen(u32 info, u64 va);
u64   tables_missed(u64 root); /* words of which a store was not seen */
void  tables_forget(void);

/* ---- Walks ---- */

enum { LOADS, STORES };
extern u64 known[2][KNOWN]; /* of each the page and its stamp */

u64  canonical(u64 va);
void walk_known_clear(void);
bool walk_forget(u64 page, u64 pages); /* false: not done, as they are many or run */
void walk_forget_stores(u64 place);
bool walk_fetch(u64 pc);
bool walk_stale(u64 va, u64 pa, struct walk*); /* a translation that the processor may still use; false: it has none */
void walk_access(u32 info, u64 va, unsigned bytes, bool store, struct walk to[2]);
bool walk_read(u64 va, void* to, unsigned bytes); /* guest memory, without a trace */

/* ---- What tables said before ---- */

#define PAST_ANY (~0ULL)

void        past_changed(struct frame*, u64 pa, u64 before); /* a word */
void        past_dropped(const struct vcpu*, u64 start, u64 bytes); /* translations; NULL: by all processors */
struct walk past_walk(u64 va, u64 pa); /* not found: the running processor has no translation that leads there */
u64         past_word(u64 pa, const u64* word); /* of a table that is walked */

/* ---- Spaces, registers ---- */

struct space {
   u32           number;
   u64           root, tag, stamp, all;
   bool          used, emptied; /* the lower half had entries; and has none any more */
   bool          entered;       /* a program ran in it */
   struct space* chain;
   struct space* in_frame;
   struct frame* frame;
   char          name[256];
};

void spaces_read_registers(void);
void spaces_introduce(void);
void spaces_take_over(void);
void spaces_after(void);
void spaces_changed(struct frame*);
void spaces_all_changed(void);
bool spaces_root_stored(struct frame*);
bool spaces_root_dead(const struct frame*);
void spaces_leave_frame(struct frame*);

enum { REG_GENERAL = 0, REG_ROOT_0 = 32, REG_ROOT_1, REG_CONTROL, REG_MODE, REG_EFER, REG_VECTORS, REG_RETURN, REG_FS,
       REG_GS, REG_FLAGS, REG_PC, REG_CAUSE, REG_FIRMWARE_VECTORS, REG_FIRMWARE_RETURN, REG_FIRMWARE_CAUSE, REGISTERS };

void registers_find(void);
u64  register_value(int which);
bool register_exists(int which);
int  vectors_find(u64 pc); /* -1: none begins there */
void vectors_add(u64 pc, int vector);

/* What begins at a vector: the number of an exception or interrupt, as it is told. */
#define NO_TRAP       (-1)
#define FIRMWARE_TRAP (1LL << 32) /* it is not told, and what follows is not recorded */
int64_t vectors_trap(int vector); /* the vector itself */

/* ---- Architectures ---- */

#define NO_FIRMWARE (~0ULL)

enum entry { ENTRY_NONE, ENTRY_TABLE, ENTRY_LEAF };

struct arch {
   enum fr_arch number;
   const char*  target;
   u64          ram_base;  /* where RAM begins */
   const int*   needs;     /* registers, -1 behind the last */
   u64          soft_bits; /* of an entry, which say nothing of where it leads */
   u64          frame_bits; /* of an entry, which say where it leads */
   u64          format;    /* bits of FR_CONTROL that decide where tables lead */
   u64          writes_noted, write_bit; /* where the first is set, the processor changes the second at a store */
   int          status, call, stack; /* registers: a mark's exit status, number of a call, stack pointer */
   const int*   forks;     /* calls that make a child, 0 behind the last */
   bool (*is_call)(u32 bytes); /* that end so */
   void (*decode)(struct insn*);
   int  (*mark)(const struct insn*); /* 0: it is none */
   int  (*register_named)(const char* name);
   bool (*translates)(const struct vcpu*);
   void (*before)(const struct insn*, u64 pc); /* fills vcpu->event */
   struct walk (*walk)(u64 va, bool tell);
   u64  (*root)(u64 value);
   u64  (*table)(u64 word, int level, u64* bytes); /* that an entry leads to, 0: none */
   int  (*levels)(void); /* with RADIX_TABLES, as the next one */
   enum entry (*entry)(u64 word, int level, u64* to, unsigned* shift); /* shift: of a leaf, if it is no usual one */
   struct frame* (*use_root)(u64 root);
   unsigned (*lower_entries)(void);
   u64  (*upper_sign)(void); /* two roots with this in common have the same upper half */
   u64  (*tag)(void);
   void (*vectors)(void);
   int64_t (*trap)(int vector); /* see above */
   bool (*fault)(int64_t trap); /* the guest resumes at the instruction that did not happen */
   bool (*resume)(int64_t trap, u64* pc);
   u64 firmware_mode;  /* value of the mode in which firmware runs, without translation */
   u16 state_words[2]; /* between which words of its state QEMU has the program counter */
};
extern const struct arch x86, aarch64, riscv, *arch;

struct walk   radix_walk(u64 va, bool tell);
u64           radix_table(u64 word, int level, u64* bytes);
struct frame* radix_use_root(u64 root);
unsigned      radix_lower_entries(void);
u64           radix_upper_sign(void);
#define RADIX_TABLES                                                                                                \
   .walk = radix_walk, .table = radix_table, .use_root = radix_use_root, .lower_entries = radix_lower_entries,      \
   .upper_sign = radix_upper_sign

void x86_vectors_loaded(unsigned number, u32 info, u64 va, void*);
void aarch64_line_known(unsigned number, void* insn); /* behind the instruction, which is DOES_LINE */

/* ---- Names ---- */

void names_call(u64 pc_behind);
void names_entered(u64 pc);

/* ---- The stream ---- */

void ring_attach(const char* run_dir);
void ring_open(void);
bool ring_is_open(void);
bool ring_stopped(void);
u64* ring_record(u32 type, u32 words); /* in front of the piece in progress */
u64* ring_text(u64* to, const char* text, unsigned bytes);
void ring_publish(void);
u32  ring_new_block(void);
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char* format, ...);

/* ---- Begin, end, the count beside the stream ---- */

extern bool ending;
void main_mark(int mark);
void main_ended(void);

void check_on(void);
void check_count(struct qemu_plugin_insn*, bool refs);
void check_left(int instrs, int refs); /* out of the stream, though QEMU began them */
void check_untranslated(bool);         /* instructions from here on are not in the stream */
void check_begin(void);
void check_end(void);
void check_print(void);

#endif
