/* farreach-mark begin | end | status N: executes a mark, and ends with status 0; 2 if it is called otherwise. A guest
   runs it around the command that is recorded. It needs no library, so that it runs on any root.

   The marks are in farreach-mark.h. */

#include "../farreach-mark.h"

        .text
        .globl  _start
_start: mov     (%rsp), %rcx            /* number of arguments, the name included */
        cmp     $2, %rcx
        jb      wrong
        mov     16(%rsp), %rdx          /* the first argument; its first letter tells which it is */
        movzbl  (%rdx), %eax
        cmp     $'b', %al
        je      begin
        cmp     $'e', %al
        je      end
        cmp     $'s', %al
        jne     wrong
        cmp     $3, %rcx
        jb      wrong

        mov     24(%rsp), %rdx          /* status: decimal digits */
        xor     %edi, %edi
digit:  movzbl  (%rdx), %eax
        sub     $'0', %eax
        cmp     $9, %eax
        ja      last
        imul    $10, %edi
        add     %eax, %edi
        inc     %rdx
        jmp     digit
last:   cmpb    $0, (%rdx)
        jne     wrong
        FARREACH_MARK(FARREACH_MARK_STATUS)
        jmp     done

begin:  FARREACH_MARK(FARREACH_MARK_BEGIN)
        jmp     done
end:    FARREACH_MARK(FARREACH_MARK_END)
done:   xor     %edi, %edi
exit:   mov     $60, %eax
        syscall
wrong:  mov     $2, %edi
        jmp     exit

        .section .note.GNU-stack,"",%progbits
