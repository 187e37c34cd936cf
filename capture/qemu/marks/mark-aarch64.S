/* farreach-mark for AArch64: see mark-x86_64.S. */

#include "../farreach-mark.h"

        .text
        .globl  _start
_start: ldr     x1, [sp]                /* number of arguments, the name included */
        cmp     x1, #2
        b.lo    wrong
        ldr     x2, [sp, #16]           /* the first argument; its first letter tells which it is */
        ldrb    w3, [x2]
        cmp     w3, #'b'
        b.eq    begin
        cmp     w3, #'e'
        b.eq    end
        cmp     w3, #'s'
        b.ne    wrong
        cmp     x1, #3
        b.lo    wrong

        ldr     x2, [sp, #24]           /* status: decimal digits */
        mov     w0, #0
        mov     w4, #10
digit:  ldrb    w3, [x2], #1
        sub     w5, w3, #'0'
        cmp     w5, #9
        b.hi    last
        madd    w0, w0, w4, w5
        b       digit
last:   cbnz    w3, wrong
        FARREACH_MARK(FARREACH_MARK_STATUS)
        b       done

begin:  FARREACH_MARK(FARREACH_MARK_BEGIN)
        b       done
end:    FARREACH_MARK(FARREACH_MARK_END)
done:   mov     w0, #0
exit:   mov     w8, #93
        svc     #0
wrong:  mov     w0, #2
        b       exit

        .section .note.GNU-stack,"",%progbits
