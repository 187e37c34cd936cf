/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The stream between the recorder (the only writer) and its reader: plain shared memory, and the only thing the two
   have in common. The reader states the same numbers in crates/farreach-live/src/layout.rs; a change here is a new
   FR_VERSION.

   A run owns a directory with these files:

     control   struct fr_control: one for the run, made by the reader, which holds a lock (flock) on it until it ends
     ring.N    struct fr_ring: one per process image, made by the recorder; N from fr_control.next_ring

   A ring has FR_CHUNKS chunks of FR_CHUNK_WORDS words. The writer fills a chunk, publishes it and goes on with the
   next, waiting while all are full. The reader copies the words, clears them to zero and hands the chunk back.
   Publishing takes a place in the one order of the run: seq = head++, order[seq % FR_ORDER] = N + 1.
   A chunk whose writer died before publishing it is readable too: words never written are zero, and no block or record
   begins with a zero word.

   Words of a chunk:

     block     id (1 .. 2^31-1) | address words << 32, then the address words. The address of a data reference is an
               address word plus an offset, both given in FR_DEFINE; references that differ by a constant share a word.
               Words are written in this order, each before its first reference. FR_NOT_EXECUTED: a reference whose
               condition was false; its word is its own. The block runs from its first to its last instruction, unless
               FR_CUT follows.
     record    FR_OP | type << 32 | payload words, then the payload

   Neither crosses the end of a chunk. */

#ifndef FARREACH_STREAM_H
#define FARREACH_STREAM_H

#define FR_MAGIC        0x31484341455252ULL /* in control and in every ring */
#define FR_VERSION      11

#define FR_CHUNKS       8
#define FR_CHUNK_WORDS  32768
#define FR_BLOCK_INSTRS 512   /* most instructions in a block */
#define FR_SPREAD       128   /* most bytes from the first to the last that references of one address word touch */
#define FR_STORE_BYTES  2147483648 /* most bytes in FR_KERNEL_STORE */
#define FR_RING_HEAD    4096  /* bytes before the first chunk */
#define FR_ORDER        65536 /* more than all chunks of all processes that can be alive */

#define FR_OP           (1ULL << 63)
#define FR_NOT_EXECUTED (~0ULL)

struct fr_control {
   unsigned long long magic;
   unsigned version;
   unsigned pid_namespace;       /* of the reader: the inode of /proc/self/ns/pid */
   char     pad0[48];
   unsigned long long head;      /* next place in the order */
   char     pad1[56];
   unsigned wake;                /* futex of the reader: changes with every publication */
   unsigned reader_waits;        /* not 0: wake it */
   char     pad2[56];
   unsigned next_ring;           /* ring numbers, from 0 */
   unsigned next_block;          /* block ids, from 1, unique in the run */
   unsigned closed;              /* the reader is gone: writers end their program */
   unsigned unsized;             /* writers that may not make files as large as a ring, and wait until the reader has */
   char     pad3[48];
   unsigned failed;              /* a recorder could not go on; failure says why */
   char     failure[508];
   char     pad4[3328];
   unsigned order[FR_ORDER];     /* ring + 1; the reader sets it back to 0 */
};

struct fr_ring {
   unsigned long long magic;     /* set last: the ring is usable */
   unsigned pid;
   unsigned foreign;             /* not 0: the PID namespace in which pid is a number, if not the reader's */
   char     pad0[48];
   unsigned long long produced;  /* chunks published so far; chunk i is i % FR_CHUNKS */
   char     pad1[56];
   unsigned long long consumed;  /* chunks handed back; its low half is the futex of the writer */
   unsigned writer_waits;        /* not 0: wake it */
   char     pad2[52];
   unsigned used[FR_CHUNKS];     /* words in a published chunk */
   unsigned number;              /* N of ring.N */
};

/* Records. Payload words are listed from 0; a | b << n shares a word. Text is packed into whole words, zero padded. */
enum fr_record {
   FR_DEFINE = 1,   /* 0: id  1: instructions | references << 32
                       then per instruction pc | length << 57,
                       then per reference after | word << 16 | size << 32 | offset << 50 | store << 63, as in
                       farreach_types::event::DataRef. Words are numbered from 0 in the order of their first references.
                       No instruction stands twice in a block in which a word has two references.
                       Then nothing, or the bytes of all instructions, one behind the other, as text */
   FR_START,        /* a new program image. 0: pid | bytes of text << 32  then the path of the program */
   FR_FORK,         /* 0: ring of the child. The child may write from here on */
   FR_FORKED,       /* 0: ring | pid of the child << 32, 0 if it is a number of another namespace */
   FR_FORK_FAILED,  /* 0: ring. There is no child */
   FR_MAP,          /* 0: start  1: length  2: enum fr_map flags | bytes of text << 32  3: file offset
                       then the file name */
   FR_UNMAP,        /* 0: start  1: length */
   FR_REMAP,        /* 0: old start  1: old length  2: new start  3: new length */
   FR_PROTECT,      /* 0: start  1: length  2: enum fr_map flags */
   FR_ADVISE,       /* 0: start  1: length  2: enum fr_advice */
   FR_THREAD_START, /* 0: thread */
   FR_THREAD_EXIT,  /* 0: thread */
   FR_SWITCH,       /* 0: thread */
   FR_CUT,          /* 0: unused block id  1: address of an instruction. That instruction of the block before faulted:
                       it and all after it did not happen */
   FR_EXEC,         /* an exec is being tried: what follows is FR_EXEC_FAILED, or FR_START of another ring, same pid */
   FR_EXEC_FAILED,
   FR_END,          /* 0: status | signal << 32 (one of them)  1: tally, see FR_TALLY */
   FR_THP,          /* 0: what prctl(PR_GET_THP_DISABLE) says */
   FR_LIMIT,        /* 0: enum fr_limit | bytes of text << 32  1: how often since it was last told  2: address of the
                       instruction, number of the system call, or 0  3: bytes of code  4, 5: the code
                       then the text. The program met a limit of the recorder */

