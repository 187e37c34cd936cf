/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Names of programs, as far as the guest's calls tell: a program that calls execve goes on in an address space that no
   call led back to. */

#include <string.h>

#include "recorder.h"

void names_call(void) { }
void names_entered(struct tb* tb) { (void)tb; }
void names_switched(struct space* from, struct space* to) { (void)from, (void)to; }
