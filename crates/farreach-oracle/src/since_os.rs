//! Operating systems since 2002, each as its own model: superpages in sizes that the memory is fit for ([`tps`],
//! [`solaris`], [`windows`]), promotion that looks at use ([`ingens`], [`hawkeye`]) or reaches 1 GB ([`trident`]),
//! pages that move together ([`ranger`]) or to the nodes that use them ([`carrefour`]), and frames that a hash allows
//! ([`mosaic`]). Quicksilver is with what it builds on, in `reservations`.
//!
//! OP-1 to OP-4 and OS-10 hold, and OS-2 where a model says nothing else. Where the rules leave something open, for
//! all:
//!
//! * ON-1 Memory that may have superpages is private and of no file, and what MADV_HUGEPAGE, MADV_NOHUGEPAGE and prctl
//!   say of it holds, as in LNX-1.
//! * ON-2 A is set by [`Model::walked`](crate::paging::Model::walked) alone, in all entries of a superpage. A split
//!   leaves it, and so does a move; a fork gives the child none. A collapsed superpage has it if one of its pages had.
//! * ON-3 A page is zero (OSC-3) if its frame was zeroed and never stored to. A copy is what it was copied from.
//! * ON-4 Time (OSC-1): a period runs from the moment at which the last one fired, not from when it was due. What is
//!   due at the same time is done in the order in which the rules name it.
//! * ON-5 What a process leaves is free after the event, and what a period leaves after it, if nothing else is said.

pub mod carrefour;
pub mod hawkeye;
pub mod ingens;
pub mod mosaic;
pub mod ranger;
pub mod solaris;
pub mod tps;
pub mod trident;
pub mod windows;

#[cfg(test)]
mod tests;