   /* Of whole systems alone (capture/qemu), which write one ring. Addresses of the program have FR_ADDRESS_BITS bits:
      those above are copies of the highest. */
   FR_MACHINE,      /* 0: enum fr_arch | processors << 32  1: bytes of memory. The first record */
   FR_SPACE,        /* 0: number of an address space, from 1, in the order of their first use. It runs from here on */
   FR_NAME,         /* 0: number of an address space | bytes of text << 32  then what it runs */
   FR_PROCESSOR,    /* 0: virtual processor. It runs from here on, in the address space that the next FR_SPACE names */
   FR_PRIVILEGE,    /* 0: 1: the kernel runs from here on, 0: a program */
   FR_REGISTER,     /* 0: enum fr_register  1: the value written */
   FR_ENTRIES,      /* 0: physical address  then words of a page table, from there on */
   FR_INVALIDATE,   /* 0: enum fr_invalidate | tag << 32  1: start  2: bytes */
   FR_EXCEPTION,    /* 0: vector */
   FR_STALE,        /* 0: address of a page of 4 KB  1: its physical address. The processor that runs uses this
                       translation next, of which the tables say something else by now, as it was not told yet */
   FR_SUMMARY,      /* per counter, in the order of enum fr_counter: the count. The last record before FR_END */

   /* Of programs again. */
   FR_KERNEL_STORE  /* 0: address  1: bytes. The kernel stored to them for the program */
};

#define FR_ADDRESS_BITS 57

enum fr_arch { FR_X86 = 1, FR_AARCH64, FR_RISCV64 };

/* CR3, TTBR0_EL1, satp; TTBR1_EL1; CR4, TCR_EL1. */
enum fr_register { FR_ROOT_0, FR_ROOT_1, FR_CONTROL };

enum fr_invalidate {
   FR_TAGGED = 1,    /* the tag counts; else those of any tag */
   FR_ADDRESSED = 2, /* start and bytes count; else all addresses */
   FR_GLOBAL = 4,    /* global ones, too */
   FR_LEAVES = 8,    /* no walk caches */
   FR_BROADCAST = 16 /* on all processors */
};

/* What the recorder checked and met. */
enum fr_counter {
   FR_COMPARED,      /* translations that were compared with the physical address that the emulator gives */
   FR_DIFFERENT,     /* of them those that differed, but for those of FR_STALE */
   FR_CUTS,          /* blocks cut by a fault or otherwise */
   FR_RETRIES,       /* of them those that no exception explains: instructions tried again by the emulator */
   FR_UNKNOWN_EDGES, /* ends of blocks that could not be told to be whole */
   FR_TABLE_FRAMES,  /* frames watched as page tables, over the whole time */
   FR_DEVICE,        /* references to memory that is no RAM */
   FR_UNTRANSLATED,  /* references left out because paging was off or of another format */
   FR_FIRMWARE,      /* references left out because firmware made them, in a mode of its own without translation */
   FR_STALE_USES,    /* references by a translation that the tables do not have any more */
   FR_COUNTERS
};

enum fr_map {
   FR_READ = 1, FR_WRITE = 2, FR_EXECUTE = 4, FR_SHARED = 8,
   FR_EARLY = 16,   /* stack growth in the middle of the block before: the mapping precedes that block */
   /* What is mapped. */
   FR_ANONYMOUS = 0 << 8, FR_HEAP = 1 << 8, FR_STACK = 2 << 8, FR_FILE = 3 << 8, FR_KERNEL = 4 << 8
};

/* Limits. The text goes on behind what the reader says of the kind. */
enum fr_limit {
   FR_LIMIT_INSTRUCTION = 1, /* it cannot run this one; text: where it is */
   FR_LIMIT_SYSTEM_CALL,     /* text: how it failed */
   FR_LIMIT_ADDRESSES,       /* text: what was refused for want of addresses */
   FR_LIMIT_EXEC,            /* text: what was not executed, and why */
   FR_LIMIT_RECORD           /* text: what the record has otherwise than the program */
};

enum fr_advice { FR_DONTNEED, FR_HUGEPAGE, FR_NOHUGEPAGE, FR_WILLNEED, FR_POPULATE, FR_COLLAPSE };

/* What the writer adds up on its own, block by block as they run, and the reader adds up from the words it received. */
#define FR_TALLY(instrs, loads, stores) \
   ((unsigned long long)(instrs) + ((unsigned long long)(loads) << 10) + ((unsigned long long)(stores) << 20))

#endif
