/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

#ifndef FARREACH_SEGMENT_H
#define FARREACH_SEGMENT_H

/* segment.c: a piece of a superblock that is one block of the stream, and its references. */

#include "recorder.h"

/* A data reference of the segment. */
struct ref {
   Int     stmt;  /* the statement of the superblock that makes it */
   UInt    after; /* instructions of the segment fetched before it */
   UInt    size;
   Bool    store;
   IRExpr* addr;
   ULong   below; /* bytes by which it lies below addr */
   IRExpr* guard; /* NULL: always happens */
   UInt    word;  /* its address word, see share_words */
   Bool    first; /* of that word: the word is written before it */
};

#define MAX_REFS (SUPERBLOCK_WORDS - 2 * FR_BLOCK_INSTRS)

/* References that share an address word: all lie in span bytes from low on, an offset from the value of their root. */
struct word {
   ULong low;
   UInt  span;
   UInt  next; /* word of the segment with the same root, NONE if there is none */
};

struct segment {
   UInt        instrs, refs, words;
   ULong       instr[FR_BLOCK_INSTRS];
   struct ref  ref[MAX_REFS];
   struct word word[MAX_REFS];
};

/* The instruction being read. */
struct insn {
   Addr        at;
   UInt        len;     /* 0: none */
   struct code code;
   UInt        first;   /* its first reference */
   Bool        waits;   /* it is counted when it has passed the exit with which it begins, see begins_with_exit */
   IRExpr*     operand; /* address of its memory operand, if that is not where the core touches memory; else NULL */
   UInt        size;    /* and size of that */
   Bool        header;  /* of XSAVE and XRSTOR: its reference is there */
};

/* Both as of the last call of segment_scan. */
extern struct segment segment;
extern struct insn    insn;

void  segment_begin(const IRSB*);        /* a new superblock */
void  segment_learn(const IRStmt*);      /* of a statement in front of the first segment */
Int   segment_scan(const IRSB*, Int i);  /* collects the segment that begins at statement i; the statement behind it */
UInt  segment_define(void);              /* tells the reader about the segment; its id */
UInt  segment_define_insn(void);         /* about a block that is the instruction alone, without references; its id */
ULong segment_tally(void);
/* Whether the value of the reference's word is that of its address; else it is `plus` more than `root`, which is
   IRTemp_INVALID if the address is a constant. */
Bool  segment_word_is_address(const struct ref*, IRTemp* root, ULong* plus);

#endif
