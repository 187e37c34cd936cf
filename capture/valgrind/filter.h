/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Programs of seccomp filters: classic BPF, in the part that the system allows there. */

#ifndef FARREACH_FILTER_H
#define FARREACH_FILTER_H

#include "recorder.h"

/* What a filter is given: struct seccomp_data of the system. */
struct fr_call {
   Int   number;
   UInt  architecture;
   ULong instruction; /* behind the one that makes the call */
   ULong args[6];
};

/* One instruction: struct sock_filter of the system. */
struct fr_step {
   UShort code;
   UChar  then, otherwise;
   UInt   k;
};

/* Filters are made once and never changed; threads and children share them. */
struct filter {
   struct filter* older;
   UInt           steps;
   struct fr_step step[];
};

/* Verdicts; the low 16 bits are data. */
#define FR_FILTER_ACTION       0xffff0000U
#define FR_FILTER_KILL_PROCESS 0x80000000U
#define FR_FILTER_KILL_THREAD  0x00000000U
#define FR_FILTER_TRAP         0x00030000U
#define FR_FILTER_ERRNO        0x00050000U
#define FR_FILTER_NOTIFY       0x7fc00000U
#define FR_FILTER_TRACE        0x7ff00000U
#define FR_FILTER_LOG          0x7ffc0000U
#define FR_FILTER_ALLOW        0x7fff0000U

Long filter_make(Addr program, struct filter* older, struct filter** made); /* of struct sock_fprog; 0 or -error */
UInt filter_judge(const struct filter* newest, const struct fr_call* call); /* the strictest verdict of all */
Bool filter_knows(UInt verdict);
Int  filter_save(const struct filter* newest); /* into a file without a name that an exec passes on; -1: it cannot */
struct filter* filter_load(Int fd);            /* and closes it */

#endif
